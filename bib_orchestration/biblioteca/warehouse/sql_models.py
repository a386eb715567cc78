"""SQL models: one SELECT a file, each a table of the warehouse.

A file's leading comment describes it. `-- partitions: day` among it makes a day model: its query runs once
a day, with `$day` (a DATE) and `$day_end` (the first moment after that day, in the schedules' time zone)
bound, and its rows of that day are replaced in one transaction. Any other model's table is swapped whole,
and only when its rows changed. Other settings a model may name are `$questions` and the like, given by the
caller.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from bib_orchestration.biblioteca.warehouse.connection import Warehouse

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PARTITIONS = re.compile(r"--\s*partitions:\s*(\S+)\s*$")
_PARAMETER = re.compile(r"\$(\w+)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class ModelError(RuntimeError):
    """A model is wrong; the message names the file and what DuckDB says of it."""


@dataclass(frozen=True)
class SqlModel:
    """A model: its name (the file's, and the table's), its text and where it came from."""

    name: str
    sql: str
    path: Path

    @cached_property
    def _head(self) -> list[str]:
        head = []
        for line in self.sql.splitlines():
            if line.strip() and not line.lstrip().startswith("--"):
                break
            head.append(line.strip())
        return head

    @property
    def by_day(self) -> bool:
        """Whether `-- partitions: day` stands at the file's head."""
        kinds = [found[1] for line in self._head if (found := _PARTITIONS.match(line))]
        if kinds and kinds != ["day"]:
            raise ModelError(f"{self.path}: partitions: {kinds[0]!r} is unknown; only `day` is")
        return bool(kinds)

    @property
    def description(self) -> str:
        """The comment at the file's head."""
        words = [line.lstrip("- ") for line in self._head if not _PARTITIONS.match(line)]
        return " ".join(word for word in words if word)

    @property
    def version(self) -> str:
        """Changes with the query."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:8]

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the `$parameters` in the query, comments aside."""
        bare = "\n".join(line.split("--")[0] for line in self.sql.splitlines())
        return frozenset(_PARAMETER.findall(bare))

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of the tables that the query reads."""
        import sqlglot
        from sqlglot import exp

        try:
            tree = sqlglot.parse_one(self.sql, dialect="duckdb")
        except sqlglot.errors.ParseError as error:
            raise ModelError(f"{self.path}: {error}") from None
        own = {table.alias_or_name for table in tree.find_all(exp.CTE)}
        return frozenset(table.name for table in tree.find_all(exp.Table) if table.name) - own


def read_models(folder: Path) -> dict[str, SqlModel]:
    """The models of a folder (`*.sql`), by name, in the order of their names."""
    models = {}
    for path in sorted(folder.glob("*.sql")):
        if not _NAME.fullmatch(path.stem):
            raise ModelError(f"{path}: the file's name is the table's; use lower-case letters, digits and '_'")
        models[path.stem] = SqlModel(path.stem, path.read_text(encoding="utf-8"), path)
    return models


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What materialising a model did: rows it has (of the day, for a day model), and whether it wrote."""

    model: str
    rows: int
    wrote: bool


def materialise(
    warehouse: Warehouse,
    model: SqlModel,
    *,
    day: date | None = None,
    timezone: str = "Europe/Madrid",
    values: Mapping[str, Any] | None = None,
) -> ModelReport:
    """Run a model and bring its table level. Raises ModelError."""
    bound = _bound(model, day, timezone, values)
    with warehouse.lock():
        with warehouse.read() as connection:
            exists = table_exists(connection, model.name)
        with warehouse.transaction() as connection:
            _build(connection, model, bound)
            rows = connection.sql("SELECT count(*) FROM new_rows").fetchall()[0][0]
            scope = f"{model.name} WHERE day = DATE '{day}'" if day else model.name
            wrote = not exists or _differ(connection, scope)
            if wrote:
                _replace(connection, model.name, exists, day)
            connection.execute("DROP TABLE temp.new_rows")
    return ModelReport(model.name, rows, wrote)


def query(
    warehouse: Warehouse,
    model: SqlModel,
    *,
    day: date | None = None,
    timezone: str = "Europe/Madrid",
    values: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The rows that a model would have, without writing them. Raises ModelError."""
    bound = _bound(model, day, timezone, values)
    with warehouse.read() as connection:
        _build(connection, model, bound)
        relation = connection.sql("FROM new_rows")
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def end_of_day(day: date, timezone: str) -> datetime:
    """The first moment after `day` in that time zone.

    >>> end_of_day(date(2026, 3, 29), "Europe/Madrid").isoformat()
    '2026-03-30T00:00:00+02:00'
    """
    return datetime.combine(day + timedelta(days=1), datetime.min.time(), ZoneInfo(timezone))


def _bound(
    model: SqlModel, day: date | None, timezone: str, values: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The parameters of a model's query."""
    if model.by_day != (day is not None):
        raise ModelError(f"{model.path}: a day is {'missing' if model.by_day else 'given but not used'}")
    bound = dict(values or {})
    if day is not None:
        bound |= {"day": day, "day_end": end_of_day(day, timezone)}
    if unknown := model.parameters - set(bound):
        raise ModelError(f"{model.path}: unknown parameters: {', '.join(sorted(unknown))}")
    return {name: bound[name] for name in model.parameters}


def _build(connection: DuckDBPyConnection, model: SqlModel, values: Mapping[str, Any]) -> None:
    import duckdb

    select = model.sql.strip().removesuffix(";")
    try:
        connection.execute(f"CREATE TEMP TABLE new_rows AS\n{select}", dict(values) or None)
    except duckdb.Error as error:
        raise ModelError(f"{model.path}: {error}") from None


def table_exists(connection: DuckDBPyConnection, table: str) -> bool:
    """Whether the warehouse has such a table."""
    return bool(
        connection.execute(
            "SELECT 1 FROM duckdb_tables() WHERE database_name = 'warehouse' AND table_name = $name",
            {"name": table},
        ).fetchall()
    )


def _differ(connection: DuckDBPyConnection, scope: str) -> bool:
    """Whether the new rows are not those that the table (or its day) holds, columns included."""
    table = scope.split()[0]
    if connection.sql("DESCRIBE new_rows").fetchall() != connection.sql(f"DESCRIBE {table}").fetchall():
        return True
    return bool(
        connection.sql(
            f"(FROM new_rows EXCEPT ALL FROM {scope}) UNION ALL (FROM {scope} EXCEPT ALL FROM new_rows) LIMIT 1"
        ).fetchall()
    )


def _replace(connection: DuckDBPyConnection, table: str, exists: bool, day: date | None) -> None:
    if day is None or not exists:
        connection.execute(f"CREATE OR REPLACE TABLE {table} AS FROM new_rows")
        return
    connection.execute(f"DELETE FROM {table} WHERE day = $day", {"day": day})
    connection.execute(f"INSERT INTO {table} BY NAME FROM new_rows")
