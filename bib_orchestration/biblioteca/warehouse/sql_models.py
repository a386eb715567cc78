"""SQL models and tests as they are written: one SELECT a file, read by sqlglot.

A model is a table of the warehouse; a test selects rows that should not be, and is an asset check. The
comment at a file's head describes it, and may hold directives, one a line:

    -- partitions: day       a model that runs once a day, with `$day` and `$day_end` bound (see `sql_tables`)
    -- checks: bib_chunks    what a test is a check of; needed only when it reads more than one table
    -- severity: warn        a test that warns; any other is an error, and stops what is downstream

A comment beside a column of the outermost SELECT describes that column.

What a query reads is told from its text alone, so that nothing has to be opened to load the definitions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse.schema import TABLES

if TYPE_CHECKING:
    from duckdb import Statement
    from sqlglot import exp

_DIRECTIVE = re.compile(r"--\s*(partitions|checks|severity):\s*(\S+)\s*$")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TERMINAL_COLOURS = re.compile(r"\x1b\[\d*m")
SEVERITIES = ("error", "warn")


class ModelError(RuntimeError):
    """A model or a test is wrong; the message names the file and what DuckDB says of it."""


@dataclass(frozen=True)
class SqlFile:
    """A query: its name (the file's), its text and where it came from."""

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

    def _directive(self, name: str, allowed: Iterable[str] | None = None) -> str | None:
        """What a directive at the file's head says; None when it is not there. Raises ModelError."""
        said = [found[2] for line in self._head if (found := _DIRECTIVE.match(line)) and found[1] == name]
        if not said:
            return None
        if len(said) > 1:
            raise ModelError(f"{self.path}: {name}: said {len(said)} times; once is right")
        if allowed is not None and said[0] not in allowed:
            raise ModelError(f"{self.path}: {name}: {said[0]!r} is unknown; only {_or(allowed)} is")
        return said[0]

    @property
    def description(self) -> str:
        """The comment at the file's head, without its directives."""
        words = [line.lstrip("- ") for line in self._head if not _DIRECTIVE.match(line)]
        return " ".join(word for word in words if word)

    @property
    def version(self) -> str:
        """Changes with the query."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:8]

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of the tables that the query reads, in lower case. Raises ModelError."""
        from sqlglot import exp

        read = [table for table in self.tree.find_all(exp.Table) if table.name]
        return frozenset(table.name.lower() for table in read if not _is_cte(table))

    @cached_property
    def _named_tables(self) -> frozenset[str]:
        """Those of `tables` that are named alone: neither files, nor of another schema or database."""
        from sqlglot import exp

        return frozenset(
            table.name.lower()
            for table in self.tree.find_all(exp.Table)
            if table.name.lower() in self.tables and not table.db and _NAME.fullmatch(table.name.lower())
        )

    def require_tables(self, known: Iterable[str]) -> None:
        """Raise ModelError for a table that is not among `known`: neither ours, nor a model's."""
        if unknown := sorted(self._named_tables - set(known)):
            near = get_close_matches(unknown[0], known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ModelError(
                f"{self.path}: it reads {unknown[0]}, which is neither a table of ours nor a model; {hint}"
                f"there are: {', '.join(sorted(known))}"
            )

    @cached_property
    def tree(self) -> exp.Expr:
        """The query as sqlglot reads it. Raises ModelError, in DuckDB's words where DuckDB cannot read it, and for
        a query that writes: DuckDB runs an INSERT in a WITH."""
        import sqlglot
        from sqlglot import exp

        try:
            # A comment behind the last semicolon is a tree of its own.
            trees = [
                tree
                for tree in sqlglot.parse(self.sql, dialect="duckdb")
                if tree is not None and not isinstance(tree, exp.Semicolon)
            ]
        except sqlglot.errors.SqlglotError as error:
            _ = self.statement
            said = _TERMINAL_COLOURS.sub("", str(error))
            raise ModelError(f"{self.path}: its tables cannot be told: {said}") from None
        except RecursionError:
            raise ModelError(f"{self.path}: its tables cannot be told: it is nested too deeply") from None
        self._require_one(len(trees))
        if writes := trees[0].find(exp.Insert, exp.Update, exp.Delete, exp.Merge):
            raise ModelError(
                f"{self.path}: it writes ({writes.key.upper()}); a SELECT that only reads is right"
            )
        return trees[0]

    @cached_property
    def statement(self) -> Statement:
        """The query as DuckDB reads it. Raises ModelError."""
        import duckdb

        from bib_orchestration.biblioteca.warehouse.connection import parse

        try:
            statements = parse(self.sql)
        except duckdb.Error as error:
            raise ModelError(f"{self.path}: {error}") from None
        # A second one would be run too, and it could be anything.
        self._require_one(len(statements))
        return statements[0]

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the `$parameters` in the query, as DuckDB reads it. Raises ModelError."""
        return frozenset(self.statement.named_parameters)

    def _require_one(self, statements: int) -> None:
        if statements != 1:
            raise ModelError(f"{self.path}: {statements} statements; one SELECT is right")

    @property
    def query(self) -> str:
        """The text without the comment at its head."""
        return "\n".join(self.sql.split("\n")[len(self._head) :]).strip()


@dataclass(frozen=True)
class SqlModel(SqlFile):
    """A model: its name is also the table's."""

    @property
    def by_day(self) -> bool:
        """Whether `-- partitions: day` stands at the file's head."""
        return self._directive("partitions", ["day"]) is not None

    @property
    def column_notes(self) -> dict[str, str]:
        """What the comments beside the columns of the outermost SELECT say of them."""
        from sqlglot import exp

        if not isinstance(self.tree, exp.Query):
            return {}
        noted = {
            select.alias_or_name: " ".join(comment.strip() for comment in select.comments or ())
            for select in self.tree.selects
        }
        return {name: note for name, note in noted.items() if name and note}


@dataclass(frozen=True)
class SqlTest(SqlFile):
    """A test: a query of the rows that should not be."""

    @property
    def table(self) -> str:
        """The table that it is a check of: what `-- checks:` names, or else the one that it reads."""
        if (named := self._directive("checks")) is not None:
            return named.lower()
        if len(self.tables) != 1:
            raise ModelError(
                f"{self.path}: it reads {', '.join(sorted(self.tables)) or 'no table'}; a line "
                "`-- checks: TABLE` at its head is to say what it is a check of"
            )
        return next(iter(self.tables))

    @property
    def warns(self) -> bool:
        """Whether `-- severity: warn` stands at the file's head."""
        return self._directive("severity", SEVERITIES) == "warn"


def _or(words: Iterable[str]) -> str:
    return " or ".join(f"`{word}`" for word in words)


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


def read_model(path: Path) -> SqlModel:
    """The model of a file, by itself: what it reads is not looked at. Raises ModelError."""
    if path.stem in TABLES:
        raise ModelError(f"{path}: {path.stem} is a table that is no model's; give the file another name")
    return SqlModel(path.stem, *_read(path))


def read_models(folder: Path) -> dict[str, SqlModel]:
    """The models of a folder (`*.sql`) by name, each after those that it reads. Raises ModelError."""
    models = {path.stem: read_model(path) for path in _files(folder)}
    known = {*TABLES, *models}
    for model in models.values():
        model.require_tables(known)
    return _in_order(models)


def read_tests(folder: Path) -> dict[str, SqlTest]:
    """The tests of a folder (`*.sql`), by name, in the order of their names. Raises ModelError."""
    return {path.stem: SqlTest(path.stem, *_read(path)) for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    # Editors and file systems leave `.#a.sql` and `._a.sql` beside a file.
    return sorted(folder.glob("[!.]*.sql"))


def _read(path: Path) -> tuple[str, Path]:
    if not _NAME.fullmatch(path.stem):
        raise ModelError(f"{path}: the file's name is the table's; use lower-case letters, digits and '_'")
    try:
        return path.read_text(encoding="utf-8-sig"), path
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: {error}; UTF-8 is right") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


def _in_order(models: Mapping[str, SqlModel]) -> dict[str, SqlModel]:
    """The models, each after those that it reads, otherwise by name. Raises ModelError for a cycle."""
    sorter = TopologicalSorter({name: model.tables & models.keys() for name, model in models.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib names each before what reads it; people read the other way round.
        cycle = list(reversed(error.args[1]))
        raise ModelError(
            f"{models[cycle[0]].path}: models read each other in a cycle: {' → '.join(cycle)} "
            "(each reads the next); none of them can be made first"
        ) from None
    ordered: dict[str, SqlModel] = {}
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered |= {name: models[name] for name in ready}
        sorter.done(*ready)
    return ordered
