"""Rows of a generation's table: how they are made, compared, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from bib_orchestration.biblioteca.corpus.chunks import heading_line
from bib_orchestration.biblioteca.index.corpus_contents import WantedRow
from bib_orchestration.biblioteca.index.embedders import UNIT_TOLERANCE
from bib_orchestration.biblioteca.index.generations import LIST_COLUMNS, IndexStore, in_list, rows_schema
from bib_orchestration.biblioteca.index.sentence_vectors import Embedded, from_bytes, to_bytes
from bib_orchestration.biblioteca.retrieval.lexical import LEXICAL_VERSION, stems
from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION

# Ids in one filter: LanceDB parses a filter recursively, and a list of all ids would be a long one.
_IDS_A_FILTER = 2000
_VECTOR_COLUMNS = ("vector", "sentence_starts", "sentence_ends", "sentence_vectors")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """What is compared of a row: all but its text and vectors, which its content id stands for."""

    language: str
    splitter: str
    lexical: str
    occurrences: tuple[tuple[str, ...], ...]


def create(store: IndexStore, name: str, dimension: int) -> Any:
    """An empty table of a generation."""
    table = store.db.create_table(name, schema=rows_schema(dimension))
    # Lets a merge refuse a key that comes twice, instead of inserting both.
    table.set_unenforced_primary_key(["content_id"])
    return table


def read(table: Any) -> dict[str, StoredRow]:
    """All rows by content id, in the order of their ids."""
    columns = ["content_id", "language", "splitter", "lexical", *LIST_COLUMNS]
    data = table.search().select(columns).to_arrow().sort_by("content_id").to_pydict()
    lists = zip(*(map(tuple, data[name]) for name in LIST_COLUMNS), strict=True)
    return {
        key: StoredRow(language, splitter, lexical, occurrences)
        for key, language, splitter, lexical, occurrences in zip(
            data["content_id"], data["language"], data["splitter"], data["lexical"], lists, strict=True
        )
    }


def differs(stored: StoredRow, wanted: WantedRow) -> bool:
    """Whether a stored row is behind what is wanted of it."""
    return stored != StoredRow(wanted.language, SPLITTER_VERSION, LEXICAL_VERSION, wanted.occurrences)


def broken(table: Any, dimension: int) -> set[str]:
    """Ids of rows whose vectors cannot be right: not finite, not of length 1, or not one a sentence."""
    found = set()
    for batch in table.search().select(["content_id", *_VECTOR_COLUMNS]).to_batches():
        vectors = np.asarray(batch["vector"].flatten()).reshape(-1, dimension)
        with np.errstate(invalid="ignore"):
            unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) <= UNIT_TOLERANCE
        for row, sound in zip(batch.drop_columns(["vector"]).to_pylist(), unit, strict=True):
            count = len(row["sentence_starts"])
            sentences = np.frombuffer(row["sentence_vectors"], "<f2")
            whole = sentences.size == count * dimension and len(row["sentence_ends"]) == count
            if not (sound and whole and np.isfinite(sentences).all()):
                found.add(row["content_id"])
    return found


def row(wanted: WantedRow, embedded: Embedded) -> dict[str, Any]:
    """A row as it is stored."""
    content = wanted.content
    lines = [
        heading_line(content.title, content.heading_path),
        *(content.text[start:end] for start, end in embedded.spans),
    ]
    return {
        "content_id": content.content_id,
        "text_hash": wanted.text_hash,
        "title": content.title,
        "heading_path": content.heading_path,
        "text": content.text,
        "tokens": wanted.tokens,
        "language": wanted.language,
        **dict(zip(LIST_COLUMNS, wanted.occurrences, strict=True)),
        **vector_columns(embedded),
        "stems": "\n".join(" ".join(stems(line, wanted.language)) for line in lines),
        "lexical": LEXICAL_VERSION,
    }


def vector_columns(embedded: Embedded) -> dict[str, Any]:
    """The columns that cost an embedding."""
    return {
        "vector": embedded.vector,
        "sentence_starts": [start for start, _ in embedded.spans],
        "sentence_ends": [end for _, end in embedded.spans],
        "sentence_vectors": to_bytes(embedded.sentence_vectors),
        "splitter": SPLITTER_VERSION,
    }


def fetch(
    table: Any, keys: Sequence[str], dimension: int, *, splitter: str | None = None
) -> dict[str, Embedded]:
    """The vectors of the rows that have these ids, by id, in the order of their ids."""
    found: dict[str, Embedded] = {}
    for start in range(0, len(keys), _IDS_A_FILTER):
        where = in_list("content_id", keys[start : start + _IDS_A_FILTER])
        if splitter is not None:
            where += f" AND {in_list('splitter', [splitter])}"
        query = table.search().where(where).select(["content_id", *_VECTOR_COLUMNS])
        for stored in query.to_arrow().to_pylist():
            found[stored["content_id"]] = Embedded(
                np.asarray(stored["vector"], np.float32),
                list(zip(stored["sentence_starts"], stored["sentence_ends"], strict=True)),
                from_bytes(stored["sentence_vectors"], dimension).astype(np.float16),
            )
    return dict(sorted(found.items()))


def merge(table: Any, rows: Sequence[dict[str, Any]], gone: Sequence[str], dimension: int) -> None:
    """Insert or replace `rows` and delete those whose ids are in `gone`, in one atomic write, if any.

    All of `gone` goes at once, so its filter is as long as it is.
    """
    import pyarrow as pa

    if not rows:
        if gone:
            table.delete(in_list("content_id", gone))
        return
    data = pa.Table.from_pylist(list(rows), schema=rows_schema(dimension))
    merging = table.merge_insert("content_id").when_matched_update_all().when_not_matched_insert_all()
    if gone:
        merging = merging.when_not_matched_by_source_delete(in_list("content_id", gone))
    # By a scan: an index on the key brings back rows that a merge has replaced.
    merging.use_index(False).execute(data)


def tidy(table: Any, many_fragments: int, older_than: timedelta) -> None:
    """Compact a table that has come to lie in many pieces, and drop versions that nobody reads any more."""
    if len(table.list_versions()) > many_fragments:
        table.optimize(cleanup_older_than=older_than)
