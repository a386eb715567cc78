"""The warehouse: short DuckDB connections, one writer, and a copy that other programs may open.

An open DuckDB writer blocks every other process, readers included, and an open reader blocks writers. So
nobody keeps a connection: each is opened for one reading or one transaction, with a jittered wait while
another has the file. Writers also hold `locks/warehouse.lock`, around the reading that a decision is
based on and the transaction that carries it out.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse import locks
from bib_orchestration.biblioteca.warehouse.schema import TABLES, create_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger(__name__)

# Readable by DuckDB 1.5 and newer.
STORAGE_VERSION = "v1.5.0"
CONNECT_TIMEOUT_S = 30.0
_LOCK_CONFLICT = "Could not set lock on file"
_CONFIG: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
# An address such as "md:name" or "ducklake:…" rather than a file.
_SCHEME = re.compile(r"[a-z_]{2,}:")
# One connection a process at a time: two instances of DuckDB in one process would fight over the file.
_in_process = threading.RLock()


class WarehouseError(RuntimeError):
    """The warehouse cannot be opened; the message says why."""


class Warehouse:
    """The relational state, at a DuckDB ATTACH string (most often a file)."""

    def __init__(
        self,
        address: str,
        lock_folder: Path,
        *,
        lock_timeout_s: float = locks.DEFAULT_TIMEOUT_S,
        on_wait: Callable[[str], None] = log.info,
    ) -> None:
        self.address = address
        self._lock_path = lock_folder / "warehouse.lock"
        self._lock_timeout_s = lock_timeout_s
        self._on_wait = on_wait
        self._tables_exist = False
        self._wrote = False

    @property
    def is_file(self) -> bool:
        return not _SCHEME.match(self.address)

    @property
    def read_copy(self) -> Path:
        """Where the copy for people and other programs lies: `warehouse.read.duckdb` for a file."""
        return Path(self.address).with_suffix(".read.duckdb")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the writers' lock: around a decision and the transaction that carries it out."""
        with locks.hold(self._lock_path, timeout_s=self._lock_timeout_s, on_wait=self._on_wait):
            yield

    @contextmanager
    def read(self) -> Iterator[DuckDBPyConnection]:
        """A connection for one reading."""
        self._make_tables()
        with self._connect() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[DuckDBPyConnection]:
        """A connection for one transaction, committed at the end of the block and undone by an exception.

        The caller holds `lock()`: what it writes follows from what it read.
        """
        if not locks.is_held_here(self._lock_path):
            raise RuntimeError("a warehouse transaction needs the warehouse's lock")
        self._make_tables()
        with self._connect() as connection:
            connection.execute("BEGIN TRANSACTION")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        self._wrote = True

    def publish(self) -> bool:
        """Publish a copy for people and other programs, if anything was written since the last one.

        The file is swapped whole, so that whoever has the older copy open keeps reading it.
        """
        if not (self._wrote and self.is_file):
            return False
        with self.lock():
            with self._connect() as connection:
                # A copy without its write-ahead log would lack the last commits.
                connection.execute("CHECKPOINT warehouse")
            swap = self.read_copy.with_suffix(f".{os.getpid()}.swap")
            shutil.copyfile(self.address, swap)
            swap.replace(self.read_copy)
        self._wrote = False
        return True

    def _make_tables(self) -> None:
        if self._tables_exist:
            return
        if self.is_file:
            Path(self.address).parent.mkdir(parents=True, exist_ok=True)
        if locks.is_held_here(self._lock_path):
            self._create()
        else:
            with self.lock():
                self._create()
        self._tables_exist = True

    def _create(self) -> None:
        with self._connect() as connection:
            if not _is_complete(connection):
                create_tables(connection)

    @contextmanager
    def _connect(self) -> Iterator[DuckDBPyConnection]:
        import duckdb

        with _in_process:
            connection = duckdb.connect(":memory:", config=_CONFIG)
            try:
                connection.execute("SET TimeZone = 'UTC'")
                self._attach(connection)
                yield connection
            finally:
                connection.close()

    def _attach(self, connection: DuckDBPyConnection) -> None:
        import duckdb

        options = f" (STORAGE_VERSION '{STORAGE_VERSION}')" if self.is_file else ""
        give_up = time.monotonic() + CONNECT_TIMEOUT_S
        for pause in locks.jittered_pauses():
            try:
                connection.execute(f"ATTACH {quoted(self.address)} AS warehouse{options}")
                connection.execute("USE warehouse")
                return
            except duckdb.IOException as error:
                if _LOCK_CONFLICT not in str(error):
                    raise WarehouseError(
                        f"{self.address} cannot be opened: {error}. If it is damaged, move it away: "
                        "`bib index --full` builds it anew from the sources, the query log and the runs"
                    ) from error
                if time.monotonic() >= give_up:
                    raise WarehouseError(
                        f"{self.address} was not free within {CONNECT_TIMEOUT_S:g} s: {error}. "
                        f"Programs that read should open {self.read_copy.name}"
                    ) from error
            time.sleep(pause)


def quoted(text: str) -> str:
    """`text` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def insert_rows(connection: DuckDBPyConnection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows into a table of `schema.TABLES`, in one go; a key that is absent becomes NULL."""
    import pyarrow as pa

    if not rows:
        return
    columns = TABLES[table]
    incoming = pa.table(
        {name: pa.array([row.get(name) for row in rows], _arrow_type(kind)) for name, kind in columns.items()}
    )
    connection.register("incoming", incoming)
    listed = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM incoming")
    connection.unregister("incoming")


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    return {
        "VARCHAR": pa.large_string(),
        "JSON": pa.large_string(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(),
        "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
        "VARCHAR[]": pa.list_(pa.large_string()),
    }[kind]


def _is_complete(connection: DuckDBPyConnection) -> bool:
    rows = connection.sql(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'warehouse'"
    ).fetchall()
    present = set(rows)
    return all((table, column) in present for table, columns in TABLES.items() for column in columns)


@contextmanager
def read_published(warehouse: Warehouse) -> Iterator[DuckDBPyConnection | None]:
    """A connection to the published copy, which no writer holds; None when nothing was published yet."""
    import duckdb

    if not warehouse.is_file:
        with warehouse.read() as connection:
            yield connection
    elif not warehouse.read_copy.is_file():
        yield None
    else:
        connection = duckdb.connect(str(warehouse.read_copy), read_only=True, config=_CONFIG)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        finally:
            connection.close()
