"""What query_import.py promises: the questions of other systems' files, each once, and a reason for the rest."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows, quoted
from bib_orchestration.biblioteca.warehouse.query_import import ImportReport, LogImportError, import_log
from bib_orchestration.biblioteca.warehouse.query_log import LoadReport, LoggedQuery, add_file, load

HEADER = "id,ts,question\n"
ASKED = datetime(2026, 1, 1, 10, tzinfo=UTC)
HOLD_FILE = """
import duckdb
connection = duckdb.connect(ARGUMENTS[0])
connection.execute("CREATE TABLE oraculo_queries AS SELECT 'a' AS query_id, now() AS ts, 'q' AS question")
say("open")
wait()
"""

Import = Callable[[str, bytes | str], list[dict[str, Any]]]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "query_log"


@pytest.fixture
def imported(tmp_path: Path, spool: Path) -> Import:
    """The questions that the import of a file with this name and content gives; none of its rows is bad."""

    def read(name: str, content: bytes | str) -> list[dict[str, Any]]:
        report = import_log(written(tmp_path, name, content), spool)
        assert report.bad_rows == []
        rows = rows_of(report)
        assert len(rows) == report.questions
        return rows

    return read


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(report: ImportReport) -> list[dict[str, Any]]:
    return [json.loads(line) for line in report.file.read_text(encoding="utf-8").split("\n")[:-1]]


def questions(rows: list[dict[str, Any]]) -> list[str]:
    return [row["question"] for row in rows]


def parquet(folder: Path, select: str, name: str = "log.parquet") -> bytes:
    path = folder / f"made-{name}"
    duckdb.sql(f"COPY ({select}) TO {quoted(str(path))} (FORMAT parquet)")
    return path.read_bytes()


def problem(folder: Path, name: str, content: bytes | str) -> str:
    with pytest.raises(LogImportError) as raised:
        import_log(written(folder, name, content), folder / "query_log")
    assert not list((folder / "query_log").glob("*"))
    assert str(raised.value).startswith(f"{folder / name}: ")
    return str(raised.value).removeprefix(f"{folder / name}: ")


# --- CSV


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_csv_is_read_whatever_separates_it(imported, separator, line_end):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=line_end)
    writer.writerows(
        [["question", "ts"], ['Dijo "hola", a|b;c\td', "2026-01-01 10:00:00"], ["de\ndos", "2026-01-02"]]
    )

    rows = imported("log.csv", text.getvalue())
    assert questions(rows) == ['Dijo "hola", a|b;c\td', "de\ndos"]
    assert rows[0]["ts"] == "2026-01-01T10:00:00+00:00"


ASKED_TEXT = st.text(
    st.sampled_from(list("ab ,;|\t\"'\n#\\¿é-0")) | st.characters(codec="utf-8", exclude_categories=["Cc"]),
    min_size=1,
    max_size=12,
).map(lambda text: "x" + text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ASKED_TEXT, min_size=1, max_size=5),
    st.sampled_from(",;|\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_csv_gives_back_what_was_written(tmp_path, texts, separator, line_end, encoding):
    """DuckDB's reader guesses from the rows, and lost questions with quotes and separators in them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=line_end)
    writer.writerows([["id", "ts", "question"], *([f"i{n}", "2026-01-01", t] for n, t in enumerate(texts))])
    path = written(tmp_path, "log.csv", text.getvalue().encode(encoding))

    assert questions(rows_of(import_log(path, tmp_path / "spool"))) == texts


def test_a_tsv_is_separated_by_tabs_whatever_its_header_holds(imported):
    assert questions(imported("log.tsv", "ts\tquestion\ta,b,c,d\n2026-01-01\thola, qué tal\t1\n")) == [
        "hola, qué tal"
    ]


def test_a_csv_of_excel_in_spain_is_read(imported):
    content = "Fecha;Pregunta\r\n2026-01-01 10:00;¿Cuánto son 5 €?\r\n".encode("cp1252")

    assert questions(imported("log.csv", content)) == ["¿Cuánto son 5 €?"]


def test_all_of_a_csv_is_text_until_a_column_says_otherwise(imported):
    content = (
        "query_id,ts,question,latency_ms,tokens,content_ids,paths,answered\n"
        '007,2026-01-01,0123,12.5,12.0,"[""a"", ""it\'s""]","[x.md, \'y, z.md\']",Yes\n'
        "008,2026-01-01,NULL,,, ,[],no\n"
    )
    first, second = imported("log.csv", content)

    assert (first["query_id"], first["question"]) == ("007", "0123")
    assert (first["latency_ms"], first["tokens"], first["answered"]) == (12.5, 12, True)
    assert (first["content_ids"], first["paths"]) == (["a", "it's"], ["x.md", "y, z.md"])
    assert (second["question"], second["latency_ms"], second["tokens"]) == ("NULL", None, None)
    assert (second["content_ids"], second["paths"], second["answered"]) == ([], [], False)


def test_what_duckdb_writes_as_csv_can_be_imported(tmp_path, warehouse, spool):
    asked = LoggedQuery("a", ASKED, "¿Qué, «cómo»?", "ask", 1.5, 3, ("c1", "c, 2"), ("it's.md",), "g", False)
    add_file(spool, [asked])
    load(warehouse, spool)
    file = tmp_path / "export.csv"
    with warehouse.read() as connection:
        connection.execute(f"COPY oraculo_queries TO {quoted(str(file))}")

    again = rows_of(import_log(file, tmp_path / "again"))
    assert again == rows_of(ImportReport(next(spool.iterdir()), 1))


def test_a_row_of_a_csv_that_is_wrong_is_named_by_its_line_and_costs_only_itself(tmp_path, spool):
    content = 'ts,question\n2026-01-01,"de\ndos"\n2026-01-01,a,b\nayer,c\n2026-01-01\n\n2026-01-01,d\n2026-01-01,"e"e\n'
    report = import_log(written(tmp_path, "log.csv", content), spool)

    assert questions(rows_of(report)) == ["de\ndos", "d"]
    assert [bad.split(": ")[0] for bad in report.bad_rows] == [
        "log.csv:4",
        "log.csv:6",
        "log.csv:9",
        "log.csv:5",
    ]
    assert "log.csv:4: 3 values for 2 columns" in report.bad_rows
    assert any(bad.startswith("log.csv:5: ts is no time") for bad in report.bad_rows)


def test_a_quote_that_never_ends_is_told(tmp_path, spool):
    content = 'ts,question\n2026-01-01,a\n2026-01-01,"b\n2026-01-01,c\n'
    report = import_log(written(tmp_path, "log.csv", content), spool)

    assert questions(rows_of(report)) == ["a"]
    assert report.bad_rows == ["log.csv:3: unexpected end of data"]


# --- JSON


def test_a_list_of_json_is_read(imported):
    content = json.dumps(
        [{"ts": "2026-01-01T10:00:00Z", "question": "hola", "content_ids": ["c"], "answered": True}]
    )
    (row,) = imported("log.json", content)

    assert (row["question"], row["content_ids"], row["answered"]) == ("hola", ["c"], True)


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "LOG.JSONL"])
def test_torn_lines_of_json_cost_only_themselves(tmp_path, spool, name):
    lines = [
        '{"ts": "2026-01-01", "question": "a"}',
        '{"ts": "2026',
        "7",
        "",
        '{"ts": "2026-01-02", "question": "b"}',
    ]
    report = import_log(written(tmp_path, name, "\ufeff" + "\r\n".join(lines) + '\n{"ts"'), spool)

    assert questions(rows_of(report)) == ["a", "b"]
    assert [bad.split(": ")[0] for bad in report.bad_rows] == [f"{name}:2", f"{name}:3", f"{name}:6"]


def test_a_path_by_itself_is_a_list_of_one(tmp_path, spool):
    text = 'ts,question,paths\n2026-10-01T07:00:00Z,uno,wiki/a.md\n2026-10-01T08:00:00Z,dos,"[""b.md""]"\n'
    report = import_log(written(tmp_path, "log.csv", text), spool)

    assert report.bad_rows == []
    assert [row["paths"] for row in rows_of(report)] == [["wiki/a.md"], ["b.md"]]


def test_a_row_that_is_no_question_is_named_and_costs_only_itself(tmp_path, spool):
    rows = [
        {"ts": True, "question": "x"},
        {"ts": 1767261600, "question": ["x"]},
        {"ts": 1767261600, "question": "x", "latency_ms": 10**400},
        {"ts": 1767261600, "question": "x", "answered": "quizás"},
        {"ts": 1767261600, "question": "x", "paths": '{"x.md": 1}'},
        {"ts": 10**30, "question": "x"},
        {"ts": 1767261600, "question": "good"},
    ]
    report = import_log(written(tmp_path, "log.json", json.dumps(rows)), spool)

    assert questions(rows_of(report)) == ["good"]
    assert [bad.split(": ")[0] for bad in report.bad_rows] == [
        f"log.json, row {number}" for number in range(1, 7)
    ]


# --- Parquet


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("TIMESTAMP '2026-01-01 10:00:00.5'", "2026-01-01T10:00:00.500000+00:00"),
        ("TIMESTAMPTZ '2026-01-01 10:00:00+02'", "2026-01-01T08:00:00+00:00"),
        ("'2026-01-01 10:00:00.123456789'::TIMESTAMP_NS", "2026-01-01T10:00:00.123456+00:00"),
        ("'2026-01-01 10:00:00'::TIMESTAMP_S", "2026-01-01T10:00:00+00:00"),
        ("DATE '2026-01-01'", "2026-01-01T00:00:00+00:00"),
        ("1767261600::BIGINT", "2026-01-01T10:00:00+00:00"),
        ("1767261600123::BIGINT", "2026-01-01T10:00:00.123000+00:00"),
        ("1767261600.5::DOUBLE", "2026-01-01T10:00:00.500000+00:00"),
        ("1767261600::DECIMAL(20, 3)", "2026-01-01T10:00:00+00:00"),
        ("'2026-01-01T10:00:00Z'", "2026-01-01T10:00:00+00:00"),
    ],
)
def test_a_time_of_a_parquet_file_is_read_whatever_its_type(tmp_path, imported, value, read):
    (row,) = imported("log.parquet", parquet(tmp_path, f"SELECT 'hola' AS question, {value} AS ts"))

    assert row["ts"] == read


def test_numbers_and_ids_of_a_parquet_file_keep_their_value(tmp_path, imported):
    select = (
        "SELECT 'hola' AS question, now() AS ts, 1.25::DECIMAL(9, 2) AS latency, 12::DECIMAL(9, 0) AS tokens,"
        " 12345678901234567890123::DECIMAL(38, 0) AS id, ['a', 'b'] AS paths, NULL::VARCHAR[] AS content_ids,"
        " 1 AS answered"
    )
    (row,) = imported("log.parquet", parquet(tmp_path, select))

    assert (row["latency_ms"], row["tokens"], row["answered"]) == (1.25, 12, True)
    assert row["query_id"] == "12345678901234567890123"
    assert (row["paths"], row["content_ids"]) == (["a", "b"], [])


def test_a_parquet_file_of_arrow_is_read(tmp_path, spool):
    table = pa.table({"question": ["hola"], "ts": pa.array([ASKED], pa.timestamp("ms", tz="Europe/Madrid"))})
    pa.parquet.write_table(table, tmp_path / "log.parquet")

    assert rows_of(import_log(tmp_path / "log.parquet", spool))[0]["ts"] == "2026-01-01T10:00:00+00:00"


# --- DuckDB


def test_a_duckdb_file_is_read(tmp_path, spool):
    other = Warehouse(str(tmp_path / "it's other.duckdb"), tmp_path / "locks")
    asked = LoggedQuery("a", ASKED, "hola", "ask", 1.5, 3, ("c",), ("p.md",), "g", True)
    add_file(tmp_path / "other log", [asked])
    load(other, tmp_path / "other log")

    assert rows_of(import_log(Path(other.address), spool)) == rows_of(
        ImportReport(next((tmp_path / "other log").iterdir()), 1)
    )


def test_a_duckdb_file_without_the_table_says_which_is_needed(tmp_path):
    with duckdb.connect(str(tmp_path / "made.duckdb")) as connection:
        connection.execute("CREATE TABLE questions AS SELECT 1 AS a")

    assert problem(tmp_path, "o.db", (tmp_path / "made.duckdb").read_bytes()).startswith(
        "a table oraculo_queries is needed; "
    )


def test_a_duckdb_file_that_another_process_has_open_names_that_process(tmp_path, spool, start):
    file = tmp_path / "open.duckdb"
    child = start(HOLD_FILE, file)
    child.hear()

    with pytest.raises(LogImportError, match=f"PID {child.pid}") as raised:
        import_log(file, spool)
    assert "is needed" not in str(raised.value)


@pytest.mark.parametrize("name", ["a.duckdb", "a.ddb", "a.db", "a.parquet"])
@pytest.mark.parametrize("content", [b"", b"no such thing" * 1000, b"SQLite format 3\0" + bytes(100)])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, name, content):
    assert problem(tmp_path, name, content)


# --- names


@pytest.mark.parametrize(
    "header",
    [
        "query_id,ts,question",
        "id,timestamp,query",
        "ID,Created_At,Text",
        " Id , asked_at , Pregunta ",
        "id,time,question",
        "id,fecha,PREGUNTA",
    ],
)
def test_columns_of_other_systems_are_known_by_their_names(imported, header):
    (row,) = imported("log.csv", f"{header},something else\nx,2026-01-01,hola,1\n")

    assert (row["query_id"], row["ts"], row["question"]) == ("x", "2026-01-01T00:00:00+00:00", "hola")


def test_our_own_name_goes_before_another(imported):
    (row,) = imported("log.csv", "id,query_id,text,question,ts\nno,yes,no,yes,2026-01-01\n")

    assert (row["query_id"], row["question"]) == ("yes", "yes")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.csv", "ID,asunto,ts\n1,hola,2026-01-01\n"),
        ("log.json", '[{"ID": 1, "ts": "2026-01-01"}, {"asunto": "hola"}]'),
        ("log.jsonl", '{"ID": 1, "ts": "2026-01-01", "asunto": "hola"}'),
    ],
)
def test_where_no_column_is_a_question_all_columns_are_named(tmp_path, name, content):
    assert problem(tmp_path, name, content) == (
        "no column `question` (or query, text, pregunta); there are: ID, asunto, ts"
    )


def test_a_file_may_be_called_anything_and_only_it_is_read(tmp_path, spool):
    """DuckDB takes `[`, `*` and `?` in a name for a pattern, and read the neighbours."""
    for name in ("o'brien", "a*", "a?", "a[b]", "ab", "a[b", "it's; DROP", 'quo"te', "año 🙂", "-x"):
        for kind in ("csv", "parquet"):
            select = f"SELECT {quoted(name)} AS question, DATE '2026-01-01' AS ts"
            content = (
                parquet(tmp_path, select) if kind == "parquet" else f"{HEADER}1,2026-01-01,{_csv(name)}\n"
            )
            written(tmp_path, f"{name}.{kind}", content)
    for name in ("o'brien", "a*", "a?", "a[b]", "ab", "a[b", "it's; DROP", 'quo"te', "año 🙂", "-x"):
        for kind in ("csv", "parquet"):
            assert questions(rows_of(import_log(tmp_path / f"{name}.{kind}", spool))) == [name]


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log.txt", ".txt is not known; .csv, .tsv, .json, .jsonl, .parquet and .duckdb are"),
        ("log", "no extension is not known; .csv, .tsv, .json, .jsonl, .parquet and .duckdb are"),
        ("log.json", "not readable as JSON: "),
    ],
)
def test_what_cannot_be_imported_says_what_can(tmp_path, name, said):
    assert problem(tmp_path, name, "x").startswith(said)


@pytest.mark.parametrize("content", ["{}", '"x"', "[1]", '[{"question": "x"}, null]'])
def test_json_that_is_no_list_of_objects_says_so(tmp_path, content):
    assert problem(tmp_path, "log.json", content) == "a list of objects is needed, one a question"


@pytest.mark.parametrize("name", ["gone.csv", "folder.csv"])
def test_no_such_file(tmp_path, spool, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(LogImportError, match="no such file"):
        import_log(tmp_path / name, spool)


def test_a_file_that_may_not_be_read_says_so(tmp_path, spool, monkeypatch):
    path = written(tmp_path, "log.csv", HEADER)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(LogImportError, match=f"{re.escape(str(path))}: Permission denied"):
        import_log(path, spool)


def test_a_file_of_which_no_row_is_a_question_is_an_error_with_the_first_reason(tmp_path):
    assert problem(tmp_path, "log.csv", "question\nhola\n").startswith(
        "none of its 1 rows is a question; the first: log.csv:2: ts is no time"
    )
    assert problem(tmp_path, "log.jsonl", "x\ny\n").startswith(
        "none of its 2 rows is a question; the first: log.jsonl:1"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ""),
        ("a.csv", HEADER),
        ("a.csv", "\n\n"),
        ("a.json", "[]"),
        ("a.jsonl", ""),
        ("a.jsonl", "\n"),
    ],
)
def test_a_file_without_rows_is_no_question_and_no_error(tmp_path, warehouse, spool, name, content):
    report = import_log(written(tmp_path, name, content), spool)

    assert (report.questions, report.bad_rows) == (0, [])
    assert load(warehouse, spool) == LoadReport(0, 0)


# --- times


@given(st.integers(-2_000_000_000, 4_000_000_000).filter(lambda number: abs(number) >= 100_000_000))
def test_seconds_and_milliseconds_since_1970_are_read_as_numbers_and_as_text(number):
    from bib_orchestration.biblioteca.warehouse.query_import import _converted

    seconds = datetime.fromtimestamp(number, UTC)
    for value in (number, float(number), str(number), f" {number}.0"):
        assert _converted({"ts": value}) == {"ts": seconds}
    if number * 1000 >= 10**11:
        for value in (number * 1000, str(number * 1000)):
            assert _converted({"ts": value}) == {"ts": seconds}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("20260101", "2026-01-01T00:00:00+00:00"),
        ("2026-01-01", "2026-01-01T00:00:00+00:00"),
        (" 2026-01-01T10:00 ", "2026-01-01T10:00:00+00:00"),
        ("2026-01-01 10:00:00+00", "2026-01-01T10:00:00+00:00"),
        ("2026-01-01T10:00:00+01:00", "2026-01-01T09:00:00+00:00"),
        # As ISO 8601 without separators it would be in the year 1712.
        ("1712010112345", "2024-04-01T22:21:52.345000+00:00"),
    ],
)
def test_a_time_as_text_is_iso_8601_or_an_epoch(imported, text, read):
    assert imported("log.csv", f"{HEADER}1,{text},hola\n")[0]["ts"] == read


# --- ids


def test_importing_again_adds_nothing(tmp_path, warehouse, spool):
    path = written(tmp_path, "log.csv", "ts,question\n2026-01-01,hola\n2026-01-02,hola\n2026-01-02,adiós\n")
    first = import_log(path, spool)
    assert load(warehouse, spool) == LoadReport(3, 3)

    assert import_log(path, spool) == first
    assert len(list(spool.iterdir())) == 1
    path.write_text("ts,question\n2026-01-01,hola\n2026-01-02,hola\n2026-01-02,adiós\n2026-01-03,y más\n")
    import_log(path, spool)
    assert load(warehouse, spool) == LoadReport(1, 4)


def test_the_same_questions_in_another_format_add_nothing(tmp_path, warehouse, spool):
    import_log(written(tmp_path, "a.csv", "fecha;pregunta;tokens\n2026-01-01 10:00:00;hola;3\n"), spool)
    import_log(written(tmp_path, "a.json", '[{"question": "hola", "ts": 1767261600, "tokens": 3.0}]'), spool)
    select = "SELECT 'hola' AS query, TIMESTAMP '2026-01-01 10:00:00' AS time, 3::DECIMAL(5, 1) AS tokens"
    import_log(written(tmp_path, "a.parquet", parquet(tmp_path, select)), spool)

    assert load(warehouse, spool) == LoadReport(1, 1)


def test_ids_that_are_there_are_kept_as_text(imported):
    rows = [{"id": value, "ts": "2026-01-01", "question": str(value)} for value in (7, "x", 0, None, "")]

    ids = [row["query_id"] for row in imported("log.json", json.dumps(rows))]
    assert ids[:2] == ["7", "x"]
    assert len(set(ids)) == 5


def test_imported_questions_outlive_the_warehouse(tmp_path, warehouse, spool):
    with warehouse.lock(), warehouse.transaction() as connection:
        insert_rows(connection, "oraculo_queries", [{"query_id": "not in the spool"}])
    path = written(tmp_path, "log.csv", f"{HEADER}1,2026-01-01,hola\n")
    import_log(path, spool)
    path.unlink()
    Path(warehouse.address).unlink()

    assert load(warehouse, spool) == LoadReport(1, 1)
