"""The live generation, and how it is searched.

Its vectors are held in memory and scanned, or left on disk and found by LanceDB's index when there are too
many (`approximate`). Texts and sentence vectors are fetched for the few rows that are shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.approximate import IndexedVectors, is_indexed, vectors_of
from bib_orchestration.biblioteca.index.generations import CURRENT, LIST_COLUMNS, Generation, IndexStore
from bib_orchestration.biblioteca.index.neighbours import HeldVectors, Neighbours, Rows, Vectors
from bib_orchestration.biblioteca.index.occurrences import Matching, Occurrences
from bib_orchestration.biblioteca.index.stored_texts import StoredText, StoredTexts
from bib_orchestration.biblioteca.retrieval.calibration import Calibration
from bib_orchestration.biblioteca.retrieval.lexical import Bm25

# How long a reader may go without asking whether another generation is live.
POLL_S = 1.0
_TRIES = 3
_SCALARS = ("content_id", "text_hash", "title", "heading_path", "language")


class NoIndex(RuntimeError):
    """There is no index to search; the message says how to make one."""


class Snapshot:
    """A generation at the version that is live: rows in the order of their content ids.

    generation: what `current` says of it.
    columns: each scalar and list column, an Arrow array by row.
    occurrences: where the rows' contents stand, for filters.
    text_numbers: by row; equal for rows of one text.
    vectors: float32, shape (rows, dimension), of length 1; None when they are not held in memory.
    """

    def __init__(self, generation: Generation, table: Any) -> None:
        self.generation = generation
        # Pinned, so that row ids stay those of this version whatever is written meanwhile. Another program's
        # tidying may have dropped it; the newest one then has the same rows or better.
        present = {version["version"] for version in table.list_versions()}
        self.version = generation.version if generation.version in present else max(present)
        table.checkout(self.version)
        self._table = table
        names = [*_SCALARS, *LIST_COLUMNS]
        data = table.search().select(names).with_row_id(True).to_arrow().sort_by("content_id")
        self._row_ids = np.asarray(data["_rowid"], np.uint64)
        self.columns: dict[str, Any] = {name: data[name].combine_chunks() for name in names}
        self.text_numbers: NDArray[np.int32] = np.asarray(
            self.columns["text_hash"].dictionary_encode().indices
        )
        self.occurrences = Occurrences(self.columns)
        self._texts = StoredTexts(table, self._row_ids, generation.dimension)
        self.vectors = None if is_indexed(table, len(self)) else self._read_vectors()
        self._searched: Vectors = (
            IndexedVectors(table, self._row_ids, self.text_numbers, generation.dimension)
            if self.vectors is None
            else HeldVectors(self.vectors)
        )

    def __len__(self) -> int:
        return len(self._row_ids)

    @property
    def calibration(self) -> Calibration | None:
        """What the model's cosines mean on these contents; None when the index was not calibrated."""
        return self.generation.calibration

    @cached_property
    def languages(self) -> list[str]:
        """The languages of the contents, sorted."""
        return sorted(self.columns["language"].unique().to_pylist())

    @cached_property
    def lexical(self) -> Bm25:
        """BM25 over all rows, laid out on first use."""
        data = self._table.search().select(["content_id", "stems"]).to_arrow().sort_by("content_id")
        return Bm25(stems.as_py().split() for stems in data["stems"])

    def nearest(self, question: NDArray[np.float32], matching: Matching, texts: int) -> Neighbours:
        """The rows of `matching` that are nearest to a question's vector, of so many different texts at the
        least, if there are."""
        return self._searched.nearest(question, matching, texts)

    def scored(self, question: NDArray[np.float32], rows: Rows, found: Neighbours) -> Neighbours:
        """`found`, with the cosines of `rows` too."""
        return self._searched.scored(question, rows, found)

    def texts(self, rows: Sequence[int]) -> list[StoredText]:
        """The texts of some rows, in the order given."""
        return self._texts.of(rows)

    def _read_vectors(self) -> NDArray[np.float32]:
        """Batch by batch, into their places: all at once would take three times the memory."""
        dimension = self.generation.dimension
        vectors = np.empty((len(self), dimension), np.float32)
        by_id = np.argsort(self._row_ids)
        for batch in self._table.search().select(["vector"]).with_row_id(True).to_batches():
            places = np.searchsorted(self._row_ids, np.asarray(batch["_rowid"]), sorter=by_id)
            vectors[by_id[places]] = vectors_of(batch["vector"], dimension)
        return vectors


class VectorIndex:
    """A reader of the live generation that follows it: it looks for a newer one about once a second."""

    def __init__(self, store: IndexStore, *, poll_s: float = POLL_S) -> None:
        self._store = store
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._seen: dict[str, Any] | None = None
        self._looked_at = float("-inf")

    def snapshot(self) -> Snapshot:
        """The live generation as it is now, or was a second ago. Raises NoIndex."""
        with self._lock:
            if self._snapshot is None or time.monotonic() - self._looked_at >= self._poll_s:
                self._look()
                self._looked_at = time.monotonic()
            assert self._snapshot is not None
            return self._snapshot

    def _look(self) -> None:
        missing = ""
        for _ in range(_TRIES):
            current = self._store.find(CURRENT)
            if current is None:
                raise NoIndex(f"nothing is indexed yet in {self._store.address}; run `bib index` first")
            # With its time, by which an index that was made anew differs from the old one.
            newest = current.list_versions()[-1]
            if newest == self._seen:
                return
            generation = self._store.current()
            if generation is None:
                raise NoIndex(f"no generation is live in {self._store.address}; run `bib index`")
            table = self._store.find(generation.table)
            if table is not None:
                self._snapshot = Snapshot(generation, table)
                self._seen = newest
                return
            # Dropped since `current` was read, which then names another by now.
            missing = generation.table
        raise NoIndex(f"{missing} is live in {self._store.address}, but is not there; run `bib index`")


@cache
def live_index(address: str) -> VectorIndex:
    """This process's reader of the index at `address`: the snapshot in memory is shared."""
    return VectorIndex(IndexStore(address))
