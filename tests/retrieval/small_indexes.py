"""Indexes of rows whose vectors a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fakes import DIMENSION, CountingEmbedder

from bib_orchestration.biblioteca.corpus.sizes import count_tokens
from bib_orchestration.biblioteca.index import approximate, stored_rows
from bib_orchestration.biblioteca.index.corpus_contents import WantedRow
from bib_orchestration.biblioteca.index.generations import Generation, IndexStore
from bib_orchestration.biblioteca.index.sentence_vectors import Content, embed_contents
from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.retrieval.chunk import Question

EMBEDDER = CountingEmbedder()
OCCURRENCES = [
    ("docs", "docs", "crearack", "crearack--alta", "alta.md"),
    ("docs", "docs", "otra", "otra--alta", "otra/alta.md"),
    ("wiki", "wiki", "crearack", "alta", "alta.md"),
    ("wiki", "wiki", "", "crearack--wiki", "wiki.md"),
]


@dataclass(frozen=True)
class Row:
    """A row of the index under test, and what a plain search needs of it."""

    content_id: str
    text: str
    vector: Sequence[float]
    # (source, source_type, app, slug, path), in their order.
    occurrences: tuple[tuple[str, ...], ...] = (OCCURRENCES[0],)


def index_of(folder: Path, rows: Sequence[Row]) -> Snapshot:
    store = IndexStore(str(folder))
    table = stored_rows.create(store, "chunks__x", DIMENSION)
    made = []
    for row in rows:
        content = Content(row.content_id, "", "", row.text)
        embedded = embed_contents(EMBEDDER, [content])[0][0]
        wanted = WantedRow(
            content, row.text, count_tokens(row.text), "es", tuple(zip(*row.occurrences, strict=True))
        )
        made.append(stored_rows.row(wanted, replace(embedded, vector=np.asarray(row.vector, np.float32))))
    # In another order than that of their ids, as rows come to lie on disk.
    stored_rows.merge(table, made[::-1], [], DIMENSION)
    approximate.keep_indexed(table, dimension=DIMENSION)
    generation = Generation(
        "chunks__x", "x", "counting", "1", DIMENSION, "1", "1", "c", len(rows), table.version
    )
    return Snapshot(generation, store.open("chunks__x"))


def unit(vector: Any) -> Any:
    return np.asarray(vector, np.float32) / np.linalg.norm(vector)


def question_at(*vector: float, text: str = "turno") -> Question:
    padded = np.zeros(DIMENSION, np.float32)
    padded[: len(vector)] = vector
    return Question(text, unit(padded))


def vector_at(*values: float) -> Any:
    return question_at(*values).vector
