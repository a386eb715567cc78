"""Retrieving: from a question's vector to the chunks that may answer it.

Every row is scored on the question, exactly and in memory (of a very large index, the rows that LanceDB's
index proposes); rows of the same text count once; filters are applied before the search, so that `top_k`
chunks are found wherever that many exist. Scores are rounded and ties go to the lower content id, so that
equal inputs give equal answers on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.corpus.sizes import count_tokens
from bib_orchestration.biblioteca.index.neighbours import Neighbours, Rows, Scores, only_scored, rounded
from bib_orchestration.biblioteca.index.occurrences import Matching
from bib_orchestration.biblioteca.index.stored_texts import StoredText
from bib_orchestration.biblioteca.index.vector_index import Snapshot, live_index
from bib_orchestration.biblioteca.retrieval.chunk import (
    Filters,
    Question,
    Retrieval,
    RetrievalOptions,
    RetrievedChunk,
)
from bib_orchestration.biblioteca.retrieval.lexical import question_stems
from bib_orchestration.biblioteca.retrieval.trim import trim_retrieval
from bib_orchestration.biblioteca.settings import load_settings

__all__ = ["Filters", "Question", "Retrieval", "RetrievalOptions", "RetrievedChunk", "retrieve", "search"]

# Rows fetched for each that is asked for, before rows of the same text are counted once.
OVER_FETCH = 2
VECTOR_SEARCH = RetrievalOptions()
NO_FILTERS = Filters()
# The least number of rows that each leg of a hybrid search proposes.
HYBRID_CANDIDATES = 20


def retrieve(
    question: Question,
    top_k: int,
    options: RetrievalOptions = VECTOR_SEARCH,
    filters: Filters = NO_FILTERS,
    *,
    index: Snapshot | None = None,
) -> Retrieval:
    """The `top_k` chunks for a question, best first, trimmed if `options` say so.

    `index` is the live index of this project's bib.toml unless given. Fewer chunks come back only when the
    index has fewer that pass the filters. Raises ValueError for a `top_k` below 1 and for a vector that is
    not of the index's dimension, or not of finite numbers.
    """
    if index is None:
        index = live_index(load_settings(missing_sources="keep").index_address).snapshot()
    found = Retrieval(tuple(search(question, top_k, options, filters, index=index)))
    return trim_retrieval(question, found, options) if options.trim else found


def search(
    question: Question, top_k: int, options: RetrievalOptions, filters: Filters, *, index: Snapshot
) -> list[RetrievedChunk]:
    """The `top_k` chunks for a question, whole."""
    _check(question, top_k, index)
    matching = index.occurrences.matching(filters)
    hybrid = options.ranking == "hybrid" and len(matching.rows) > 0
    candidates = max(OVER_FETCH * top_k, HYBRID_CANDIDATES)
    found = index.nearest(question.vector, matching, candidates if hybrid else top_k)
    rows, scores = found.near, found.cosines
    if hybrid and len(found.rows):
        found, rows, scores = _hybrid(question, candidates, found, index)
    best = _distinct(_ranked(rows, scores, OVER_FETCH * top_k), index.text_numbers, top_k)
    return [
        _chunk(row, text, float(scores[row]), float(found.cosines[row]), matching, index)
        for row, text in zip(best, index.texts(best), strict=True)
    ]


def _check(question: Question, top_k: int, index: Snapshot) -> None:
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; at least 1 is needed")
    dimension = index.generation.dimension
    if question.vector.shape != (dimension,):
        raise ValueError(
            f"the question's vector has shape {question.vector.shape}; the index was made by "
            f"{index.generation.model} and takes ({dimension},)"
        )
    if question.fingerprint not in (None, index.generation.fingerprint):
        raise ValueError(
            f"the question's vector was made by another model than {index.generation.model}, which made the "
            "index: the index has changed since; embed the question again"
        )
    if not np.isfinite(question.vector).all():
        raise ValueError("the question's vector has NaN or infinity in it; numbers are needed")


def _ranked(rows: Rows, scores: Scores, at_first: int) -> Iterator[int]:
    """`rows` by score, best first, ties by row; only as many are sorted as are asked for."""
    count = at_first
    given = 0
    while given < len(rows):
        count = min(count, len(rows))
        values = scores[rows]
        # All rows that tie with the last one, or a tie would be broken by chance.
        limit = np.partition(values, len(rows) - count)[len(rows) - count]
        chosen = rows[values >= limit]
        order = np.lexsort((chosen, -scores[chosen]))
        yield from chosen[order][given:].tolist()
        given = len(chosen)
        count = 2 * max(given, 1)


def _distinct(rows: Iterator[int], text_numbers: NDArray[np.int32], count: int) -> list[int]:
    """The first `count` rows of different texts."""
    seen: set[int] = set()
    found: list[int] = []
    for row in rows:
        text = int(text_numbers[row])
        if text not in seen:
            seen.add(text)
            found.append(row)
            if len(found) == count:
                break
    return found


def _hybrid(
    question: Question, count: int, found: Neighbours, index: Snapshot
) -> tuple[Neighbours, Rows, Scores]:
    """The rows at the top of either leg, and the sum of both legs, each scaled to 0..1 over those rows.

    Each of these rows is scored exactly on both legs. Rank fusion, or a zero for the leg that did not
    propose a row, finds less (measured on XQuAD-es: traps.md in the project's design notes).
    """
    lexical = rounded(index.lexical.scores(question_stems(question.text, index.languages)))
    wanted = _enough_texts(found.near, found.cosines, count, index)
    wanted |= _enough_texts(found.rows, lexical, count, index)
    candidates = np.array(sorted(wanted), np.int64)
    found = index.scored(question.vector, candidates, found)
    candidates = only_scored(candidates, found.cosines)
    scores = np.zeros(len(index))
    scores[candidates] = rounded(_scaled(found.cosines[candidates]) + _scaled(lexical[candidates]))
    return found, candidates, scores


def _enough_texts(rows: Rows, scores: Scores, count: int, index: Snapshot) -> set[int]:
    """The best rows of `count` different texts: copies must not crowd out the rest."""
    return set(_distinct(_ranked(rows, scores, count), index.text_numbers, count))


def _scaled(scores: Scores) -> Scores:
    """Min-max scaled to 0..1; all zero when there is nothing between them."""
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def _chunk(
    row: int, stored: StoredText, score: float, cosine: float, matching: Matching, index: Snapshot
) -> RetrievedChunk:
    columns = index.columns
    shown = index.occurrences.at(row, matching.place(row))
    return RetrievedChunk(
        content_id=columns["content_id"][row].as_py(),
        text=stored.text,
        score=score,
        cosine=cosine,
        source=shown["sources"],
        path=shown["paths"],
        source_type=shown["source_types"],
        app=shown["apps"],
        slug=shown["slugs"],
        title=columns["title"][row].as_py(),
        heading_path=columns["heading_path"][row].as_py(),
        tokens_before=count_tokens(stored.text),
        spans=tuple(stored.spans),
        kept=((0, len(stored.text)),),
        sentence_vectors=stored.sentence_vectors,
        stems=stored.stems,
        origin=index,
    )
