"""Vectors of a table that is too large to be held in memory: found by LanceDB's IVF_RQ index.

The index proposes rows, by vectors of a bit a dimension; their own vectors are then read and scored as
exactly as those in memory are. Rows that were written after it are scanned by LanceDB, so all are found.

Benchmarks, and the switch-over: benchmarks/README.md ("Vectors from 10,000 to 300,000 rows").
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.generations import compact
from bib_orchestration.biblioteca.index.neighbours import Neighbours, Rows, Scores, only_scored, products
from bib_orchestration.biblioteca.index.occurrences import Matching

log = logging.getLogger(__name__)

# The vectors of a table of more rows than these are not held in memory. At 1,024 dimensions they take 400 MB
# and 30 ms of CPU a question there, and the index 10 ms; below some 30,000 rows the index is no faster.
EXACT_UP_TO_ROWS = 100_000

# Of the index's partitions, of some 8,000 rows each, those that are searched.
PROBES = 20
# Rows whose own vectors are compared, for each that is asked for. Among the rows that pass a filter the best
# may be much alike to a vector of a bit a dimension.
REFINE_FACTOR = 5
FILTERED_REFINE_FACTOR = 20
# The least number of rows that are asked for, and how many times as many when copies of a text fill the list.
LEAST_ASKED = 40
GROWTH = 4
# Rows from which asking for all of them, read in order, is cheaper.
MOST_ASKED = 3000
# As few rows as these are read and scored without the index: it would lose some and gain nothing.
FEW_ROWS = 1000
# Rows that are not in the index cost LanceDB some 7 µs each a question. Taking them in, as each compaction does, is
# cheap, but makes another part of the index, each of which is searched.
MOST_UNINDEXED = 1000
MOST_PARTS = 4

_INDEX = "vector_idx"
# What IVF_RQ packs together.
_DIMENSIONS = 8


def keep_indexed(table: Any, *, dimension: int, being_read: int | None = None) -> None:
    """Bring the index of a table's vectors level with its rows. For writers, within the index's lock.

    A table of few rows has none. `being_read` is a version that stays, however old it is.
    """
    from lancedb.index import IvfRq

    if table.count_rows() <= EXACT_UP_TO_ROWS:
        return
    if dimension % _DIMENSIONS:
        log.warning(
            "%s: vectors of %d dimensions cannot be indexed, only of a multiple of %d; they are held in memory",
            table.name,
            dimension,
            _DIMENSIONS,
        )
        return
    stats = table.index_stats(_INDEX)
    if stats and stats.num_unindexed_rows <= MOST_UNINDEXED and stats.num_indices <= MOST_PARTS:
        return
    if stats and stats.num_indices < MOST_PARTS:
        compact(table, being_read)
    else:
        table.create_index("vector", config=IvfRq(distance_type="cosine"), name=_INDEX, replace=True)


def is_indexed(table: Any, rows: int) -> bool:
    """Whether a table of so many rows is to be searched by its index. One without it is held in memory: a scan
    of LanceDB's takes twenty times as long."""
    return rows > EXACT_UP_TO_ROWS and table.index_stats(_INDEX) is not None


class IndexedVectors:
    """Vectors on disk, in a table that has an index.

    row_ids: LanceDB's, by row of the snapshot.
    text_numbers: by row; equal for rows of one text.
    """

    def __init__(
        self, table: Any, row_ids: NDArray[np.uint64], text_numbers: NDArray[np.int32], dimension: int
    ) -> None:
        self._table = table
        self._row_ids = row_ids
        self._text_numbers = text_numbers
        self._dimension = dimension
        self._by_id = np.argsort(row_ids)

    def nearest(self, question: NDArray[np.float32], matching: Matching, texts: int) -> Neighbours:
        rows = matching.rows
        cosines = np.full(len(self._row_ids), np.nan)
        # LanceDB finds nothing near to a vector of zeros; to a product all rows are as near.
        if not question.any():
            cosines[rows] = 0.0
            return Neighbours(rows, rows, cosines)
        if len(rows) <= FEW_ROWS:
            return self.scored(question, rows, Neighbours(rows, rows, cosines))
        passes = np.zeros(len(cosines), np.bool_)
        passes[rows] = True
        asked = max(LEAST_ASKED, 2 * texts)
        while asked <= MOST_ASKED:
            found, exact = self._search(question, matching.where, asked)
            # The filter that LanceDB knows lets more pass.
            near = found[passes[found]]
            cosines[near] = exact[passes[found]]
            near = only_scored(np.sort(near), cosines)
            if len(found) < asked or self._has(texts, near, cosines):
                return Neighbours(rows, near, cosines)
            asked *= GROWTH
        self._scan(question, passes, cosines)
        rows = only_scored(rows, cosines)
        return Neighbours(rows, rows, cosines)

    def scored(self, question: NDArray[np.float32], rows: Rows, found: Neighbours) -> Neighbours:
        cosines = found.cosines.copy()
        missing = rows[np.isnan(cosines[rows])]
        if len(missing):
            ids = self._row_ids[missing].tolist()
            data = self._table.take_row_ids(ids).select(["_rowid", "vector"]).to_arrow()
            cosines[self._rows(data["_rowid"])] = self._cosines(data["vector"].combine_chunks(), question)
        bad = missing[~np.isfinite(cosines[missing])]
        if not len(bad):
            return Neighbours(found.rows, found.near, cosines)
        return Neighbours(np.setdiff1d(found.rows, bad), np.setdiff1d(found.near, bad), cosines)

    def _search(self, question: NDArray[np.float32], where: str | None, asked: int) -> tuple[Rows, Scores]:
        """Rows that pass the filter and that the index finds nearest, and their exact cosines; fewer than asked
        for only when there are no more."""
        query = (
            self._table.search(question, vector_column_name="vector")
            .distance_type("cosine")
            .limit(asked)
            .select(["_rowid", "_distance", "vector"])
            .minimum_nprobes(PROBES)
            # More, up to all, when too few rows of those pass the filter.
            .maximum_nprobes(0)
            .refine_factor(FILTERED_REFINE_FACTOR if where else REFINE_FACTOR)
        )
        if where:
            query = query.where(where, prefilter=True)
        data = query.to_arrow()
        return self._rows(data["_rowid"]), self._cosines(data["vector"].combine_chunks(), question)

    def _has(self, texts: int, near: Rows, cosines: Scores) -> bool:
        """Whether `near` has so many different texts, and none but lower ones are left: at the lowest cosine
        found, it is by chance which of the rows that tie were found."""
        if not len(near):
            return False
        values = cosines[near]
        above = near[values > values.min()]
        return len(np.unique(self._text_numbers[above])) >= texts

    def _scan(self, question: NDArray[np.float32], passes: NDArray[np.bool_], cosines: Scores) -> None:
        """Score all rows that pass, read batch by batch."""
        for batch in self._table.search().select(["vector"]).with_row_id(True).to_batches():
            rows = self._rows(batch["_rowid"])
            exact = self._cosines(batch["vector"], question)
            cosines[rows[passes[rows]]] = exact[passes[rows]]

    def _rows(self, row_ids: Any) -> Rows:
        places = np.searchsorted(self._row_ids, np.asarray(row_ids, np.uint64), sorter=self._by_id)
        return self._by_id[places]

    def _cosines(self, stored: Any, question: NDArray[np.float32]) -> Scores:
        return products(vectors_of(stored, self._dimension), question)


def vectors_of(stored: Any, dimension: int) -> NDArray[np.float32]:
    """An Arrow array of vectors as float32, shape (rows, dimension); NaN for one that is missing."""
    flat = np.asarray(stored.flatten(), np.float32).reshape(-1, dimension)
    if not stored.null_count:
        return flat
    vectors = np.full((len(stored), dimension), np.nan, np.float32)
    vectors[np.asarray(stored.is_valid())] = flat
    return vectors
