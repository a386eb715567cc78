"""Rows of a generation's table: how they are made, compared, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.corpus.chunks import heading_line
from bib_orchestration.biblioteca.index.corpus_contents import WantedRow
from bib_orchestration.biblioteca.index.embedders import UNIT_TOLERANCE
from bib_orchestration.biblioteca.index.generations import LIST_COLUMNS, IndexStore, in_list, rows_schema
from bib_orchestration.biblioteca.index.sentence_vectors import Embedded, Spans, to_bytes
from bib_orchestration.biblioteca.retrieval.lexical import LEXICAL_VERSION, stems
from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION, split_spans

# Ids in one filter: LanceDB parses a filter recursively, and a list of all ids would be a long one.
_IDS_A_FILTER = 2000
_VECTOR_COLUMNS = ("vector", "sentence_starts", "sentence_ends", "sentence_vectors")
_COMPARED = ("text_hash", "title", "heading_path", "language", "splitter", "lexical")
# How far the length of a sentence's vector, in float16, may be off.
_HALF_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class StoredRow:
    """What is compared of a row: all but its text, which its hash stands for, and what was made from it."""

    text_hash: str
    title: str
    heading_path: str
    language: str
    splitter: str
    lexical: str
    occurrences: tuple[tuple[str, ...], ...]


def create(store: IndexStore, name: str, dimension: int) -> Any:
    """An empty table of a generation."""
    table = store.db.create_table(name, schema=rows_schema(dimension))
    # Lets one of two merges fail that bring the same new key at once. In one batch nothing refuses it.
    table.set_unenforced_primary_key(["content_id"])
    return table


def read(table: Any) -> dict[str, StoredRow]:
    """All rows by content id, in the order of their ids."""
    columns = ["content_id", *_COMPARED, *LIST_COLUMNS]
    data = table.search().select(columns).to_arrow().sort_by("content_id").to_pydict()
    occurrences = zip(*(map(tuple, data[name]) for name in LIST_COLUMNS), strict=True)
    rows = zip(*(data[name] for name in _COMPARED), occurrences, strict=True)
    return {key: StoredRow(*row) for key, row in zip(data["content_id"], rows, strict=True)}


def differs(stored: StoredRow, wanted: WantedRow) -> bool:
    """Whether a stored row is behind what is wanted of it."""
    content = wanted.content
    return stored != StoredRow(
        wanted.text_hash,
        content.title,
        content.heading_path,
        wanted.language,
        SPLITTER_VERSION,
        LEXICAL_VERSION,
        wanted.occurrences,
    )


def fits(embedded: Embedded, wanted: WantedRow) -> bool:
    """Whether sentences lie where this splitter puts them in the row's text."""
    return embedded.spans == split_spans(wanted.content.text)


def verify(table: Any, wanted: Mapping[str, WantedRow], dimension: int) -> tuple[set[str], set[str]]:
    """Ids of rows whose vectors cannot be right, and of others that are not, to the letter, what is wanted."""
    broken, outdated = set(), set()
    for batch in table.search().to_batches():
        for stored, embedded in _decoded(batch, dimension):
            key = stored["content_id"]
            if embedded is None:
                broken.add(key)
            elif key in wanted:
                if stored["splitter"] == SPLITTER_VERSION and not fits(embedded, wanted[key]):
                    broken.add(key)
                right = _text_columns(wanted[key], embedded.spans)
                if any(stored[name] != value for name, value in right.items()):
                    outdated.add(key)
    return broken, outdated - broken


def row(wanted: WantedRow, embedded: Embedded) -> dict[str, Any]:
    """A row as it is stored."""
    return {**_text_columns(wanted, embedded.spans), **vector_columns(embedded)}


def _text_columns(wanted: WantedRow, spans: Spans) -> dict[str, Any]:
    """The columns that cost no embedding."""
    content = wanted.content
    lines = [
        heading_line(content.title, content.heading_path),
        *(content.text[start:end] for start, end in spans),
    ]
    return {
        "content_id": content.content_id,
        "text_hash": wanted.text_hash,
        "title": content.title,
        "heading_path": content.heading_path,
        "text": content.text,
        "tokens": wanted.tokens,
        "language": wanted.language,
        **dict(zip(LIST_COLUMNS, map(list, wanted.occurrences), strict=True)),
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
    """The vectors of the rows that have these ids, by id, in the order of their ids; broken ones are left out."""
    found: dict[str, Embedded] = {}
    for start in range(0, len(keys), _IDS_A_FILTER):
        where = in_list("content_id", keys[start : start + _IDS_A_FILTER])
        if splitter is not None:
            where += f" AND {in_list('splitter', [splitter])}"
        query = table.search().where(where).select(["content_id", *_VECTOR_COLUMNS])
        for batch in query.to_batches():
            for stored, embedded in _decoded(batch, dimension):
                if embedded is not None:
                    found[stored["content_id"]] = embedded
    return dict(sorted(found.items()))


def _decoded(batch: Any, dimension: int) -> Iterator[tuple[dict[str, Any], Embedded | None]]:
    """Each row of a batch, without its vectors, and these; None when they cannot be right: not finite, not of
    length 1, or not one a sentence."""
    vectors = np.zeros((len(batch), dimension), np.float32)
    vectors[np.asarray(batch["vector"].is_valid())] = np.asarray(batch["vector"].flatten()).reshape(
        -1, dimension
    )
    unit = _are_unit(vectors, UNIT_TOLERANCE)
    for row, vector, sound in zip(batch.drop_columns(["vector"]).to_pylist(), vectors, unit, strict=True):
        starts, ends, stored = (row.pop(name) or b"" for name in _VECTOR_COLUMNS[1:])
        sound = sound and len(stored) == len(starts) * dimension * 2 and len(starts) == len(ends)
        sentences = np.frombuffer(stored, "<f2").reshape(-1, dimension) if sound else None
        if sentences is None or not _are_unit(sentences, _HALF_TOLERANCE).all():
            yield row, None
        else:
            yield row, Embedded(vector, list(zip(starts, ends, strict=True)), sentences)


def _are_unit(vectors: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(vectors.astype(np.float32), axis=1)
    # NaN is within no tolerance.
    unit: NDArray[np.bool_] = np.abs(lengths - 1) <= tolerance
    return unit


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
