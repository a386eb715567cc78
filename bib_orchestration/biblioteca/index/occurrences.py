"""Where the contents of a snapshot occur, and which rows have an occurrence that passes a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.generations import LIST_COLUMNS, quoted
from bib_orchestration.biblioteca.retrieval.chunk import Filters


@dataclass(frozen=True, slots=True)
class Matching:
    """The rows that pass a filter.

    rows: their numbers, ascending.
    places: by row of `rows`, the place of the first of its occurrences that passes.
    where: a LanceDB filter that these rows pass, and may be others too; None: all rows do.
    """

    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    where: str | None = None

    def place(self, row: int) -> int:
        """The place of the occurrence to be shown of one of the rows."""
        return int(self.places[np.searchsorted(self.rows, row)])


class Occurrences:
    """The occurrences of all rows, from the parallel list columns (Arrow arrays)."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {name: columns[name] for name in LIST_COLUMNS}
        lengths = np.asarray(self._columns[LIST_COLUMNS[0]].value_lengths(), np.int64)
        self._size = len(lengths)
        self._starts = np.cumsum(lengths) - lengths
        self._rows = np.repeat(np.arange(self._size), lengths)

    def at(self, row: int, place: int) -> dict[str, str]:
        """One occurrence, by column."""
        return {name: column[row][place].as_py() for name, column in self._columns.items()}

    def matching(self, filters: Filters) -> Matching:
        """The rows with an occurrence that passes all of `filters`."""
        if not filters.any_set:
            return Matching(np.arange(self._size), np.zeros(self._size, np.int64))
        passing = np.flatnonzero(self._passing(filters))
        rows = self._rows[passing]
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        return Matching(rows[first], passing[first] - self._starts[rows[first]], _where(filters))

    def _passing(self, filters: Filters) -> NDArray[np.bool_]:
        """Of each occurrence whether it passes. What is compared is each distinct value, once."""
        import pyarrow.compute as pc

        passing = np.ones(len(self._rows), np.bool_)
        for name, wanted, compare in (
            ("source_types", filters.source_type, pc.equal),
            ("apps", filters.app, pc.equal),
            ("slugs", filters.slug_prefix, pc.starts_with),
        ):
            if wanted is not None:
                values, numbers = self._numbered[name]
                passing &= compare(values, wanted).to_numpy(zero_copy_only=False)[numbers]
        return passing

    @cached_property
    def _numbered(self) -> dict[str, tuple[Any, NDArray[np.int32]]]:
        """By column that can be filtered by: its distinct values, and the number of each occurrence's."""
        encoded = {
            name: self._columns[name].flatten().dictionary_encode()
            for name in ("source_types", "apps", "slugs")
        }
        return {name: (each.dictionary, np.asarray(each.indices)) for name, each in encoded.items()}


def _where(filters: Filters) -> str:
    """The filter for LanceDB, which cannot say that one occurrence must pass all parts."""
    parts = [
        f"array_has({column}, {quoted(value)})"
        for column, value in (("source_types", filters.source_type), ("apps", filters.app))
        if value is not None
    ]
    if filters.slug_prefix is not None:
        slugs = "concat('\n', array_to_string(slugs, '\n'))"
        parts.append(f"contains({slugs}, {quoted(chr(10) + filters.slug_prefix)})")
    return " AND ".join(parts)
