"""Importing questions from other systems' logs: CSV, JSON, JSON Lines, Parquet, or a DuckDB file.

Columns are taken by name, and the questions go through the spool like any other, so that they outlive the
warehouse. A question without an id gets one made from what it says, so that importing it again adds nothing.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.corpus.chunks import short_hash
from bib_orchestration.biblioteca.corpus.decoding import UnreadableDocument, decode
from bib_orchestration.biblioteca.warehouse.connection import quoted, rows_of
from bib_orchestration.biblioteca.warehouse.query_log import (
    BadQuery,
    LoggedQuery,
    add_file,
    from_row,
    to_line,
)

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
_TRUTHS = dict.fromkeys(("true", "t", "1", "yes", "sí", "si"), True) | dict.fromkeys(
    ("false", "f", "0", "no"), False
)
_SEPARATORS = ",;\t|"
# An epoch as text. Eight digits are a date: 20261001.
_EPOCH = re.compile(r"-?[0-9]{9,}(\.[0-9]*)?")
# Seconds since 1970 reach this in the year 5138; above it they are milliseconds.
_MOST_SECONDS = 1e11

Row = dict[str, Any]
# A row, and where in its file it stands.
Placed = tuple[str, Row]


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

    The kind of file is known by its extension. Times without a zone are UTC. A file without rows gives no
    questions, and is no error. Raises LogImportError.
    """
    rows, bad = _read(path)
    _require_questions(path, [row for _, row in rows])
    queries = []
    for place, row in rows:
        try:
            queries.append(_query_of(_converted(_renamed(row))))
        except BadQuery as error:
            bad.append(f"{place}: {error}")
    if bad and not queries:
        raise LogImportError(f"{path}: none of its {len(bad)} rows is a question; the first: {bad[0]}")
    return ImportReport(add_file(spool, queries), len(queries), bad)


def _require_questions(path: Path, rows: list[Row]) -> None:
    if rows and not any("question" in _renamed(row) for row in rows):
        found = sorted({name for row in rows for name in row})
        raise LogImportError(
            f"{path}: no column `question` (or {', '.join(OTHER_NAMES['question'])}); "
            f"there are: {', '.join(found)}"
        )


def _read(path: Path) -> tuple[list[Placed], list[str]]:
    """The rows of a file, and what in it could not be read as a row."""
    if not path.is_file():
        raise LogImportError(f"{path}: no such file")
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                return _read_lines(path)
            case ".json":
                return _numbered(path, _read_json(path)), []
            case ".csv" | ".tsv":
                return _read_csv(path)
            case ".parquet":
                # DuckDB takes a name for a pattern.
                name = re.sub(r"[*?[]", r"[\g<0>]", str(path))
                return _numbered(path, _query(path, f"FROM read_parquet({quoted(name)})")), []
            case ".duckdb" | ".ddb" | ".db":
                return _numbered(path, _query(path, f"FROM imported.{QUERY_TABLE}", attach=True)), []
            case other:
                raise LogImportError(
                    f"{path}: {other or 'no extension'} is not known; "
                    ".csv, .tsv, .json, .jsonl, .parquet and .duckdb are"
                )
    except OSError as error:
        raise LogImportError(f"{path}: {error.strerror}") from None


def _numbered(path: Path, rows: list[Row]) -> list[Placed]:
    return [(f"{path.name}, row {number}", row) for number, row in enumerate(rows, start=1)]


def _read_lines(path: Path) -> tuple[list[Placed], list[str]]:
    rows, bad = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad.append(f"{place}: {error}")
            continue
        if isinstance(row, dict):
            rows.append((place, row))
        else:
            bad.append(f"{place}: not an object")
    return rows, bad


def _read_json(path: Path) -> list[Row]:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise LogImportError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LogImportError(f"{path}: a list of objects is needed, one a question")
    return rows


def _read_csv(path: Path) -> tuple[list[Placed], list[str]]:
    """Read by its header alone. DuckDB guesses separator, quotes and header from the rows, and what people
    ask is full of commas and quotes: it went wrong in 1 of 100 small files, once without an error."""
    try:
        text, _ = decode(path.read_bytes())
    except UnreadableDocument as error:
        raise LogImportError(f"{path}: {error.reason}") from None
    header_line = text.lstrip("\r\n").partition("\n")[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else max(_SEPARATORS, key=header_line.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    rows, bad = [], []
    for place, cells in _csv_rows(path, lines):
        if isinstance(cells, csv.Error):
            bad.append(f"{place}: {cells}")
        elif not cells:
            continue
        elif header is None:
            header = cells
        elif len(cells) == len(header):
            rows.append((place, {name: cell or None for name, cell in zip(header, cells, strict=True)}))
        else:
            bad.append(f"{place}: {len(cells)} values for {len(header)} columns")
    return rows, bad


def _csv_rows(path: Path, lines: Any) -> Iterator[tuple[str, list[str] | csv.Error]]:
    """Each row with the line that it begins on; in the place of one that is wrong, what is wrong."""
    while True:
        place = f"{path.name}:{lines.line_num + 1}"
        try:
            yield place, next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            yield place, error


def _query(path: Path, query: str, *, attach: bool = False) -> list[Row]:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        if attach:
            connection.execute(f"ATTACH {quoted(str(path))} AS imported (READ_ONLY)")
        return rows_of(connection, query)
    except duckdb.Error as error:
        missing = attach and isinstance(error, duckdb.CatalogException)
        raise LogImportError(f"{path}: {f'a table {QUERY_TABLE} is needed; ' * missing}{error}") from None
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
    return renamed


def _query_of(row: Row) -> LoggedQuery:
    """The question of a row. Its id, where there is none, comes from what it says once it is read: the same
    questions as CSV and as Parquet are the same."""
    if row.get("query_id"):
        return from_row(row | {"query_id": str(row["query_id"])})
    query = from_row(row | {"query_id": "none"})
    return replace(query, query_id=short_hash(to_line(query)))


def _converted(row: Row) -> Row:
    """Values in their own types: a CSV has only texts, and an epoch is a number."""
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Any:
    if name == "ts":
        return _moment(value)
    if name in _NUMBERS and isinstance(value, str | Decimal):
        return _number(name, value)
    if name in _LISTS and isinstance(value, str):
        return _list(name, value)
    if name == "answered" and isinstance(value, str | int | float):
        return _truth(value)
    return value


def _number(name: str, value: str | Decimal) -> float | None:
    try:
        return float(value) if str(value).strip() else None
    except ValueError:
        raise BadQuery(f"{name} is {value!r:.60}; a number is right") from None


def _list(name: str, value: str) -> list[Any]:
    """A list as JSON has it, or as DuckDB writes one into a CSV: `[a, 'b, c']`; a text by itself is a list of
    one."""
    text = value.strip()
    if not text:
        return []
    if text[0] not in '[{"':
        return [text]
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
        if text.startswith("[") and text.endswith("]"):
            cells = csv.reader([text[1:-1]], quotechar="'", escapechar="\\", skipinitialspace=True)
            parsed = next(cells, [])
    if not isinstance(parsed, list):
        raise BadQuery(f'{name} is {value!r:.60}; a list is right, such as ["a", "b"]')
    return parsed


def _truth(value: str | float) -> bool | None:
    text = str(value).strip().lower().removesuffix(".0")
    if not text:
        return None
    if text not in _TRUTHS:
        raise BadQuery(f"answered is {value!r:.60}; one of {', '.join(_TRUTHS)} is right")
    return _TRUTHS[text]


def _moment(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        return _from_epoch(float(value)) if _EPOCH.fullmatch(value) else value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _from_epoch(float(value))
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def _from_epoch(value: float) -> datetime:
    try:
        return datetime.fromtimestamp(value if abs(value) < _MOST_SECONDS else value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadQuery(f"ts is {value!r}; seconds or milliseconds since 1970 are right") from None
