"""Where the columns of a SQL model come from.

sqlglot follows a column from the outermost SELECT down to the tables. It cannot follow everything that
DuckDB runs, and is wrong about some of it without saying so: what it is known to get wrong is told as
unknown, with the reason, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel

if TYPE_CHECKING:
    from sqlglot import exp

# Tables, their columns and the columns' types.
TableColumns = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of a table that a model reads."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a column comes from.

    origins: the columns that its values are made of; none for a constant or a count of rows.
    unknown: why that cannot be told, in which case `origins` is empty; None when it can.
    """

    origins: tuple[Origin, ...] = ()
    unknown: str | None = None


def follow_columns(model: SqlModel, columns: Sequence[str], tables: TableColumns) -> dict[str, Lineage]:
    """The lineage of each of a model's `columns`, given the columns of the tables that it reads.

    >>> from pathlib import Path
    >>> ages = SqlModel("ages", "SELECT name, 2026 - born AS age, 1 AS one FROM people", Path("ages.sql"))
    >>> people = {"people": {"name": "VARCHAR", "born": "BIGINT"}}
    >>> for name, lineage in follow_columns(ages, ["name", "age", "one"], people).items():
    ...     print(name, [str(origin) for origin in lineage.origins])
    name ['people.name']
    age ['people.born']
    one []
    """
    from sqlglot.errors import SqlglotError
    from sqlglot.lineage import lineage

    if reason := _unfollowed_query(model.tree):
        return _all_unknown(columns, reason)
    read = {table: dict(tables[table]) for table in model.tables if table in tables}
    if missing := sorted(model.tables - read.keys()):
        return _all_unknown(columns, f"the columns of {', '.join(missing)} are not known")
    try:
        nodes = lineage(
            None, model.tree.copy(), schema=read, dialect="duckdb", validate_qualify_columns=False
        )
    except (SqlglotError, ValueError, AttributeError, RecursionError) as error:
        return _all_unknown(columns, f"sqlglot cannot follow the query: {_first_line(error)}")
    by_name = {name.lower(): node for name, node in nodes.items()}
    return {name: _of_column(by_name.get(name.lower()), read) for name in columns}


def _of_column(node: Any, tables: TableColumns) -> Lineage:
    from sqlglot import exp

    if node is None:
        return Lineage(unknown="sqlglot sees no such column in the query")
    origins = set()
    for step in node.walk():
        # A table's own columns, and what a whole query is made of, say nothing of this column.
        if not isinstance(step.expression, exp.Query | exp.Table) and (
            reason := _unfollowed_expression(step.expression)
        ):
            return Lineage(unknown=reason)
        if step.downstream:
            continue
        if isinstance(step.source, exp.Table):
            table, column = step.source.name.lower(), step.name.rpartition(".")[2].strip('"').lower()
            if column not in {name.lower() for name in tables[table]}:
                return Lineage(unknown=f"{table} has no column {column} that sqlglot could mean")
            origins.add(Origin(table, column))
        elif list(step.expression.find_all(exp.Column)):
            return Lineage(unknown="sqlglot loses it on the way")
    return Lineage(tuple(sorted(origins)))


def _unfollowed_query(tree: exp.Expr) -> str | None:
    """What of a query's form sqlglot follows wrongly or not at all; None when there is no such thing."""
    from sqlglot import exp

    for node in tree.walk():
        if isinstance(node, exp.SetOperation) and node.args.get("by_name"):
            # sqlglot pairs columns by their place.
            return "UNION BY NAME"
        if isinstance(node, exp.With) and node.args.get("recursive"):
            return "a recursive CTE"
        if isinstance(node, exp.Pivot):
            return "PIVOT"
        if isinstance(node, exp.Columns):
            return "COLUMNS()"
    return None


def _unfollowed_expression(expression: exp.Expr) -> str | None:
    """What of a column's expression sqlglot loses columns in; None when there is no such thing."""
    from sqlglot import exp

    for node in expression.walk():
        if isinstance(node, exp.Comprehension | exp.Lambda):
            return "a lambda or a comprehension"
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            # `text.upper()`: it takes the column for a table.
            return "a function called behind a dot"
    return None


def _all_unknown(columns: Sequence[str], reason: str) -> dict[str, Lineage]:
    return {name: Lineage(unknown=reason) for name in columns}


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0] or type(error).__name__
