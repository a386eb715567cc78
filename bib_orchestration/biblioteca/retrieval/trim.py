"""Trimming: of each retrieved chunk, the sentences that matter to the question.

A sentence stays when its cosine with the question reaches the threshold, and so do `window` neighbours on
either side; each chunk keeps at least `min_sentences`: its best, which bring their neighbours too. They stay
in document order, each at most once, and `[...]` marks every gap between what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.retrieval.chunk import Question, RetrievalOptions, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.sentences import split_spans

GAP = "[...]"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def trim_chunks(
    question: Question,
    chunks: Sequence[RetrievedChunk],
    options: RetrievalOptions,
    *,
    embed: Embed | None = None,
) -> list[RetrievedChunk]:
    """The chunks with their content trimmed; ids, scores and sources stay.

    Sentence vectors come with the chunks. Those of chunks that have none are made by `embed`, in one batch;
    ValueError when one is needed and none is given, and for a chunk that is trimmed already: the rest of it
    is gone.
    """
    if cut := [chunk.content_id for chunk in chunks if chunk.trimmed]:
        raise ValueError(f"already trimmed, and only whole chunks can be: {', '.join(cut)}")
    complete = _with_sentences(chunks, embed, len(question.vector))
    return [_trimmed(chunk, _cosines(question, chunk), options) for chunk in complete]


def kept_sentences(
    scores: Sequence[float] | NDArray[np.floating], *, threshold: float, window: int, min_sentences: int
) -> list[int]:
    """Which sentences of a chunk stay, as indices in document order.

    >>> kept_sentences([0.1, 0.52, 0.1, 0.05, 0.0, 0.61, 0.12], threshold=0.38, window=1, min_sentences=1)
    [0, 1, 2, 4, 5, 6]
    >>> kept_sentences([0.1, 0.2, 0.3], threshold=0.38, window=1, min_sentences=1)
    [1, 2]
    """
    # Vectors are float32, so the threshold is compared as one: 0.38 reaches 0.38.
    values = np.asarray(scores, np.float32)
    kept: set[int] = set()
    best_first = sorted(range(len(values)), key=lambda index: (-float(values[index]), index))
    for index in best_first:
        if values[index] >= np.float32(threshold) or len(kept) < min_sentences:
            kept.update(range(max(0, index - window), min(len(values), index + window + 1)))
    return sorted(kept)


def text_of(text: str, spans: Sequence[tuple[int, int]], kept: Sequence[int]) -> str:
    """The kept sentences of `text`, runs as they stand in it, with a mark at each gap between two runs.

    >>> text_of("Uno. Dos. Tres.", [(0, 4), (5, 9), (10, 15)], [0, 2])
    'Uno. [...] Tres.'
    """
    if len(kept) == len(spans):
        return text
    parts: list[str] = []
    previous_end = 0
    for start, end in runs(spans, kept):
        if parts:
            # Within a paragraph the mark stands in the line; elsewhere it must not become part of a block.
            within = "\n" not in text[previous_end:start]
            parts.append(f" {GAP} " if within else f"\n\n{GAP}\n\n")
        parts.append(text[start:end])
        previous_end = end
    return "".join(parts)


def runs(spans: Sequence[tuple[int, int]], kept: Sequence[int]) -> list[tuple[int, int]]:
    """The spans of the text that stays: neighbours joined."""
    joined: list[tuple[int, int]] = []
    for position, index in enumerate(kept):
        start, end = spans[index]
        if position and kept[position - 1] == index - 1:
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def _trimmed(
    chunk: RetrievedChunk, cosines: NDArray[np.float32], options: RetrievalOptions
) -> RetrievedChunk:
    kept = kept_sentences(
        cosines,
        threshold=options.trim_threshold,
        window=options.trim_window,
        min_sentences=options.trim_min_sentences,
    )
    if len(kept) == len(chunk.spans):
        return replace(chunk, kept=((0, len(chunk.text)),), trimmed=True)
    return replace(
        chunk, text=text_of(chunk.text, chunk.spans, kept), kept=tuple(runs(chunk.spans, kept)), trimmed=True
    )


def _cosines(question: Question, chunk: RetrievedChunk) -> NDArray[np.float32]:
    assert chunk.sentence_vectors is not None
    cosines: NDArray[np.float32] = chunk.sentence_vectors @ question.vector
    return cosines


def _with_sentences(
    chunks: Sequence[RetrievedChunk], embed: Embed | None, dimension: int
) -> list[RetrievedChunk]:
    """The chunks, each with spans and vectors of its sentences."""
    bare = {number: split_spans(chunk.text) for number, chunk in enumerate(chunks) if not chunk.has_sentences}
    if not bare:
        return list(chunks)
    if embed is None:
        raise ValueError(
            f"{len(bare)} chunks come without sentence vectors, and no `embed` was given to make them"
        )
    sentences = [chunks[number].text[start:end] for number, spans in bare.items() for start, end in spans]
    vectors = embed(sentences) if sentences else np.empty((0, dimension), np.float32)
    complete = list(chunks)
    first = 0
    for number, spans in bare.items():
        own = vectors[first : first + len(spans)]
        complete[number] = replace(chunks[number], spans=tuple(spans), sentence_vectors=own)
        first += len(spans)
    return complete
