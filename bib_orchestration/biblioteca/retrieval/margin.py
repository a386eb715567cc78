"""How much each sentence of the retrieved chunks matters: by its words, its vector, and what is around it.

With z(x) = x standardised over all candidate sentences of the question:

    own = 3 x the mean of z(cosine), z(BM25), z(chunk's cosine) and z(chunk's BM25), weighted 1, w, 0.5 and w
    score = own + 0.5 max(own of the sentence before, own of the one after)

A sentence stays when its score is at most `margin` below the best: what is compared is how far it falls behind,
which means the same for a question with one good sentence and for one with twenty.

w, the weight of words, is 1 while the corpus knows the question's words, and falls with the square of the share
that it knows: a question in another language shares a few names with the corpus, which say little. Since it is a
mean that is compared, one margin serves both.

The weights were chosen on halves of XQuAD's articles and hold on the other halves: benchmarks/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.retrieval.chunk import Origin, Question, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.lexical import Bm25, question_stems, saturated, stems

# What the mean is scaled to: the sum of the weights that margins were first measured with.
SCALE = 3.0
# The share of a question's words, each counted by its idf, from which words weigh in full.
WELL_KNOWN = 0.8

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much beside a sentence's own cosine, which counts 1; those of words are times w.

    words: its BM25. chunk_cosine, chunk_words: those of its chunk. neighbour: the better of the two beside it.
    """

    words: float = 1.0
    chunk_cosine: float = 0.5
    chunk_words: float = 1.0
    neighbour: float = 0.5


WEIGHTS = Weights()


def margin_scores(
    question: Question,
    chunks: Sequence[RetrievedChunk],
    cosines: NDArray[np.floating],
    candidates: NDArray[np.bool_],
    weights: Weights = WEIGHTS,
) -> Scores:
    """The score of each sentence of all chunks, in their order; -inf of those that are no candidates.

    `cosines` are the sentences', and `candidates` tells which of them can answer anything. Chunks that do not
    say from which index they come are scored by vectors alone.
    """
    of_chunk = np.repeat(np.arange(len(chunks)), [len(chunk.spans) for chunk in chunks])
    chunk_cosines = np.array([chunk.cosine for chunk in chunks])[of_chunk]
    parts: list[tuple[float, NDArray[np.floating]]] = [(1.0, cosines), (weights.chunk_cosine, chunk_cosines)]
    origin = next((chunk.origin for chunk in chunks if chunk.origin is not None), None)
    if origin is not None:
        idf = _idf(question, origin)
        weight = word_weight(idf, origin.lexical)
        if weight:
            of_sentences, of_chunks = _bm25(chunks, origin, idf)
            parts.append((weight * weights.words, of_sentences))
            parts.append((weight * weights.chunk_words, of_chunks[of_chunk]))
    total = sum(weight for weight, _ in parts)
    own = np.zeros(len(cosines))
    for weight, values in parts:
        own += SCALE * weight / total * _standardised(values, candidates)
    own[~candidates] = -np.inf
    return own + weights.neighbour * _best_neighbour(own, of_chunk)


def word_weight(idf: Mapping[str, float], lexical: Bm25) -> float:
    """How much words count, from 0 to 1, for a question with stems of these idf."""
    known = sum(value for stem, value in idf.items() if lexical.knows(stem))
    return min(1.0, known / sum(idf.values()) / WELL_KNOWN) ** 2 if known else 0.0


def _idf(question: Question, origin: Origin) -> dict[str, float]:
    return {stem: origin.lexical.idf(stem) for stem in question_stems(question.text, origin.languages)}


def _bm25(
    chunks: Sequence[RetrievedChunk], origin: Origin, idf: Mapping[str, float]
) -> tuple[Scores, Scores]:
    """BM25 of each sentence of all chunks, and of each chunk, headings included."""
    lines = [[_Counted(line.split(), idf) for line in _stem_lines(chunk, origin)] for chunk in chunks]
    sentences = [line for each in lines for line in each[1:]]
    mean = sum(sentence.length for sentence in sentences) / max(len(sentences), 1)
    return (
        np.array([sentence.score(idf, mean) for sentence in sentences]),
        np.array([_joined(each).score(idf, origin.lexical.mean_length) for each in lines]),
    )


class _Counted:
    """How often each of some stems stands in a text, and how long it is."""

    __slots__ = ("counts", "length")

    def __init__(self, words: Sequence[str], wanted: Mapping[str, float]) -> None:
        self.length = len(words)
        # In the order of `wanted`, so that sums are the same on each run.
        self.counts = {stem: count for stem in wanted if (count := words.count(stem))}

    def score(self, idf: Mapping[str, float], mean_length: float) -> float:
        terms = (
            idf[stem] * saturated(count, self.length, mean_length) for stem, count in self.counts.items()
        )
        return float(sum(terms))


def _joined(lines: Sequence[_Counted]) -> _Counted:
    whole = _Counted((), {})
    for line in lines:
        whole.length += line.length
        for stem, count in line.counts.items():
            whole.counts[stem] = whole.counts.get(stem, 0) + count
    return whole


def _stem_lines(chunk: RetrievedChunk, origin: Origin) -> Sequence[str]:
    """The stems of a chunk's headings and of each sentence; made now where none are stored with it."""
    if len(chunk.stems) == len(chunk.spans) + 1:
        return chunk.stems
    texts = [f"{chunk.title} {chunk.heading_path}", *(chunk.text[start:end] for start, end in chunk.spans)]
    # Its language is not known: by the rules of each that the index has.
    return [
        " ".join(stem for language in origin.languages for stem in stems(text, language)) for text in texts
    ]


def _standardised(values: NDArray[np.floating], counted: NDArray[np.bool_]) -> Scores:
    """`values` less the mean of those that are counted, by their standard deviation; 0 where they are all equal."""
    if not counted.any():
        return np.zeros(len(values))
    among = values[counted].astype(np.float64)
    deviation = float(among.std())
    # Equal values differ in their last digits.
    return (values - among.mean()) / deviation if deviation > 1e-9 else np.zeros(len(values))


def _best_neighbour(own: Scores, of_chunk: NDArray[np.int64]) -> Scores:
    """Of each sentence, the higher score of the two beside it in its chunk; 0 where there is none."""
    before, after = (np.full(len(own), -np.inf) for _ in range(2))
    adjacent = of_chunk[1:] == of_chunk[:-1]
    before[1:][adjacent] = own[:-1][adjacent]
    after[:-1][adjacent] = own[1:][adjacent]
    best: Scores = np.maximum(before, after)
    best[~np.isfinite(best)] = 0.0
    return best
