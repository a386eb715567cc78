"""Importing questions from other systems' logs: CSV, JSON, JSON Lines, Parquet, or a DuckDB file.

Columns are taken by name, and the questions go through the spool like any other, so that they outlive the
warehouse. A question without an id gets one made from what it says, so that importing it again adds nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.corpus.chunks import short_hash
from bib_orchestration.biblioteca.warehouse.connection import quoted
from bib_orchestration.biblioteca.warehouse.query_log import BadQuery, LoggedQuery, add_file, from_row

QUERY_TABLE = "oraculo_queries"
# Names that other systems give to the same things.
OTHER_NAMES = {
    "query_id": ("id",),
    "ts": ("timestamp", "time", "created_at", "asked_at", "fecha"),
    "question": ("query", "text", "pregunta"),
    "latency_ms": ("latency",),
}
_COLUMNS = tuple(column.name for column in fields(LoggedQuery))
_LISTS = ("content_ids", "paths")
_NUMBERS = ("latency_ms", "tokens")
_TRUTHS = {"true": True, "t": True, "1": True, "yes": True, "false": False, "f": False, "0": False, "no": False}
# Seconds since 1970 reach this in the year 5138; above it they are milliseconds.
_MOST_SECONDS = 1e11

Row = dict[str, Any]


class LogImportError(ValueError):
    """A file cannot be imported; the message says why, and what would be right."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did: the spool's file, its questions, and the rows that are none, with the reason."""

    file: Path
    questions: int
    bad_rows: list[str] = field(default_factory=list)


def import_log(path: Path, spool: Path) -> ImportReport:
    """Add the questions of `path` to the spool; loading them into the warehouse is another step.

    The kind of file is known by its extension. Times without a zone are UTC. Raises LogImportError.
    """
    rows, bad = _read(path)
    if rows and "question" not in (names := {name for row in rows for name in row}):
        raise LogImportError(
            f"{path}: no column `question` (or {', '.join(OTHER_NAMES['question'])}); "
            f"there are: {', '.join(sorted(names))}"
        )
    queries = []
    for number, row in enumerate(rows, start=1):
        try:
            queries.append(from_row(_identified(_converted(row))))
        except BadQuery as error:
            bad.append(f"{path.name}, row {number}: {error}")
    if rows and not queries:
        raise LogImportError(f"{path}: none of its {len(rows)} rows is a question; the first: {bad[0]}")
    return ImportReport(add_file(spool, queries), len(queries), bad)


def _read(path: Path) -> tuple[list[Row], list[str]]:
    """The rows of a file with our own names for columns, and the lines that could not be read."""
    if not path.is_file():
        raise LogImportError(f"{path}: no such file")
    kind = path.suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        rows, bad = _read_lines(path)
    elif kind == ".json":
        rows, bad = _read_json(path), []
    elif kind in (".csv", ".tsv"):
        rows, bad = _query(path, f"FROM read_csv({quoted(str(path))}, all_varchar = true)"), []
    elif kind == ".parquet":
        rows, bad = _query(path, f"FROM read_parquet({quoted(str(path))})"), []
    elif kind in (".duckdb", ".db", ".ddb"):
        rows, bad = _query(path, f"FROM imported.{QUERY_TABLE}", attach=True), []
    else:
        raise LogImportError(
            f"{path}: {kind or 'no extension'} is not known; .csv, .tsv, .json, .jsonl, .parquet and .duckdb are"
        )
    return [_renamed(row) for row in rows], bad


def _read_lines(path: Path) -> tuple[list[Row], list[str]]:
    rows, bad = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad.append(f"{path.name}:{number}: {error}")
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad.append(f"{path.name}:{number}: not an object")
    if bad and not rows:
        raise LogImportError(f"{path}: no line of it is a JSON object; the first: {bad[0]}")
    return rows, bad


def _read_json(path: Path) -> list[Row]:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise LogImportError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LogImportError(f"{path}: a list of objects is needed, one a question")
    return rows


def _query(path: Path, query: str, *, attach: bool = False) -> list[Row]:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        if attach:
            connection.execute(f"ATTACH {quoted(str(path))} AS imported (READ_ONLY)")
        relation = connection.sql(query)
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    except duckdb.Error as error:
        needed = f"; a table {QUERY_TABLE} is needed" if attach else ""
        raise LogImportError(f"{path}: {error}{needed}") from None
    finally:
        connection.close()


def _renamed(row: Row) -> Row:
    """The row with our own names for its columns, whatever their case; those we do not know are left out."""
    by_name = {name.strip().lower(): value for name, value in row.items()}
    renamed = {}
    for column in _COLUMNS:
        for name in (column, *OTHER_NAMES.get(column, ())):
            if name in by_name:
                renamed[column] = by_name[name]
                break
    return renamed or row


def _converted(row: Row) -> Row:
    """Values in their own types: a CSV has only texts, and an epoch is a number."""
    converted = dict(row)
    for name, value in row.items():
        if name in _NUMBERS and isinstance(value, str):
            converted[name] = _number(name, value)
        elif name in _LISTS and isinstance(value, str):
            converted[name] = _list(name, value)
        elif name == "answered" and isinstance(value, str):
            converted[name] = _TRUTHS.get(value.strip().lower())
        elif isinstance(value, Decimal):
            converted[name] = float(value)
        elif name == "ts" and isinstance(value, int | float):
            converted[name] = _from_epoch(value)
    return converted


def _number(name: str, value: str) -> float | None:
    try:
        return float(value) if value.strip() else None
    except ValueError:
        raise BadQuery(f"{name} is {value!r:.60}; a number is right") from None


def _list(name: str, value: str) -> list[Any]:
    try:
        parsed = json.loads(value.replace("'", '"')) if value.strip() else []
    except ValueError:
        parsed = None
    if not isinstance(parsed, list):
        raise BadQuery(f'{name} is {value!r:.60}; a list is right, such as ["a", "b"]')
    return parsed


def _from_epoch(value: float) -> datetime:
    try:
        return datetime.fromtimestamp(value if value < _MOST_SECONDS else value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadQuery(f"ts is {value!r}; seconds or milliseconds since 1970 are right") from None


def _identified(row: Row) -> Row:
    if row.get("query_id"):
        return row | {"query_id": str(row["query_id"])}
    said = json.dumps([str(row.get(name)) for name in _COLUMNS if name != "query_id"], ensure_ascii=False)
    return row | {"query_id": short_hash(said)}

