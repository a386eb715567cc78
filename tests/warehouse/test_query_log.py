"""What query_log.py promises: a question that was noted is never lost, nor counted twice."""

from __future__ import annotations

import itertools
import json
import os
import resource
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.warehouse import query_log
from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.query_log import (
    BadQuery,
    LoadReport,
    LoggedQuery,
    add_file,
    append,
    from_row,
    load,
    new_query_id,
    to_line,
)

ASKED = datetime(2026, 10, 1, 9, tzinfo=UTC)
# The worst case: processes of the same number, as in two containers that share a folder.
APPEND = """
import os
from datetime import UTC, datetime
from bib_orchestration.biblioteca.warehouse import query_log
os.getpid = lambda: 7
spool, name, lines = Path(ARGUMENTS[0]), ARGUMENTS[1], int(ARGUMENTS[2])
say("ready")
wait()
for number in range(lines):
    question = f"{name} {number} " + "¿" * (number * 97 % 3000)
    query_log.append(spool, query_log.LoggedQuery(f"{name}-{number}", datetime(2026, 10, 1, tzinfo=UTC), question))
"""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "query_log"


def question(query_id: str = "a", text: str = "¿Cómo pido vacaciones?", **more: Any) -> LoggedQuery:
    return LoggedQuery(query_id, more.pop("ts", ASKED), text, **more)


def line(query_id: str, text: str = "¿Cómo pido vacaciones?") -> bytes:
    return to_line(question(query_id, text)).encode()


def write(spool: Path, name: str, data: bytes) -> Path:
    spool.mkdir(exist_ok=True)
    path = spool / name
    path.write_bytes(data)
    return path


def add_bytes(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def stored(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    with warehouse.read() as connection:
        return connection.sql("FROM oraculo_queries ORDER BY query_id").fetchall()


def ids(warehouse: Warehouse) -> list[str]:
    return [row[0] for row in stored(warehouse)]


# --- noting a question


def test_a_question_comes_back_as_it_was_noted(warehouse, spool):
    asked = question(
        text="¿Cómo\npido «vacaciones»? 🙂",
        mode="ask",
        latency_ms=12.5,
        tokens=340,
        content_ids=("c1", "c2"),
        paths=("a/b.md", "año.md"),
        generation="g",
        answered=True,
        ts=datetime(2026, 10, 1, 11, tzinfo=timezone(timedelta(hours=2))),
    )
    path = append(spool, asked)

    assert path.name == f"2026-10-01.{os.getpid()}.jsonl"
    assert path.read_bytes().count(b"\n") == 1
    assert load(warehouse, spool) == LoadReport(1, 1)
    assert stored(warehouse) == [
        ("a", ASKED, asked.question, "ask", 12.5, 340, ["c1", "c2"], ["a/b.md", "año.md"], "g", True)
    ]


def test_a_question_is_one_write_at_the_end_of_the_file(spool, monkeypatch):
    writes, flags = [], []
    real_write, real_open = os.write, os.open
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(data) or real_write(fd, data))
    monkeypatch.setattr(
        os, "open", lambda path, flag, *mode: flags.append(flag) or real_open(path, flag, *mode)
    )
    append(spool, question("a"))
    append(spool, question("b"))

    assert writes == [line("a"), line("b")]
    assert all(flag & os.O_APPEND for flag in flags)
    assert len(flags) == 2


def test_processes_that_note_at_once_lose_no_line(warehouse, spool, start):
    children = [start(APPEND, spool, name, 50) for name in "abcd"]
    for child in children:
        child.hear()
    for child in children:
        child.go_on()
    for child in children:
        child.finish()

    assert [path.name for path in spool.iterdir()] == ["2026-10-01.7.jsonl"]
    assert load(warehouse, spool) == LoadReport(200, 200)
    assert ids(warehouse) == sorted(f"{name}-{number}" for name in "abcd" for number in range(50))


def test_noting_waits_for_no_lock_of_the_warehouse(warehouse, spool):
    with warehouse.lock(), warehouse.transaction():
        append(spool, question())

    assert load(warehouse, spool).added == 1


def test_a_full_disk_is_an_error_and_costs_only_that_question(warehouse, spool, start):
    script = (
        APPEND.partition("say(")[0]
        + """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def note(query_id):
    return query_log.append(spool, query_log.LoggedQuery(query_id, datetime(2026, 10, 1, tzinfo=UTC), "q"))
room = note("a").stat().st_size + 20
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
try:
    note("b")
except OSError as error:
    say(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
note("c")
"""
    )
    said = start(script, spool, "x", 0).finish()

    assert "only 20 of" in said[0]
    report = load(warehouse, spool)
    assert ids(warehouse) == ["a", "c"]
    assert report.bad_lines == [
        "2026-10-01.7.jsonl:2: Unterminated string starting at: line 1 column 18 (char 17)"
    ] or report.bad_lines[0].startswith("2026-10-01.7.jsonl:2: ")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
CLEAN_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
QUERIES = st.builds(
    LoggedQuery,
    query_id=CLEAN_TEXT.filter(bool),
    ts=st.datetimes(
        datetime(1, 1, 3),
        datetime(9999, 12, 29),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-11))]),
    ),
    question=CLEAN_TEXT | st.none(),
    mode=CLEAN_TEXT | st.none(),
    latency_ms=st.floats(allow_nan=False) | st.none(),
    tokens=st.integers(-(2**53), 2**53) | st.none(),
    content_ids=st.lists(CLEAN_TEXT, max_size=3),
    paths=st.lists(CLEAN_TEXT, max_size=3),
    generation=CLEAN_TEXT | st.none(),
    answered=st.booleans() | st.none(),
)


@given(QUERIES)
def test_a_line_says_all_of_a_question_and_is_one_line(query):
    text = to_line(query)

    assert text.count("\n") == 1
    assert from_row(json.loads(text)) == query


@given(ANY_TEXT)
def test_whatever_was_typed_can_be_noted(text):
    """Half a surrogate pair used to raise in the middle of answering."""
    noted = to_line(question(text=text)).encode()
    read = from_row(json.loads(noted)).question

    assert read is not None
    assert read == read.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert read == text.replace("\0", "")


def test_ids_are_new():
    assert len({new_query_id() for _ in range(100)}) == 100


# --- loading


def test_loading_twice_adds_nothing_and_writes_nothing(warehouse, spool):
    append(spool, question("a"))
    append(spool, question("b"))
    assert load(warehouse, spool) == LoadReport(2, 2)
    file = Path(warehouse.address)
    changed_at = file.stat().st_mtime_ns

    assert load(warehouse, spool) == LoadReport(0, 2)
    assert file.stat().st_mtime_ns == changed_at


@pytest.mark.parametrize("prepare", [lambda spool: None, lambda spool: spool.mkdir()])
def test_no_spool_is_no_question(warehouse, spool, prepare):
    prepare(spool)

    assert load(warehouse, spool) == LoadReport(0, 0)


def test_a_torn_last_line_waits_until_it_is_whole(warehouse, spool):
    torn = line("b")
    path = write(spool, "x.jsonl", line("a") + torn[:-20])
    assert load(warehouse, spool) == LoadReport(1, 1)
    changed_at = Path(warehouse.address).stat().st_mtime_ns
    # It may wait for ever: that writes nothing, again and again.
    assert load(warehouse, spool) == LoadReport(0, 1)
    assert Path(warehouse.address).stat().st_mtime_ns == changed_at

    add_bytes(path, torn[-20:] + line("c"))
    assert load(warehouse, spool) == LoadReport(2, 3)


def test_a_torn_line_in_the_middle_costs_only_itself_and_is_named(warehouse, spool):
    path = write(spool, "x.jsonl", line("a") + line("lost")[:-30] + b"\n" + line("b"))
    report = load(warehouse, spool)

    assert (report.added, report.total, len(report.bad_lines)) == (2, 2, 1)
    assert report.bad_lines[0].startswith("x.jsonl:2: ")

    # The lines are counted from the file's beginning, also where only its end is read.
    add_bytes(path, line("c") + b"\n" + b"[]\n" + line("d"))
    assert load(warehouse, spool) == LoadReport(2, 4, ["x.jsonl:6: not an object"])
    assert load(warehouse, spool) == LoadReport(0, 4)


def test_a_file_that_shrank_is_read_anew_without_duplicates(warehouse, spool):
    path = write(spool, "x.jsonl", line("a") + line("b") + line("c"))
    load(warehouse, spool)
    path.write_bytes(line("b") + line("d"))

    assert load(warehouse, spool) == LoadReport(1, 4)
    add_bytes(path, line("e"))
    assert load(warehouse, spool) == LoadReport(1, 5)
    assert ids(warehouse) == list("abcde")


def test_a_file_that_was_replaced_by_a_longer_one_is_read_anew(warehouse, spool):
    path = write(spool, "x.jsonl", line("a"))
    load(warehouse, spool)
    path.write_bytes(line("b", "Una pregunta que es bastante más larga que la primera") + line("c"))

    assert load(warehouse, spool) == LoadReport(2, 3)


def test_an_id_in_two_files_counts_once(warehouse, spool):
    write(spool, "1.jsonl", line("a", "la primera") + line("b"))
    write(spool, "2.jsonl", line("a", "la segunda") + line("c") + line("c"))

    assert load(warehouse, spool) == LoadReport(3, 3)
    assert stored(warehouse)[0][2] == "la primera"
    write(spool, "3.jsonl", line("b") + line("d"))
    assert load(warehouse, spool) == LoadReport(1, 4)


def test_only_what_is_new_is_read(warehouse, spool):
    path = write(spool, "x.jsonl", b"".join(line(f"{n}", "x" * 2**20) for n in range(8)))
    load(warehouse, spool)
    add_bytes(path, line("new"))
    before = bytes_read()

    assert load(warehouse, spool).added == 1
    assert bytes_read() - before < 4 * 2**20


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_deleted_warehouse_is_built_anew_from_the_spool(warehouse, open_warehouse, spool):
    write(spool, "1.jsonl", line("a") + line("b"))
    load(warehouse, spool)
    append(spool, question("c"))
    add_file(spool, [question("d"), question("a")])
    load(warehouse, spool)
    before = stored(warehouse)
    Path(warehouse.address).unlink()

    assert load(warehouse, spool) == LoadReport(4, 4)
    assert stored(warehouse) == before
    Path(warehouse.address).unlink()
    assert load(open_warehouse(), spool) == LoadReport(4, 4)


def test_two_loads_at_once_add_nothing_twice(warehouse, spool, start):
    write(spool, "x.jsonl", b"".join(line(f"{number:03}") for number in range(300)))
    script = """
from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.query_log import load
say("ready")
wait()
say(load(Warehouse(ARGUMENTS[0], Path(ARGUMENTS[1]), on_wait=lambda message: None), Path(ARGUMENTS[2])).added)
"""
    folder = Path(warehouse.address).parent
    children = [start(script, warehouse.address, folder / "locks", spool) for _ in range(2)]
    for child in children:
        child.hear()
    for child in children:
        child.go_on()

    assert sorted(int(child.finish()[0]) for child in children) == [0, 300]
    assert len(ids(warehouse)) == 300


def test_what_is_no_file_of_the_spool_is_left_alone(warehouse, spool):
    write(spool, "x.jsonl", line("a"))
    write(spool, "notes.txt", b"no question")
    write(spool, "import-1.7.swap", line("b"))
    (spool / "folder.jsonl").mkdir()
    (spool / "gone.jsonl").symlink_to(spool / "nowhere")
    os.mkfifo(spool / "pipe.jsonl")

    assert load(warehouse, spool) == LoadReport(1, 1)


def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(warehouse, spool, monkeypatch):
    write(spool, "1.jsonl", line("a"))
    write(spool, "2.jsonl", line("b"))
    real_open = Path.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == "1.jsonl":
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        assert load(warehouse, spool) == LoadReport(1, 1, ["1.jsonl: Permission denied"])
        assert load(warehouse, spool) == LoadReport(0, 1, ["1.jsonl: Permission denied"])
    assert load(warehouse, spool) == LoadReport(1, 2)


# --- what may stand in a line


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**320)
    | st.floats()
    | ANY_TEXT
    | st.sampled_from(
        ["2026-10-01T09:00:00+02:00", "2026-10-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59-14:00"]
    ),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(ANY_TEXT, children, max_size=3),
    max_leaves=6,
)
ROWS = JSON | st.fixed_dictionaries(
    {"query_id": st.just("x") | JSON, "ts": st.just("2026-10-01") | JSON, "question": st.just("q") | JSON},
    optional=dict.fromkeys(query_log.LoggedQuery.__slots__[3:], JSON),
)


@settings(max_examples=120)
@given(ROWS)
def test_any_value_is_a_question_or_a_reason(value):
    reason, query = None, None
    try:
        query = from_row(json.loads(json.dumps(value)))
    except BadQuery as error:
        reason = str(error)
    if query is None:
        assert reason
        assert len(reason) < 2000
        reason.encode()
    else:
        assert query.query_id
        assert query.ts.tzinfo is UTC
        to_line(query).encode()


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Warehouse, Path, Callable[[], str]]:
    """A warehouse and a spool for many examples, and names of files that it has not had."""
    folder = tmp_path_factory.mktemp("kept")
    spool = folder / "query_log"
    spool.mkdir()
    numbers = itertools.count()
    return Warehouse(str(folder / "w.duckdb"), folder / "locks"), spool, lambda: f"{next(numbers):04}"


JUNK = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b" ")) | ROWS.map(
    lambda value: json.dumps(value).encode()
)


@settings(max_examples=20)
@given(st.lists(st.none() | JUNK, min_size=1, max_size=12), st.binary(max_size=20))
def test_bad_lines_stop_nothing_and_good_lines_are_always_loaded(kept, lines, end):
    warehouse, spool, new_name = kept
    name = new_name()
    good = [f"{name}-{number}" for number, junk in enumerate(lines) if junk is None]
    written = [
        line(f"{name}-{number}") if junk is None else junk + b"\n" for number, junk in enumerate(lines)
    ]
    (spool / f"{name}.jsonl").write_bytes(b"".join(written) + end.replace(b"\n", b""))
    report = load(warehouse, spool)

    with warehouse.read() as connection:
        found = connection.execute(
            "SELECT query_id FROM oraculo_queries WHERE starts_with(query_id, $name)", {"name": f"{name}-"}
        ).fetchall()
    assert sorted(row[0] for row in found) == sorted(good)
    # Each bad line is named by its own number, and no good one.
    for message in report.bad_lines:
        file, number, _ = message.split(":", 2)
        assert file == f"{name}.jsonl"
        assert lines[int(number) - 1] is not None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([], "not an object"),
        ({}, "query_id is None; a text is right"),
        ({"query_id": ""}, "query_id is ''; a text is right"),
        ({"query_id": "\0"}, r"query_id is '\x00'; a text is right"),
        ({"query_id": 7}, "query_id is 7; a text is right"),
        ({"query_id": "a"}, "ts is no time; ISO 8601 is right, such as 2026-10-01T09:00:00+02:00"),
        (
            {"query_id": "a", "ts": "ayer"},
            "ts is no time; ISO 8601 is right, such as 2026-10-01T09:00:00+02:00",
        ),
        (
            {"query_id": "a", "ts": 1790000000},
            "ts is no time; ISO 8601 is right, such as 2026-10-01T09:00:00+02:00",
        ),
        ({"query_id": "a", "ts": "0001-01-01T00:00+01:00"}, "ts is out of range: 0001-01-01 00:00:00+01:00"),
        ({"query_id": "a", "ts": "2026-10-01", "question": ["q"]}, "question is ['q']; a text is right"),
        ({"query_id": "a", "ts": "2026-10-01", "tokens": 1.5}, "tokens is 1.5; a whole number is right"),
        (
            {"query_id": "a", "ts": "2026-10-01", "tokens": float("nan")},
            "tokens is nan; a whole number is right",
        ),
        (
            {"query_id": "a", "ts": "2026-10-01", "tokens": 2**63},
            f"tokens is {float(2**63)}; a whole number is right",
        ),
        ({"query_id": "a", "ts": "2026-10-01", "tokens": True}, "tokens is True; a number is right"),
        ({"query_id": "a", "ts": "2026-10-01", "latency_ms": "12"}, "latency_ms is '12'; a number is right"),
        ({"query_id": "a", "ts": "2026-10-01", "paths": "a.md"}, "paths is 'a.md'; a list of texts is right"),
        ({"query_id": "a", "ts": "2026-10-01", "paths": 0}, "paths is 0; a list of texts is right"),
        ({"query_id": "a", "ts": "2026-10-01", "paths": [None]}, "paths is [None]; a list of texts is right"),
        ({"query_id": "a", "ts": "2026-10-01", "answered": 1}, "answered is 1; true or false is right"),
    ],
)
def test_a_row_that_is_no_question_says_which_key_and_what_is_right(row, reason):
    with pytest.raises(BadQuery) as raised:
        from_row(row)

    assert str(raised.value) == reason


@pytest.mark.parametrize(
    "deep", ["[" * 900 + "]" * 900, "[" * 100_000, '"' + "x" * 10**6 + '"', "9" * 400, "9" * 5000]
)
def test_a_huge_or_deep_value_is_a_reason_too(warehouse, spool, deep):
    bad = f'{{"query_id": "a", "ts": "2026-10-01", "latency_ms": {deep}}}\n'.encode()
    write(spool, "x.jsonl", bad + line("b"))
    report = load(warehouse, spool)

    assert (report.added, len(report.bad_lines)) == (1, 1)
    assert len(report.bad_lines[0]) < 300


@pytest.mark.parametrize("ends", [b"\r\n", b"\n\n", b" \n"])
def test_other_line_ends_blank_lines_and_a_byte_order_mark_do_no_harm(warehouse, spool, ends):
    write(spool, "x.jsonl", b"\xef\xbb\xbf" + line("a").rstrip() + ends + line("b").rstrip() + ends)

    assert load(warehouse, spool) == LoadReport(2, 2)


# --- questions from elsewhere


def test_adding_the_same_again_is_the_same_file(warehouse, spool):
    queries = [question("a"), question("b")]
    first = add_file(spool, queries)
    assert load(warehouse, spool) == LoadReport(2, 2)

    assert add_file(spool, queries) == first
    assert add_file(spool, queries[:1]) != first
    assert load(warehouse, spool) == LoadReport(0, 2)
    assert not list(spool.glob("*.swap"))
