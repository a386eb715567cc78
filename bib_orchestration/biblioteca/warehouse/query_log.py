"""The query log: an append-only spool of files, and its loading into `oraculo_queries`.

The spool is the truth: one file a day and process, one line a question, one `write` a line. No lock of the
warehouse ever keeps a question from being noted. Loading reads what has come since the last time; a line
that cannot be read costs only itself, and is reported by file and line.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SUFFIX = ".jsonl"
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 60


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A real question.

    query_id: unique.
    ts: when it was asked.
    question: as it was typed.
    mode: "ask", "help", "oracle" or "search".
    latency_ms: until the answer was there.
    tokens: in the context.
    content_ids, paths: of the chunks that were retrieved.
    generation: the index's.
    answered: whether there was an answer.
    """

    query_id: str
    ts: datetime
    question: str | None
    mode: str | None = None
    latency_ms: float | None = None
    tokens: int | None = None
    content_ids: Sequence[str] = ()
    paths: Sequence[str] = ()
    generation: str | None = None
    answered: bool | None = None


class BadQuery(ValueError):
    """A line of the log is no question; the message says why."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What loading the spool did: new rows, rows in all, and the lines that could not be read."""

    added: int
    total: int
    bad_lines: list[str] = field(default_factory=list)


def new_query_id() -> str:
    return uuid.uuid4().hex


def append(folder: Path, query: LoggedQuery) -> Path:
    """Note a question in the spool; returns the file. OSError when the disk refuses the line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{query.ts.astimezone(UTC):%Y-%m-%d}.{os.getpid()}{SUFFIX}"
    line = to_line(query).encode()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # An earlier line that was torn (a full disk, a process of the same number that died) must not take
        # this one with it.
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
    finally:
        os.close(descriptor)
    if written != len(line):
        raise OSError(f"{path}: only {written} of {len(line)} bytes of a question were written")
    return path


def to_line(query: LoggedQuery) -> str:
    """The line of the spool for a question, with its line end."""
    row = asdict(query) | {"ts": query.ts.astimezone(UTC).isoformat()}
    return _without_surrogates(json.dumps(row, ensure_ascii=False)) + "\n"


def from_row(row: Any) -> LoggedQuery:
    """A question from a row's keys and values. Raises BadQuery, which names the key.

    >>> from_row({"query_id": "a", "ts": "2026-10-01T09:00:00+02:00", "question": "¿Y?"}).ts.isoformat()
    '2026-10-01T07:00:00+00:00'
    """
    if not isinstance(row, dict):
        raise BadQuery("not an object")
    return LoggedQuery(
        query_id=_text(row, "query_id", required=True) or "",
        ts=_time(row.get("ts")),
        question=_text(row, "question"),
        mode=_text(row, "mode"),
        latency_ms=_number(row, "latency_ms"),
        tokens=_integer(row, "tokens"),
        content_ids=_texts(row, "content_ids"),
        paths=_texts(row, "paths"),
        generation=_text(row, "generation"),
        answered=_truth(row, "answered"),
    )


def load(warehouse: Warehouse, folder: Path) -> LoadReport:
    """Load what the spool holds beyond what was loaded before. Loading twice adds nothing."""
    with warehouse.lock():
        with warehouse.read() as connection:
            loaded = dict(connection.sql("SELECT file, bytes FROM query_log_files").fetchall())
        rows: dict[str, LoggedQuery] = {}
        bad: list[str] = []
        reached: dict[str, int] = {}
        for path in sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file()):
            done = loaded.get(path.name, 0)
            try:
                end = _read_new(path, done, rows, bad)
            except OSError as error:
                bad.append(f"{path.name}: {error.strerror}")
                continue
            if end != done:
                reached[path.name] = end
        if not reached:
            with warehouse.read() as connection:
                return LoadReport(0, _total(connection), bad)
        with warehouse.transaction() as connection:
            added = _insert_new(connection, rows.values())
            _note_files(connection, reached)
            total = _total(connection)
    return LoadReport(added, total, bad)


def _read_new(path: Path, start: int, rows: dict[str, LoggedQuery], bad: list[str]) -> int:
    """Read the whole lines of a file from byte `start` on; returns the byte after the last of them.

    A file that has become shorter, or in which no line ends there, is another file: it is read from its
    beginning.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == start:
            return start
        if start and (start > size or os.pread(file.fileno(), 1, start - 1) != b"\n"):
            start = 0
        file.seek(start)
        data = file.read()
    # What follows the last line end may still be being written.
    lines = data.split(b"\n")[:-1]
    wrong = []
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            query = from_row(json.loads(line))
        except (ValueError, RecursionError) as error:
            wrong.append((index, error))
        else:
            rows.setdefault(query.query_id, query)
    if wrong:
        first = _lines_before(path, start) + 1
        bad += [f"{path.name}:{first + index}: {error}" for index, error in wrong]
    return start + sum(len(line) + 1 for line in lines)


def _lines_before(path: Path, end: int) -> int:
    with path.open("rb") as file:
        return file.read(end).count(b"\n")


def _insert_new(connection: DuckDBPyConnection, queries: Iterable[LoggedQuery]) -> int:
    known = {row[0] for row in connection.sql("SELECT query_id FROM oraculo_queries").fetchall()}
    new = [_row(query) for query in queries if query.query_id not in known]
    insert_rows(connection, "oraculo_queries", new)
    return len(new)


def _row(query: LoggedQuery) -> dict[str, Any]:
    return asdict(query) | {"content_ids": list(query.content_ids), "paths": list(query.paths)}


def _note_files(connection: DuckDBPyConnection, reached: dict[str, int]) -> None:
    connection.execute(
        "DELETE FROM query_log_files WHERE file IN (SELECT unnest($files::VARCHAR[]))",
        {"files": list(reached)},
    )
    insert_rows(
        connection, "query_log_files", [{"file": name, "bytes": size} for name, size in reached.items()]
    )


def _total(connection: DuckDBPyConnection) -> int:
    return int(connection.sql("SELECT count(*) FROM oraculo_queries").fetchall()[0][0])


def add_file(folder: Path, queries: Sequence[LoggedQuery]) -> Path:
    """Add questions from elsewhere to the spool, as a file of their own named by the hash of what it holds:
    adding the same again adds nothing. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(to_line(query) for query in queries).encode()
    path = folder / f"import-{hashlib.sha256(lines).hexdigest()[:16]}{SUFFIX}"
    swap = path.with_suffix(f".{os.getpid()}.swap")
    try:
        swap.write_bytes(lines)
        swap.replace(path)
    finally:
        swap.unlink(missing_ok=True)
    return path


# --- values


def _text(row: dict[str, Any], key: str, *, required: bool = False) -> str | None:
    value = row.get(key)
    if value is None and not required:
        return None
    text = _without_surrogates(value).replace("\0", "") if isinstance(value, str) else None
    if text is None or (required and not text):
        raise BadQuery(f"{key} is {_shown(value)}; a text is right")
    return text


def _without_surrogates(text: str) -> str:
    # A lone surrogate ("\\ud83d" in JSON) is no text that a file or a database can hold.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _time(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        raise BadQuery("ts is no time; ISO 8601 is right, such as 2026-10-01T09:00:00+02:00")
    # Without a zone it is UTC, as everywhere in the warehouse.
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    try:
        return aware.astimezone(UTC)
    except OverflowError:
        raise BadQuery(f"ts is out of range: {value}") from None


def _number(row: dict[str, Any], key: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadQuery(f"{key} is {_shown(value)}; a number is right")
    try:
        return float(value)
    except OverflowError:
        raise BadQuery(f"{key} is {_shown(value)}; a smaller number is right") from None


def _integer(row: dict[str, Any], key: str) -> int | None:
    value = _number(row, key)
    if value is None:
        return None
    if value != value or not -(2**63) <= value < 2**63 or value != int(value):
        raise BadQuery(f"{key} is {_shown(value)}; a whole number is right")
    return int(value)


def _texts(row: dict[str, Any], key: str) -> list[str]:
    value = [] if row.get(key) is None else row[key]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadQuery(f"{key} is {_shown(value)}; a list of texts is right")
    return [_text({key: item}, key) or "" for item in value]


def _truth(row: dict[str, Any], key: str) -> bool | None:
    value = row.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadQuery(f"{key} is {_shown(value)}; true or false is right")
    return value


def _shown(value: Any) -> str:
    """A value as an error shows it: whatever its size and depth, briefly."""
    return _BRIEF.repr(value)
