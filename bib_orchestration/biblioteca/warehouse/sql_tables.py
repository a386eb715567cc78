"""Making the tables of SQL models.

A model's table is swapped whole, and only when its rows changed. A model by day runs once a day, with `$day`
(a DATE) and `$day_end` (the first moment after that day, in the schedules' time zone) bound, and its rows of
that day are replaced in one transaction. Other values that a query may name (`$questions`, `$timezone`) are
given by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from bib_orchestration.biblioteca.warehouse.connection import Warehouse, rows_of
from bib_orchestration.biblioteca.warehouse.schema import TABLES
from bib_orchestration.biblioteca.warehouse.sql_models import ModelError, SqlFile, SqlModel, SqlTest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# No model can be called so.
_NEW_ROWS = "_new_rows"
_MAKE = f"CREATE TEMP TABLE {_NEW_ROWS} AS "


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What materialising a model did.

    model: its name.
    rows: rows that it has (of the day, for a model by day).
    wrote: whether any of them changed.
    columns: the columns of its table and their types, as DuckDB describes them.
    """

    model: str
    rows: int
    wrote: bool
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test found: how many bad rows there are, and the first of them."""

    test: str
    bad_rows: int
    first: tuple[dict[str, Any], ...] = ()


def materialise(
    warehouse: Warehouse,
    model: SqlModel,
    *,
    day: date | None = None,
    timezone: str = "Europe/Madrid",
    values: Mapping[str, Any] | None = None,
    known_to_differ: bool = False,
) -> ModelReport:
    """Run a model and bring its table level. Raises ModelError.

    `known_to_differ` spares comparing the rows: as much work again as making them.
    """
    bound = _of_model(model, day, timezone, values)
    with warehouse.lock():
        with warehouse.read() as connection:
            exists = table_exists(connection, model.name)
        with warehouse.transaction() as connection:
            _build(connection, model, bound, day)
            rows = connection.sql(f"SELECT count(*) FROM {_NEW_ROWS}").fetchall()[0][0]
            wrote = not exists or known_to_differ or _differ(connection, model.name, day)
            if wrote:
                _replace(connection, model.name, exists, day)
            columns = _columns(connection, model.name)
            connection.execute(f"DROP TABLE temp.{_NEW_ROWS}")
    return ModelReport(model.name, rows, wrote, columns)


def query(
    warehouse: Warehouse,
    model: SqlModel,
    *,
    day: date | None = None,
    timezone: str = "Europe/Madrid",
    values: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The rows that a model would have, without writing them. Raises ModelError."""
    bound = _of_model(model, day, timezone, values)
    with warehouse.read() as connection:
        _build(connection, model, bound, day)
        return rows_of(connection, f"FROM {_NEW_ROWS}")


def run_test(
    warehouse: Warehouse, test: SqlTest, *, most: int, values: Mapping[str, Any] | None = None
) -> TestReport:
    """The rows that should not be, `most` of them at most. Raises ModelError."""
    bound = _bound(test, dict(values or {}))
    with warehouse.read() as connection:
        _build(connection, test, bound, None)
        count = connection.sql(f"SELECT count(*) FROM {_NEW_ROWS}").fetchall()[0][0]
        return TestReport(test.name, count, tuple(rows_of(connection, f"FROM {_NEW_ROWS} LIMIT {most}")))


def end_of_day(day: date, timezone: str) -> datetime:
    """The first moment after `day` in that time zone.

    >>> end_of_day(date(2026, 3, 29), "Europe/Madrid").isoformat()
    '2026-03-30T00:00:00+02:00'
    """
    return datetime.combine(day + timedelta(days=1), datetime.min.time(), ZoneInfo(timezone))


def _of_model(
    model: SqlModel, day: date | None, timezone: str, values: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The values of the parameters of a model's query."""
    if model.by_day != (day is not None):
        raise ModelError(f"{model.path}: a day is {'missing' if model.by_day else 'given but not used'}")
    given = {"timezone": timezone, **(values or {})}
    return _bound(model, given if day is None else given | {"day": day, "day_end": end_of_day(day, timezone)})


def _bound(file: SqlFile, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that a query names."""
    named = file.parameters
    if unknown := named - values.keys():
        raise ModelError(
            f"{file.path}: unknown parameters: {', '.join(sorted(unknown))}; there are: "
            f"{', '.join(sorted(values)) or 'none'}"
        )
    return {name: values[name] for name in sorted(named)}


def _build(
    connection: DuckDBPyConnection, model: SqlFile, values: Mapping[str, Any], day: date | None
) -> None:
    """Put the rows that a model has now into a temporary table."""
    import duckdb

    # It tells a query that writes; DuckDB would run it.
    _ = model.tree
    try:
        # On one line with the query's first, so that the lines that DuckDB names are the file's.
        connection.execute(f"{_MAKE}{model.sql}", dict(values) or None)
        if day is not None:
            _require_day(connection, model, day)
    except duckdb.Error as error:
        raise ModelError(f"{model.path}: {_of_the_file(str(error))}") from None


def _of_the_file(said: str) -> str:
    """What DuckDB says, without what stands before the query in its first line."""
    lines = said.split("\n")
    for number, line in enumerate(lines[:-1]):
        if _MAKE in line:
            lines[number] = line.replace(_MAKE, "")
            if not lines[number + 1].replace("^", "").strip():
                lines[number + 1] = lines[number + 1].removeprefix(" " * len(_MAKE))
    return "\n".join(lines)


def _require_day(connection: DuckDBPyConnection, model: SqlFile, day: date) -> None:
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


def require_made(warehouse: Warehouse, file: SqlFile, models: Iterable[str]) -> None:
    """Raise ModelError for a query that reads what is left of a model that is gone: nobody refreshes it."""
    with warehouse.read() as connection:
        for table in sorted(file.tables - {*models, *TABLES}):
            if table_exists(connection, table):
                raise ModelError(
                    f"{file.path}: it reads {table}, the table of a model that is gone; "
                    f"give it {table}.sql back, or name another table"
                )


def table_columns(connection: DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """The columns of every table of the warehouse and their types, in order."""
    found = connection.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'warehouse'"
        " ORDER BY table_name, column_index"
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in found:
        tables.setdefault(table, {})[column] = kind
    return tables


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
        # Days that are not run again keep what the model's new columns can hold of them; a name in another case
        # is the same to DuckDB. Rows of no day are those of a model that had none.
        kept = {name.lower() for name in present}
        listed = ", ".join(
            f"{f'TRY_CAST({_name(name)} AS {kind})' if name.lower() in kept else f'NULL::{kind}'} AS {_name(name)}"
            for name, kind in wanted.items()
        )
        connection.execute(
            f'CREATE OR REPLACE TABLE "{table}" AS'
            f' SELECT * FROM (SELECT {listed} FROM "{table}") WHERE day IS NOT NULL'
        )
    connection.execute(f'DELETE FROM "{table}" WHERE day = $day', {"day": day})
    connection.execute(f'INSERT INTO "{table}" BY NAME FROM {_NEW_ROWS}')


def _columns(connection: DuckDBPyConnection, table: str) -> dict[str, str]:
    """Columns of a table and their types, in order."""
    return {row[0]: row[1] for row in connection.sql(f'DESCRIBE "{table}"').fetchall()}


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
