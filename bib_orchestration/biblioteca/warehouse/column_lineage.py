"""Where the columns of a SQL model come from.

sqlglot follows a column from the outermost SELECT down to the tables. It cannot follow everything that
DuckDB runs, and is wrong about some of it without saying so: what it is known to get wrong is told as
unknown, with the reason, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel

if TYPE_CHECKING:
    from sqlglot import exp

_LAST_NAME = re.compile(r'(?:"((?:[^"]|"")+)"|([^."]+))\Z')
_NUMBERED = re.compile(r"_\d+\Z")

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
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    if reason := _unfollowed_query(model.tree):
        return _all_unknown(columns, reason)
    read: dict[str, Any] = {table: dict(tables[table]) for table in model.tables if table in tables}
    if missing := sorted(model.tables - read.keys()):
        return _all_unknown(columns, f"the columns of {', '.join(missing)} are not known")
    try:
        tree = qualify(
            _with_windows_in_place(model.tree.copy()),
            schema=read,
            dialect="duckdb",
            validate_qualify_columns=False,
            identify=False,
        )
        scope = build_scope(tree)
        if scope and any(each.is_derived_table and each.external_columns for each in scope.traverse()):
            return _all_unknown(columns, "a query in FROM that reads what stands beside it")
        # Trimmed, each column costs a copy of the query.
        nodes = lineage(None, tree, schema=read, dialect="duckdb", scope=scope, trim_selects=False)
    except (SqlglotError, ValueError, AttributeError, KeyError, RecursionError) as error:
        return _all_unknown(columns, f"sqlglot cannot follow the query: {_first_line(error)}")
    by_name = {name.lower(): node for name, node in nodes.items()}
    found = {name: _of_column(by_name.get(name.lower()), read) for name in columns}
    if len(nodes) < len(columns):
        # DuckDB numbers columns of one name: whose `id_1` is, sqlglot does not know.
        found |= _all_unknown(
            [name for name in columns if _NUMBERED.search(name)], "the query has two columns of one name"
        )
    return found


def _with_windows_in_place(tree: exp.Expr) -> exp.Expr:
    """The query with each window that has a name written out where it is used; sqlglot does not look it up."""
    from sqlglot import exp

    for select in tree.find_all(exp.Select):
        named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or ():
            _write_out(window, named)
            named[window.this.name.lower()] = window
        for window in select.find_all(exp.Window) if named else ():
            if window.parent is not select and window.parent_select is select:
                _write_out(window, named)
    return tree


def _write_out(window: exp.Window, named: Mapping[str, exp.Window]) -> None:
    """Give a window what the one that it names says."""
    said = named.get(window.alias.lower())
    for part in ("partition_by", "order"):
        value = said.args.get(part) if said else None
        if value and not window.args.get(part):
            window.set(part, [each.copy() for each in value] if isinstance(value, list) else value.copy())


def _of_column(node: Any, tables: TableColumns) -> Lineage:
    from sqlglot import exp

    if node is None:
        return Lineage(unknown="sqlglot sees no such column in the query")
    origins = set()
    for step in node.walk():
        if isinstance(step.expression, exp.Query):
            # It takes all that the query is made of for what the column is.
            return Lineage(unknown="a query on the way has no such column that sqlglot sees")
        # A table's own columns say nothing of this column.
        if not isinstance(step.expression, exp.Table) and (reason := _unfollowed_expression(step.expression)):
            return Lineage(unknown=reason)
        if step.downstream:
            continue
        if isinstance(step.source, exp.Table):
            if not step.source.name:
                return Lineage(unknown="a table function")
            table, column = step.source.name.lower(), _last_name(step.name)
            named = [name for name in tables[table] if name.lower() == column.lower()]
            if len(named) != 1:
                return Lineage(unknown=f"{table} has no column {column} that sqlglot could mean")
            origins.add(Origin(table, named[0]))
        elif list(step.expression.find_all(exp.Column)):
            return Lineage(unknown="sqlglot loses it on the way")
    return Lineage(tuple(sorted(origins)))


def _last_name(column: str) -> str:
    """The name of a column, from what SQL calls it.

    >>> _last_name('pages."a.b ""c"" d"')
    'a.b "c" d'
    """
    found = _LAST_NAME.search(column)
    return (found[1] or found[2]).replace('""', '"') if found else column


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
        if isinstance(node, exp.Lateral):
            # It takes what the query is joined by for what its columns are made of.
            return "LATERAL"
        if isinstance(node, exp.Table) and node.name and node.alias_column_names:
            # It takes the new names for the table's own.
            return "a table whose columns are given other names"
    if isinstance(tree, exp.Subquery):
        return "a query in parentheses"
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
        if isinstance(node, exp.TableColumn):
            return "a whole row as a value"
        if isinstance(node, exp.PositionalColumn):
            return "a column named by its place"
        if isinstance(node, exp.Column) and _is_of_outer_query(node, expression):
            return "a subquery that shows a column of the query around it"
    return None


def _is_of_outer_query(column: exp.Expr, expression: exp.Expr) -> bool:
    """Whether a column stands in a subquery of `expression`, is of no table of it, and is no part of a condition
    there."""
    from sqlglot import exp

    within = False
    node = column
    while node is not expression and node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Where | exp.Join) and not within:
            return False
        if isinstance(node, exp.Select) and node is not expression:
            within = True
            if column.args["table"] and column.text("table") in _sources(node):
                return False
    return within


def _sources(select: exp.Select) -> set[str]:
    """The names of what stands in a query's FROM."""
    first, joins = select.args.get("from_"), select.args.get("joins") or ()
    return {each.this.alias_or_name for each in (*([first] if first else ()), *joins)}


def _all_unknown(columns: Sequence[str], reason: str) -> dict[str, Lineage]:
    return {name: Lineage(unknown=reason) for name in columns}


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0] or type(error).__name__
