"""The texts of a snapshot's rows, and the vectors of their sentences.

They stay on disk and are fetched for the few rows that are shown, which costs 3 ms for five of them. Where
they are small, as those of most knowledge bases are, they are held in memory instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.sentence_vectors import Spans, from_bytes

# Texts of up to so many bytes in all are held: those of some 15,000 rows at 512 dimensions.
MOST_HELD_BYTES = 128 * 2**20

_COLUMNS = ("text", "sentence_starts", "sentence_ends", "sentence_vectors", "stems")
_BYTES_A_NUMBER = 2


@dataclass(frozen=True, slots=True)
class StoredText:
    """The text of a row, its sentences' spans, their vectors (float32, shape (sentences, dimension)), and the stems
    of its title and headings, then of each sentence."""

    text: str
    spans: Spans
    sentence_vectors: NDArray[np.float32]
    stems: tuple[str, ...]


class StoredTexts:
    """The texts of a table's rows. `row_ids` are LanceDB's, by row."""

    def __init__(self, table: Any, row_ids: NDArray[np.uint64], dimension: int) -> None:
        self._table = table
        self._row_ids = row_ids
        self._dimension = dimension
        self._was_asked = False

    def of(self, rows: Sequence[int]) -> list[StoredText]:
        """The texts of some rows, in the order given."""
        if not rows:
            return []
        # A process that asks once, as `bib search` does, has no use for all.
        held = self._held if self._was_asked else None
        self._was_asked = True
        if held is None:
            return self._fetched(rows)
        return [self._text(*(column[row] for column in held)) for row in rows]

    def _fetched(self, rows: Sequence[int]) -> list[StoredText]:
        ids = self._row_ids[list(rows)].tolist()
        data = self._table.take_row_ids(ids).select([*_COLUMNS, "_rowid"]).to_arrow().combine_chunks()
        places = {row_id: place for place, row_id in enumerate(data["_rowid"].to_pylist())}
        columns = [data[name].combine_chunks() for name in _COLUMNS]
        return [self._text(*(column[places[row_id]] for column in columns)) for row_id in ids]

    @cached_property
    def _held(self) -> list[Any] | None:
        """The columns of all rows in their order; None when they are too large."""
        import pyarrow as pa

        # Each row has a sentence, so this is the least that it can be.
        if len(self._row_ids) * self._dimension * _BYTES_A_NUMBER > MOST_HELD_BYTES:
            return None
        batches, size = [], 0
        for batch in self._table.search().select(list(_COLUMNS)).with_row_id(True).to_batches():
            size += batch.nbytes
            if size > MOST_HELD_BYTES:
                return None
            batches.append(batch)
        data = pa.Table.from_batches(batches)
        ids = np.asarray(data["_rowid"], np.uint64)
        by_id = np.argsort(ids)
        data = data.take(by_id[np.searchsorted(ids, self._row_ids, sorter=by_id)])
        return [data[name].combine_chunks() for name in _COLUMNS]

    def _text(self, text: Any, starts: Any, ends: Any, vectors: Any, stems: Any) -> StoredText:
        return StoredText(
            text.as_py(),
            list(zip(starts.as_py(), ends.as_py(), strict=True)),
            from_bytes(vectors.as_buffer(), self._dimension),
            tuple(stems.as_py().split("\n")),
        )
