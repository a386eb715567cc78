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

from bib_orchestration.biblioteca.warehouse.connection import Warehouse, parse
from bib_orchestration.biblioteca.warehouse.schema import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement
    from sqlglot import exp

_PARTITIONS = re.compile(r"--\s*partitions:\s*(\S+)\s*$")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# No model can be called so.
_NEW_ROWS = "_new_rows"
_TERMINAL_COLOURS = re.compile(r"\x1b\[\d*m")


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
        for line in self.sql.split("\n"):
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
        """Names of the `$parameters` in the query, as DuckDB reads it. Raises ModelError."""
        return frozenset(self._statement.named_parameters)

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of the tables that the query reads, in lower case. Raises ModelError."""
        import sqlglot
        from sqlglot import exp

        try:
            tree = sqlglot.parse_one(self._statement.query, dialect="duckdb")
        except sqlglot.errors.SqlglotError as error:
            # DuckDB has read it.
            said = _TERMINAL_COLOURS.sub("", str(error))
            raise ModelError(f"{self.path}: its tables cannot be told: {said}") from None
        read = [table for table in tree.find_all(exp.Table) if table.name]
        return frozenset(table.name.lower() for table in read if not _is_cte(table))

    @cached_property
    def _statement(self) -> Statement:
        import duckdb

        try:
            statements = parse(self.sql)
        except duckdb.Error as error:
            raise ModelError(f"{self.path}: {error}") from None
        # A second one would be run too, and it could be anything.
        if len(statements) != 1:
            raise ModelError(f"{self.path}: {len(statements)} statements; one SELECT is right")
        return statements[0]


def _is_cte(table: exp.Table) -> bool:
    """Whether a table's name is that of a CTE where it stands.

    A CTE sees those before it, and itself only when it is recursive: `WITH orders AS (FROM orders) …` reads
    the table `orders`.
    """
    from sqlglot import exp

    cte: Any = None
    node: Any = table
    while node is not None and not table.db:
        if isinstance(node, exp.CTE):
            cte = node
        if with_ := node.args.get("with_"):
            visible = list(with_.expressions)
            if cte is not None and cte.parent is with_:
                visible = visible[: cte.index + bool(with_.args.get("recursive"))]
            if any(seen.alias.lower() == table.name.lower() for seen in visible):
                return True
        node = node.parent
    return False


def read_models(folder: Path) -> dict[str, SqlModel]:
    """The models of a folder (`*.sql`), by name, in the order of their names. Raises ModelError."""
    models = {}
    for path in sorted(folder.glob("*.sql")):
        if not _NAME.fullmatch(path.stem):
            raise ModelError(
                f"{path}: the file's name is the table's; use lower-case letters, digits and '_'"
            )
        if path.stem in TABLES:
            raise ModelError(f"{path}: {path.stem} is a table that is no model's; give the file another name")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ModelError(f"{path}: {error}; UTF-8 is right") from None
        models[path.stem] = SqlModel(path.stem, text, path)
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
            _build(connection, model, bound, day)
            rows = connection.sql(f"SELECT count(*) FROM {_NEW_ROWS}").fetchall()[0][0]
            wrote = not exists or _differ(connection, model.name, day)
            if wrote:
                _replace(connection, model.name, exists, day)
            connection.execute(f"DROP TABLE temp.{_NEW_ROWS}")
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
        _build(connection, model, bound, day)
        relation = connection.sql(f"FROM {_NEW_ROWS}")
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


def _build(
    connection: DuckDBPyConnection, model: SqlModel, values: Mapping[str, Any], day: date | None
) -> None:
    """Put the rows that a model has now into a temporary table."""
    import duckdb

    try:
        # On one line with the query's first, so that the lines that DuckDB names are the file's.
        connection.execute(f"CREATE TEMP TABLE {_NEW_ROWS} AS {model.sql}", dict(values) or None)
        if day is not None:
            _require_day(connection, model, day)
    except duckdb.Error as error:
        raise ModelError(f"{model.path}: {error}") from None


def _require_day(connection: DuckDBPyConnection, model: SqlModel, day: date) -> None:
    """Rows of another day would be added again by each run."""
    if _columns(connection, _NEW_ROWS).get("day") != "DATE":
        raise ModelError(f"{model.path}: a model by day has a column `day`, a DATE")
    others = connection.execute(
        f"SELECT DISTINCT day FROM {_NEW_ROWS} WHERE day IS DISTINCT FROM $day LIMIT 1", {"day": day}
    ).fetchall()
    if others:
        raise ModelError(f"{model.path}: run for {day} it has rows of {others[0][0]}; only $day is right")


def table_exists(connection: DuckDBPyConnection, table: str) -> bool:
    """Whether the warehouse has such a table."""
    return bool(
        connection.execute(
            "SELECT 1 FROM duckdb_tables() WHERE database_name = 'warehouse' AND table_name = $name",
            {"name": table},
        ).fetchall()
    )


def _differ(connection: DuckDBPyConnection, table: str, day: date | None) -> bool:
    """Whether the new rows are not those that the table (or its day) holds, columns included."""
    if list(_columns(connection, _NEW_ROWS).items()) != list(_columns(connection, table).items()):
        return True
    scope = f'"{table}"' + (f" WHERE day = DATE '{day}'" if day else "")
    return bool(
        connection.sql(
            f"(FROM {_NEW_ROWS} EXCEPT ALL FROM {scope}) UNION ALL (FROM {scope} EXCEPT ALL FROM {_NEW_ROWS})"
            " LIMIT 1"
        ).fetchall()
    )


def _replace(connection: DuckDBPyConnection, table: str, exists: bool, day: date | None) -> None:
    if day is None or not exists:
        connection.execute(f'CREATE OR REPLACE TABLE "{table}" AS FROM {_NEW_ROWS}')
        return
    present, wanted = _columns(connection, table), _columns(connection, _NEW_ROWS)
    if list(present.items()) != list(wanted.items()):
        # Days that are not run again keep what the model's new columns can hold of them.
        listed = ", ".join(
            f"{f'TRY_CAST({_name(name)} AS {kind})' if name in present else f'NULL::{kind}'} AS {_name(name)}"
            for name, kind in wanted.items()
        )
        connection.execute(f'CREATE OR REPLACE TABLE "{table}" AS SELECT {listed} FROM "{table}"')
    connection.execute(f'DELETE FROM "{table}" WHERE day = $day', {"day": day})
    connection.execute(f'INSERT INTO "{table}" BY NAME FROM {_NEW_ROWS}')


def _columns(connection: DuckDBPyConnection, table: str) -> dict[str, str]:
    """Columns of a table and their types, in order."""
    return {row[0]: row[1] for row in connection.sql(f'DESCRIBE "{table}"').fetchall()}


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
