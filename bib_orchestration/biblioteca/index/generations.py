"""Generations of the index: one LanceDB table a fingerprint, and a one-row table that names the live one.

A new model's table is built beside the live one and goes live by one write to `current`; readers poll it.
The pointer is a table and not a file, because there is no atomic rename on object storage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.retrieval.calibration import Calibration

CURRENT = "current"
TABLE_PREFIX = "chunks__"
# Vectors that are in no index: of contents embedded by a run that has not ended yet, or whose last
# occurrence has gone and may come back (an edit undone, a branch switched).
SPARE_PREFIX = "spare__"
# Readers hold a version for a second or so after another has taken its place.
OLD_VERSIONS_KEPT = timedelta(hours=6)
# A table in more versions than these is compacted.
MANY_VERSIONS = 40

LIST_COLUMNS = ("sources", "source_types", "apps", "slugs", "paths")
_REMOTE = re.compile(r"[a-z0-9+]{2,}://")


@dataclass(frozen=True, slots=True)
class Generation:
    """What `current` says of the live table.

    table: its name.
    fingerprint: of the model that made its vectors.
    model, revision, dimension: that model's.
    splitter, lexical: versions that its sentences and stems were made by.
    corpus: a hash of the occurrences that it was last brought level with.
    contents: how many it holds.
    version: the table's when that was done. It is the one that is read: later ones are of a run that has not
        ended, or was killed. 0: not known.
    calibration: what the model's cosines mean on these contents; None: not known.
    """

    table: str
    fingerprint: str
    model: str
    revision: str
    dimension: int
    splitter: str
    lexical: str
    corpus: str
    contents: int
    version: int = 0
    calibration: Calibration | None = None


class IndexStore:
    """The LanceDB database that holds the generations; it connects on first use."""

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def db(self) -> Any:
        import lancedb

        if not _REMOTE.match(self.address):
            Path(self.address).mkdir(parents=True, exist_ok=True)
        # Without an interval a handle never sees what other processes write.
        return lancedb.connect(self.address, read_consistency_interval=timedelta(0))

    def tables(self) -> list[str]:
        """Names of all tables, sorted."""
        names: list[str] = []
        page = self.db.list_tables()
        while True:
            names += page.tables
            if not page.page_token:
                return sorted(names)
            page = self.db.list_tables(page_token=page.page_token)

    def open(self, table: str) -> Any:
        return self.db.open_table(table)

    def find(self, table: str) -> Any | None:
        """The table; None when there is none.

        What a kill leaves of a table in the making is listed among the names, but is none: it can be made.
        """
        try:
            return self.open(table)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
            return None

    def current(self) -> Generation | None:
        """The live generation; None before the first one."""
        table = self.find(CURRENT)
        rows = [] if table is None else table.to_arrow().to_pylist()
        return _generation(rows[0]) if rows else None

    def go_live(self, generation: Generation) -> None:
        """Make `generation` the live one, in one write."""
        import pyarrow as pa

        # As text: it is read whole or not at all, and a column for each figure would only be in the way.
        calibration = json.dumps(asdict(generation)["calibration"])
        row = pa.Table.from_pylist([asdict(generation) | {"calibration": calibration}])
        table = self.find(CURRENT)
        if table is None:
            self.db.create_table(CURRENT, row)
        else:
            # Before the write, so that what readers are looking at is the newest version.
            tidy(table)
            table.add(row, mode="overwrite")

    def drop_all_but(self, kept: Collection[str]) -> list[str]:
        """Drop all generations but those whose fingerprints are `kept`, and their spare vectors; returns the
        names of the tables."""
        dropped = [
            name
            for name in self.tables()
            for prefix in (TABLE_PREFIX, SPARE_PREFIX)
            if name.startswith(prefix) and name.removeprefix(prefix) not in kept
        ]
        for name in dropped:
            self.db.drop_table(name)
        return dropped


def _generation(row: dict[str, Any]) -> Generation:
    """What `current` holds, in Python. One that an older version wrote says less."""
    figures = json.loads(row.get("calibration") or "null")
    return Generation(**row | {"calibration": None if figures is None else Calibration(**figures)})


def tidy(table: Any, being_read: int | None = None) -> None:
    """Compact a table that has come to lie in many pieces, and drop versions that nobody reads any more.

    `being_read` stays, however old it is: readers turn to another version only after it is named live.
    """
    if len(table.list_versions()) > MANY_VERSIONS:
        compact(table, being_read)


def compact(table: Any, being_read: int | None = None) -> None:
    """Join a table's pieces, drop versions that nobody reads any more, and take new rows into its index, if it
    has one."""
    made = [version["timestamp"] for version in table.list_versions() if version["version"] == being_read]
    age = max((datetime.now() - at for at in made), default=timedelta(0))
    table.optimize(cleanup_older_than=OLD_VERSIONS_KEPT + age)


def rows_schema(dimension: int) -> Any:
    """The columns of a generation's table. Occurrence lists are parallel: place n is one occurrence."""
    import pyarrow as pa

    strings = pa.list_(pa.string())
    offsets = pa.list_(pa.int32())
    return pa.schema(
        [
            # NOT NULL, or a merge by this key may insert a row twice.
            pa.field("content_id", pa.string(), nullable=False),
            pa.field("text_hash", pa.string()),
            pa.field("title", pa.string()),
            pa.field("heading_path", pa.string()),
            pa.field("text", pa.string()),
            pa.field("tokens", pa.int32()),
            pa.field("language", pa.string()),
            *(pa.field(name, strings) for name in LIST_COLUMNS),
            pa.field("vector", pa.list_(pa.float32(), dimension)),
            pa.field("sentence_starts", offsets),
            pa.field("sentence_ends", offsets),
            # Rows of float16, one a sentence: the cosine is off by 1e-4 at most.
            pa.field("sentence_vectors", pa.large_binary()),
            # The stems of title and headings, then of each sentence, a line each.
            pa.field("stems", pa.large_string()),
            pa.field("splitter", pa.string()),
            pa.field("lexical", pa.string()),
        ]
    )


def spare_schema(dimension: int) -> Any:
    """The columns of a table of spare vectors: those of a row that cost an embedding, and since when."""
    import pyarrow as pa

    rows = rows_schema(dimension)
    names = ("content_id", "vector", "sentence_starts", "sentence_ends", "sentence_vectors", "splitter")
    return pa.schema([*(rows.field(name) for name in names), pa.field("since", pa.timestamp("us", tz="UTC"))])


def in_list(column: str, values: Iterable[str]) -> str:
    """A LanceDB filter: `column` is one of `values`.

    >>> in_list("path", ["l'hospitalet.md"])
    "path IN ('l''hospitalet.md')"
    """
    return f"{column} IN ({', '.join(map(quoted, values))})"


def quoted(value: str) -> str:
    """A text in a LanceDB filter. Apostrophes are doubled; there is no other quoting.

    >>> print(quoted("l'hospitalet.md"))
    'l''hospitalet.md'
    """
    return "'" + value.replace("'", "''") + "'"
