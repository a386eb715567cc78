"""Trimming: of each retrieved chunk, the sentences that matter to the question.

Three modes tell which they are:

- "cosine": those whose cosine with the question reaches a threshold, and `window` neighbours on either side.
- "cosine-auto": the same, with the threshold that the index was calibrated to (see `calibration`), and each
  sentence seen with its neighbours.
- "margin": those that are not far behind the best sentence of all the chunks, by words and vectors (`margin`).

In each mode a chunk keeps at least `min_sentences`: its best. They stay in document order, each at most once,
and `[...]` marks every gap between what was kept. Tables and lists stay whole, and nothing stays alone that says
nothing (`wholes`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.neighbours import SCORE_DECIMALS
from bib_orchestration.biblioteca.retrieval.calibration import FEWEST_SENTENCES, Calibration, in_context
from bib_orchestration.biblioteca.retrieval.chunk import (
    Question,
    Retrieval,
    RetrievalOptions,
    RetrievedChunk,
)
from bib_orchestration.biblioteca.retrieval.margin import margin_scores
from bib_orchestration.biblioteca.retrieval.sentences import split_spans
from bib_orchestration.biblioteca.retrieval.wholes import Wholes, wholes_of

GAP = "[...]"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]

log = logging.getLogger(__name__)


def trim_chunks(
    question: Question,
    chunks: Sequence[RetrievedChunk],
    options: RetrievalOptions,
    *,
    embed: Embed | None = None,
) -> list[RetrievedChunk]:
    """The chunks with their content trimmed; ids, scores and sources stay.

    With `min_sentences` 0, a chunk of which nothing stays is left out; with 1 or more, none is.

    Sentence vectors come with the chunks. Those of chunks that have none are made by `embed`, in one batch;
    ValueError when one is needed and none is given, and for a chunk that is trimmed already: the rest of it
    is gone.
    """
    if cut := [chunk.content_id for chunk in chunks if chunk.trimmed]:
        raise ValueError(f"already trimmed, and only whole chunks can be: {', '.join(cut)}")
    complete = _with_sentences(chunks, embed, len(question.vector))
    wholes = [wholes_of(chunk.text, chunk.spans) for chunk in complete]
    kept = _kept_by_margin if options.trim_mode == "margin" else _kept_by_cosine
    trimmed = [
        _trimmed(chunk, whole.completed(numbers))
        for chunk, whole, numbers in zip(
            complete, wholes, kept(question, complete, wholes, options), strict=True
        )
    ]
    return [chunk for chunk in trimmed if chunk.kept or options.trim_min_sentences > 0]


def trim_retrieval(question: Question, found: Retrieval, options: RetrievalOptions) -> Retrieval:
    """What was found, trimmed; it knows of the chunks that were let go."""
    chunks = tuple(trim_chunks(question, found.chunks, options))
    staying = {chunk.content_id for chunk in chunks}
    return Retrieval(chunks, tuple(chunk for chunk in found.chunks if chunk.content_id not in staying))


def kept_sentences(
    scores: Sequence[float] | NDArray[np.floating],
    *,
    threshold: float,
    window: int,
    min_sentences: int,
    candidates: Collection[bool] | None = None,
) -> list[int]:
    """Which sentences of a chunk stay, as indices in document order.

    Those that are no `candidates` (all are by default) stay only beside one that does, or when there are too few
    others.

    >>> kept_sentences([0.1, 0.52, 0.1, 0.05, 0.0, 0.61, 0.12], threshold=0.38, window=1, min_sentences=1)
    [0, 1, 2, 4, 5, 6]
    >>> kept_sentences([0.1, 0.2, 0.3], threshold=0.38, window=1, min_sentences=1)
    [1, 2]
    """
    # Vectors are float32, so the threshold is compared as one: 0.38 reaches 0.38.
    values = np.asarray(scores, np.float32)
    if candidates is not None:
        values = np.where(np.fromiter(candidates, bool, len(values)), values, -np.inf)
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


# --- which sentences stay, of each chunk


def _kept_by_cosine(
    question: Question, chunks: Sequence[RetrievedChunk], wholes: Sequence[Wholes], options: RetrievalOptions
) -> list[list[int]]:
    calibration = next((chunk.origin.calibration for chunk in chunks if chunk.origin is not None), None)
    alone = options.trim_mode == "cosine"
    threshold = options.trim_threshold
    if alone:
        _warn_of_odd_threshold(threshold, calibration)
    elif calibration is None:
        _warn(
            f"trim_mode is cosine-auto, and the index is not calibrated: the threshold is {threshold:g}; "
            "`bib index` calibrates it"
        )
    else:
        threshold = calibration.threshold
    return [
        kept_sentences(
            _cosines(question, chunk, alone=alone),
            threshold=threshold,
            window=options.trim_window,
            min_sentences=options.trim_min_sentences,
            candidates=whole.speaks,
        )
        for chunk, whole in zip(chunks, wholes, strict=True)
    ]


def _kept_by_margin(
    question: Question, chunks: Sequence[RetrievedChunk], wholes: Sequence[Wholes], options: RetrievalOptions
) -> list[list[int]]:
    if not any(chunk.spans for chunk in chunks):
        return [[] for _ in chunks]
    cosines = np.concatenate([_cosines(question, chunk, alone=True) for chunk in chunks])
    candidates = np.array([speaks for whole in wholes for speaks in whole.speaks])
    # Rounded as all scores are: further digits depend on the machine.
    scores = margin_scores(question, chunks, cosines, candidates).round(SCORE_DECIMALS)
    # Where nothing can answer, nothing is near the best.
    threshold = float(scores.max()) - options.trim_margin if candidates.any() else np.inf
    ends = np.cumsum([len(chunk.spans) for chunk in chunks])
    return [
        kept_sentences(
            own,
            threshold=threshold,
            window=options.trim_window,
            min_sentences=options.trim_min_sentences,
            candidates=whole.speaks,
        )
        for own, whole in zip(np.split(scores, ends[:-1]), wholes, strict=True)
    ]


def _cosines(question: Question, chunk: RetrievedChunk, *, alone: bool) -> NDArray[np.float32]:
    """Of each sentence alone, or with its neighbours. A vector that went bad on disk is as far away as can be."""
    assert chunk.sentence_vectors is not None
    with np.errstate(invalid="ignore", over="ignore"):
        vectors = chunk.sentence_vectors if alone else in_context(chunk.sentence_vectors)
        cosines: NDArray[np.float32] = vectors @ question.vector
    return np.where(np.isfinite(cosines), cosines, np.float32(-1))


def _warn_of_odd_threshold(threshold: float, calibration: Calibration | None) -> None:
    if calibration is None or calibration.sentences < FEWEST_SENTENCES:
        return
    if calibration.lowest <= threshold <= calibration.highest:
        return
    wrong = (
        f"more than half of all sentences reach it, whatever is asked (their median is {calibration.lowest:g})"
        if threshold < calibration.lowest
        else f"for most questions no sentence reaches it (their best have {calibration.highest:g})"
    )
    _warn(
        f"trim_threshold is {threshold:g}, and cosines of this index's model do not mean that: {wrong}. "
        f"Calibrated to this model and corpus it is {calibration.alone:g} (trim_mode cosine-auto keeps it so)"
    )


@cache
def _warn(message: str) -> None:
    """Once a process."""
    log.warning(message)


def _trimmed(chunk: RetrievedChunk, kept: Sequence[int]) -> RetrievedChunk:
    if len(kept) == len(chunk.spans):
        whole = ((0, len(chunk.text)),) if kept else ()
        return replace(chunk, kept=whole, trimmed=True)
    return replace(
        chunk, text=text_of(chunk.text, chunk.spans, kept), kept=tuple(runs(chunk.spans, kept)), trimmed=True
    )


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
