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
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse import locks
from bib_orchestration.biblioteca.warehouse.schema import TABLES, create_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement

log = logging.getLogger(__name__)

# Readable by DuckDB 1.5 and newer.
STORAGE_VERSION = "v1.5.0"
CONNECT_TIMEOUT_S = 30.0
_LOCK_CONFLICT = "Could not set lock on file"
_OPEN_HERE = "already attached by database"
_DAMAGED = re.compile("Corrupt database file|Could not read enough bytes from file")
_CONFIG: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
# An address such as "md:name" or "ducklake:…" rather than a file.
_SCHEME = re.compile(r"[a-z_]{2,}:")
# One connection a process at a time: two instances of DuckDB in one process would fight over the file.
_in_process = threading.RLock()
# Starting DuckDB takes twenty times as long as attaching a file to it, so a process does it once. By the
# process's number, for what a fork inherits is of no use.
_engines: dict[int, DuckDBPyConnection] = {}
_open_addresses: list[str] = []


class WarehouseError(RuntimeError):
    """The warehouse cannot be opened or read; the message says why, and what to do."""


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
        self._tables_seen_in: tuple[int, int] | None = None

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
        """A connection for one transaction, committed at the end of the block; an exception leaves it undone.

        The caller holds `lock()`: what it writes follows from what it read.
        """
        if not locks.is_held_here(self._lock_path):
            raise RuntimeError("a warehouse transaction needs the warehouse's lock")
        self._make_tables()
        with self._connect() as connection:
            connection.execute("BEGIN TRANSACTION")
            # Closing undoes what was not committed. A ROLLBACK of our own could fail, and hide the exception.
            yield connection
            connection.execute("COMMIT")

    def publish(self) -> bool:
        """Publish a copy for people and other programs, unless what is published is level.

        The files tell, and not what this process wrote: a run that was killed before it published must not
        keep its rows from view until the next change. The copy is swapped whole, so that whoever has the
        older one open keeps reading it.
        """
        if not self.is_file or self._is_published():
            return False
        # Closing any handle of a file drops all locks that its process has on it: no connection of another
        # thread may be open while it is copied.
        with self.lock(), _in_process:
            with self._connect() as connection:
                # A copy without its write-ahead log would lack the last commits.
                connection.execute("CHECKPOINT warehouse")
            swap = self.read_copy.with_suffix(".swap")
            try:
                # With its time of change, by which `_is_published` knows it.
                shutil.copy2(self.address, swap)
                swap.replace(self.read_copy)
            finally:
                swap.unlink(missing_ok=True)
        return True

    def _is_published(self) -> bool:
        file = Path(self.address)
        if not file.exists():
            return True
        if file.with_name(f"{file.name}.wal").exists() or not self.read_copy.exists():
            return False
        now, published = file.stat(), self.read_copy.stat()
        return (now.st_mtime_ns, now.st_size) == (published.st_mtime_ns, published.st_size)

    def _make_tables(self) -> None:
        """Create what the file lacks, once a file: it may be deleted, to be built anew, while we live.

        Only creating needs the lock: who reads does not wait for a writer that is at work elsewhere.
        """
        if self._tables_seen_in is not None and self._tables_seen_in == self._file_id():
            return
        if self.is_file:
            Path(self.address).parent.mkdir(parents=True, exist_ok=True)
        if not self._has_tables():
            if locks.is_held_here(self._lock_path):
                self._create()
            else:
                with self.lock():
                    self._create()
        self._tables_seen_in = self._file_id()

    def _file_id(self) -> tuple[int, int] | None:
        """Tells a file from another at the same path; None when there is none."""
        if not self.is_file:
            return (0, 0)
        try:
            found = Path(self.address).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _has_tables(self) -> bool:
        if self._file_id() is None:
            return False
        with self._connect() as connection:
            return _is_complete(connection)

    def _create(self) -> None:
        with self._connect() as connection:
            connection.execute("BEGIN TRANSACTION")
            create_tables(connection)
            connection.execute("COMMIT")

    @contextmanager
    def _connect(self) -> Iterator[DuckDBPyConnection]:
        import duckdb

        with _in_process:
            if _open_addresses:
                raise RuntimeError(
                    f"a connection to {self.address} inside the block of another, to {_open_addresses[0]}"
                )
            engine = _engine()
            connection = engine.cursor()
            _open_addresses.append(self.address)
            try:
                self._attach(connection)
                yield connection
                connection.close()
                engine.execute("DETACH warehouse")
            except BaseException as error:
                # Ends the transaction and closes the file, whatever state both are in.
                connection.close()
                _stop_engine()
                if isinstance(error, duckdb.Error) and _DAMAGED.search(str(error)):
                    raise WarehouseError(self._how_to_rebuild(error)) from error
                if isinstance(error, duckdb.IOException):
                    # A full disk, most often.
                    raise WarehouseError(f"{self.address}: {error}") from error
                raise
            finally:
                _open_addresses.clear()

    def _attach(self, connection: DuckDBPyConnection) -> None:
        import duckdb

        options = f" (STORAGE_VERSION '{STORAGE_VERSION}')" if self.is_file else ""
        give_up = time.monotonic() + CONNECT_TIMEOUT_S
        for pause in locks.jittered_pauses():
            try:
                connection.execute(f"ATTACH {quoted(self.address)} AS warehouse{options}")
                connection.execute("USE warehouse")
                return
            except duckdb.Error as error:
                if _OPEN_HERE in str(error):
                    raise RuntimeError(
                        f"{self.address} is open in this process, outside the warehouse"
                    ) from error
                if _LOCK_CONFLICT not in str(error):
                    raise WarehouseError(self._how_to_rebuild(error)) from error
                if time.monotonic() >= give_up:
                    raise WarehouseError(
                        f"{self.address} was not free within {CONNECT_TIMEOUT_S:g} s: {error}. "
                        f"Programs that read should open {self.read_copy.name}"
                    ) from error
            time.sleep(pause)

    def _how_to_rebuild(self, error: Exception) -> str:
        return (
            f"{self.address} cannot be read: {error}. If it is damaged, move it away (and its .wal): "
            "`bib index --full` builds it anew from the sources, the query log and the runs"
        )


def _engine() -> DuckDBPyConnection:
    import duckdb

    if os.getpid() not in _engines:
        engine = duckdb.connect(":memory:", config=_CONFIG)
        engine.execute("SET GLOBAL TimeZone = 'UTC'")
        _engines[os.getpid()] = engine
    return _engines[os.getpid()]


def _stop_engine() -> None:
    if engine := _engines.pop(os.getpid(), None):
        engine.close()


def parse(sql: str) -> list[Statement]:
    """The statements of a text as DuckDB reads it, before any table is looked for. Raises duckdb.Error."""
    with _in_process, closing(_engine().cursor()) as connection:
        return connection.extract_statements(sql)


def quoted(text: str) -> str:
    """`text` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def rows_of(connection: DuckDBPyConnection, select: str) -> list[dict[str, Any]]:
    """The rows of a query, each as a dict by column."""
    relation = connection.sql(select)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def insert_rows(connection: DuckDBPyConnection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows into a table of `schema.TABLES`, in one go; a key that is absent becomes NULL.

    Raises what `as_table` does.
    """
    if not rows:
        return
    connection.register("incoming", as_table(table, rows))
    listed = ", ".join(f'"{name}"' for name in TABLES[table])
    connection.execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM incoming")
    connection.unregister("incoming")


def as_table(table: str, rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as an Arrow table of the columns of one of `schema.TABLES`.

    Raises ValueError, TypeError or OverflowError for a value that is none of its column's type.
    """
    import pyarrow as pa

    return pa.table(
        {
            name: pa.array([row.get(name) for row in rows], _arrow_type(kind))
            for name, kind in TABLES[table].items()
        }
    )


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
    """A connection to the published copy, which no writer holds; None when nothing was published yet.

    Raises WarehouseError when it is damaged.
    """
    import duckdb

    if not warehouse.is_file:
        with warehouse.read() as connection:
            yield connection
    elif not warehouse.read_copy.is_file():
        # Nothing was published yet, or somebody removed it: then the warehouse itself is asked.
        if Path(warehouse.address).is_file():
            with warehouse.read() as connection:
                yield connection
        else:
            yield None
    else:
        with ExitStack() as opened:
            try:
                connection = duckdb.connect(str(warehouse.read_copy), read_only=True, config=_CONFIG)
                opened.callback(connection.close)
                connection.execute("SET TimeZone = 'UTC'")
            except duckdb.Error as error:
                raise WarehouseError(
                    f"{warehouse.read_copy} cannot be read: {error}. If it is damaged, delete it: "
                    "`bib index` publishes it anew"
                ) from error
            yield connection
