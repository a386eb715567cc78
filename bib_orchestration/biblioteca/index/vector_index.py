"""The live generation, held in memory and searched exactly.

A scan over vectors in memory costs an eighth to a twentieth of the CPU of LanceDB's own flat search up to
some 100,000 rows, and always finds the true neighbours. Texts and sentence vectors stay on disk and are
fetched for the few rows that are shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.generations import CURRENT, LIST_COLUMNS, Generation, IndexStore
from bib_orchestration.biblioteca.index.sentence_vectors import Spans, from_bytes
from bib_orchestration.biblioteca.retrieval.lexical import Bm25

# How long a reader may go without asking whether another generation is live.
POLL_S = 1.0
_TRIES = 3
_SCALARS = ("content_id", "text_hash", "title", "heading_path", "language")


class NoIndex(RuntimeError):
    """There is no index to search; the message says how to make one."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """The text of a row, its sentences' spans, and their vectors (float32, shape (sentences, dimension))."""

    text: str
    spans: Spans
    sentence_vectors: NDArray[np.float32]


class Snapshot:
    """A generation at the version that is live: rows in the order of their content ids.

    generation: what `current` says of it.
    vectors: float32, shape (rows, dimension), of length 1.
    columns: the values of each scalar and list column, by row.
    """

    def __init__(self, generation: Generation, table: Any) -> None:
        self.generation = generation
        # Pinned, so that row ids stay those of this version whatever is written meanwhile. Another program's
        # tidying may have dropped it; the newest one then has the same rows or better.
        present = {version["version"] for version in table.list_versions()}
        self.version = generation.version if generation.version in present else max(present)
        table.checkout(self.version)
        self._table = table
        names = [*_SCALARS, *LIST_COLUMNS, "vector"]
        data = table.search().select(names).with_row_id(True).to_arrow().sort_by("content_id")
        self.vectors: NDArray[np.float32] = np.ascontiguousarray(
            np.asarray(data["vector"].combine_chunks().flatten(), np.float32).reshape(
                -1, generation.dimension
            )
        )
        self._row_ids = data["_rowid"].to_pylist()
        self.columns: dict[str, list[Any]] = data.drop_columns(["vector", "_rowid"]).to_pydict()

    def __len__(self) -> int:
        return len(self.columns["content_id"])

    @cached_property
    def languages(self) -> list[str]:
        """The languages of the contents, sorted."""
        return sorted(set(self.columns["language"]))

    @cached_property
    def lexical(self) -> Bm25:
        """BM25 over all rows, laid out on first use."""
        data = self._table.search().select(["content_id", "stems"]).to_arrow().sort_by("content_id")
        return Bm25([stems.split() for stems in data["stems"].to_pylist()])

    def texts(self, rows: Sequence[int]) -> list[StoredText]:
        """The texts of some rows, in the order given."""
        if not rows:
            return []
        columns = ["text", "sentence_starts", "sentence_ends", "sentence_vectors"]
        ids = [self._row_ids[row] for row in rows]
        data = self._table.take_row_ids(ids).select([*columns, "_rowid"]).to_arrow().to_pylist()
        by_id = {stored["_rowid"]: stored for stored in data}
        return [
            StoredText(
                by_id[row_id]["text"],
                list(zip(by_id[row_id]["sentence_starts"], by_id[row_id]["sentence_ends"], strict=True)),
                from_bytes(by_id[row_id]["sentence_vectors"], self.generation.dimension),
            )
            for row_id in ids
        ]


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
