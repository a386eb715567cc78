"""What sql_models.py promises: a table a model, level with its query, written only when its rows changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows
from bib_orchestration.biblioteca.warehouse.sql_models import (
    ModelError,
    SqlModel,
    SqlTest,
    read_models,
    read_tests,
)
from bib_orchestration.biblioteca.warehouse.sql_tables import (
    ModelReport,
    end_of_day,
    materialise,
    query,
    require_made,
    run_test,
)

MONDAY, TUESDAY = date(2026, 10, 5), date(2026, 10, 6)
BY_DAY = "-- partitions: day\n"
# Rows of `query_log_files` stand for what a model reads.
COPY = "SELECT file, bytes FROM query_log_files"


def model(sql: str, name: str = "m") -> SqlModel:
    return SqlModel(name, sql, Path(f"/models/{name}.sql"))


def by_day(columns: str = "file, bytes", where: str = "true", name: str = "m") -> SqlModel:
    return model(f"{BY_DAY}SELECT $day::DATE AS day, {columns} FROM query_log_files WHERE {where}", name)


def put(warehouse: Warehouse, **files: int) -> None:
    with warehouse.lock(), warehouse.transaction() as connection:
        connection.execute("DELETE FROM query_log_files")
        insert_rows(connection, "query_log_files", [{"file": name, "bytes": n} for name, n in files.items()])


def rows(warehouse: Warehouse, select: str = "FROM m") -> list[tuple[Any, ...]]:
    with warehouse.read() as connection:
        return sorted(connection.sql(select).fetchall(), key=str)


def columns(warehouse: Warehouse, table: str = "m") -> dict[str, str]:
    with warehouse.read() as connection:
        return {row[0]: row[1] for row in connection.sql(f'DESCRIBE "{table}"').fetchall()}


# --- a table


def test_a_table_is_swapped_whole_and_only_when_its_rows_changed(warehouse):
    put(warehouse, a=1, b=2)
    copy = model(COPY)
    assert materialise(warehouse, copy) == ModelReport("m", rows=2, wrote=True)
    assert rows(warehouse) == [("a", 1), ("b", 2)]

    assert materialise(warehouse, copy) == ModelReport("m", rows=2, wrote=False)
    put(warehouse, b=2, a=1)
    assert materialise(warehouse, copy) == ModelReport("m", rows=2, wrote=False)
    put(warehouse, b=3)
    assert materialise(warehouse, copy) == ModelReport("m", rows=1, wrote=True)
    assert rows(warehouse) == [("b", 3)]
    put(warehouse)
    assert materialise(warehouse, copy) == ModelReport("m", rows=0, wrote=True)
    assert rows(warehouse) == []


def test_where_nothing_changed_the_file_is_not_touched(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY))
    materialise(warehouse, by_day(name="d"), day=MONDAY)
    changed_at = Path(warehouse.address).stat().st_mtime_ns
    materialise(warehouse, model(COPY))
    materialise(warehouse, by_day(name="d"), day=MONDAY)

    assert Path(warehouse.address).stat().st_mtime_ns == changed_at


def test_one_row_more_of_the_same_is_a_change_and_so_is_a_null(warehouse):
    put(warehouse, a=1)
    for sql, wrote in [
        (COPY, True),
        (f"{COPY} UNION ALL {COPY}", True),
        (f"{COPY} UNION ALL {COPY}", False),
        ("SELECT file, nullif(bytes, 1) AS bytes FROM query_log_files", True),
        ("SELECT file, nullif(bytes, 1) AS bytes FROM query_log_files", False),
    ]:
        assert materialise(warehouse, model(sql)).wrote is wrote


@pytest.mark.parametrize(
    "value",
    ["[1, NULL]", "{'a': 'b'}", "MAP {'a': 1}", "'{\"a\": 1}'::JSON", "'nan'::DOUBLE", "now()::DATE", "NULL"],
)
def test_values_of_every_kind_are_compared(warehouse, value):
    assert materialise(warehouse, model(f"SELECT {value} AS a")).wrote is True
    assert materialise(warehouse, model(f"SELECT {value} AS a")).wrote is False


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT bytes AS size FROM query_log_files", ["size"]),
        ("SELECT bytes, file FROM query_log_files", ["bytes", "file"]),
        ("SELECT 'x' AS file", ["file"]),
    ],
)
def test_a_table_has_the_columns_that_its_model_has_now(warehouse, sql, names):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY))

    assert materialise(warehouse, model(sql)).wrote is True
    assert list(columns(warehouse)) == names
    assert materialise(warehouse, model(sql)).wrote is False


# --- a day


def test_a_day_is_replaced_and_the_others_stay(warehouse):
    put(warehouse, a=1, b=2)
    assert materialise(warehouse, by_day(), day=MONDAY) == ModelReport("m", rows=2, wrote=True)
    put(warehouse, c=3)
    assert materialise(warehouse, by_day(), day=TUESDAY) == ModelReport("m", rows=1, wrote=True)
    assert rows(warehouse) == [(MONDAY, "a", 1), (MONDAY, "b", 2), (TUESDAY, "c", 3)]

    assert materialise(warehouse, by_day(), day=TUESDAY).wrote is False
    assert materialise(warehouse, by_day(), day=MONDAY) == ModelReport("m", rows=1, wrote=True)
    assert rows(warehouse) == [(MONDAY, "c", 3), (TUESDAY, "c", 3)]
    put(warehouse)
    assert materialise(warehouse, by_day(), day=MONDAY) == ModelReport("m", rows=0, wrote=True)
    assert rows(warehouse) == [(TUESDAY, "c", 3)]


def test_a_day_that_fails_keeps_its_rows(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, by_day(), day=MONDAY)
    put(warehouse, b=2)
    with pytest.raises(ModelError, match="Conversion"):
        materialise(warehouse, by_day("file::INTEGER AS file, bytes"), day=MONDAY)

    assert rows(warehouse) == [(MONDAY, "a", 1)]
    assert materialise(warehouse, by_day(), day=MONDAY).wrote is True


def test_a_column_that_comes_is_null_in_the_other_days_and_one_that_goes_is_gone(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, by_day(), day=MONDAY)
    changed = by_day('bytes, upper(file) AS "big ""file"""')

    assert materialise(warehouse, changed, day=TUESDAY).wrote is True
    assert columns(warehouse) == {"day": "DATE", "bytes": "BIGINT", 'big "file"': "VARCHAR"}
    assert rows(warehouse) == [(MONDAY, 1, None), (TUESDAY, 1, "A")]
    assert materialise(warehouse, changed, day=TUESDAY).wrote is False
    assert materialise(warehouse, changed, day=MONDAY).wrote is True
    assert rows(warehouse) == [(MONDAY, 1, "A"), (TUESDAY, 1, "A")]


def test_a_column_that_is_written_in_another_case_keeps_its_values(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, by_day("file AS File"), day=MONDAY)
    materialise(warehouse, by_day("file"), day=TUESDAY)
    assert list(columns(warehouse)) == ["day", "file"]
    assert rows(warehouse) == [(MONDAY, "a"), (TUESDAY, "a")]


def test_a_model_that_had_no_days_leaves_none_of_its_rows_to_them(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY))
    assert materialise(warehouse, by_day(), day=MONDAY).wrote is True
    assert rows(warehouse) == [(MONDAY, "a", 1)]
    materialise(warehouse, model(COPY))
    assert rows(warehouse) == [("a", 1)]


@pytest.mark.parametrize(
    ("now", "monday"),
    [
        ("bytes::INTEGER AS bytes", 1),
        ("bytes::VARCHAR AS bytes", "1"),
        ("[bytes] AS bytes", None),
        ("DATE '2026-01-01' AS bytes", None),
    ],
)
def test_the_other_days_keep_what_a_new_type_can_hold(warehouse, now, monday):
    put(warehouse, a=1)
    materialise(warehouse, by_day(), day=MONDAY)
    changed = by_day(f"file, {now}")

    assert materialise(warehouse, changed, day=TUESDAY).wrote is True
    assert rows(warehouse)[0] == (MONDAY, "a", monday)
    assert materialise(warehouse, changed, day=TUESDAY).wrote is False


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT 1 AS a", "a model by day has a column `day`, a DATE"),
        ("SELECT '2026-10-05' AS day", "a model by day has a column `day`, a DATE"),
        ("SELECT $day - 1 AS day", "run for 2026-10-05 it has rows of 2026-10-04; only $day is right"),
        ("SELECT NULL::DATE AS day", "run for 2026-10-05 it has rows of None; only $day is right"),
    ],
)
def test_a_day_has_rows_of_no_other_day(warehouse, select, reason):
    """They would be added again by each run, and never be replaced."""
    wrong = model(BY_DAY + select)
    for run in (materialise, query):
        with pytest.raises(ModelError) as raised:
            run(warehouse, wrong, day=MONDAY)
        assert str(raised.value) == f"/models/m.sql: {reason}"
    assert materialise(warehouse, by_day(), day=MONDAY).rows == 0


def test_a_model_by_day_needs_a_day_and_no_other_takes_one(warehouse):
    with pytest.raises(ModelError, match=r"m\.sql: a day is missing"):
        materialise(warehouse, by_day())
    with pytest.raises(ModelError, match=r"m\.sql: a day is given but not used"):
        materialise(warehouse, model(COPY), day=MONDAY)


# --- the end of a day


@pytest.mark.parametrize(
    ("day", "end_in_utc", "hours"),
    [
        (date(2026, 1, 31), "2026-01-31T23:00", 24),
        (date(2026, 3, 28), "2026-03-28T23:00", 24),
        (date(2026, 3, 29), "2026-03-29T22:00", 23),
        (date(2026, 7, 1), "2026-07-01T22:00", 24),
        (date(2026, 10, 24), "2026-10-24T22:00", 24),
        (date(2026, 10, 25), "2026-10-25T23:00", 25),
        (date(2026, 12, 31), "2026-12-31T23:00", 24),
    ],
)
def test_a_day_ends_at_midnight_in_madrid(warehouse, day, end_in_utc, hours):
    end = end_of_day(day, "Europe/Madrid").astimezone(UTC)
    assert end.isoformat(timespec="minutes") == f"{end_in_utc}+00:00"
    assert end - end_of_day(day - timedelta(days=1), "Europe/Madrid").astimezone(UTC) == timedelta(
        hours=hours
    )
    # The database is told the same moment.
    assert query(warehouse, model(f"{BY_DAY}SELECT $day AS day, $day_end AS ends"), day=day)[0]["ends"] == end


@given(
    st.dates(date(1990, 1, 1), date(2037, 12, 30)),
    st.sampled_from(
        ["Europe/Madrid", "UTC", "America/Havana", "America/Santiago", "Asia/Beirut", "Pacific/Kiritimati"]
    ),
)
def test_the_end_of_a_day_is_the_first_moment_that_is_no_longer_it(day, timezone):
    """Also where clocks change at midnight, which then comes twice or not at all."""
    zone = ZoneInfo(timezone)
    end = end_of_day(day, timezone).astimezone(UTC)

    assert end.astimezone(zone).date() > day
    assert (end - timedelta(microseconds=1)).astimezone(zone).date() <= day


# --- what a model says


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT $a AS a, $b_2 AS b WHERE 1 = $a", {"a", "b_2"}),
        ("-- costs $5, and $more\nSELECT 1 AS a -- $other", set()),
        ("/* $a\n$b */ SELECT 1 AS a", set()),
        ('SELECT \'$a\' AS a, "$b".c FROM (SELECT 1 AS c) AS "$b"', set()),
        ("SELECT '--' AS a, $b AS b", {"b"}),
        ("SELECT $$a $b$$ AS a, $x$ $y $x$ AS b", set()),
    ],
)
def test_parameters_are_what_duckdb_takes_for_them(warehouse, sql, parameters):
    assert model(sql).parameters == parameters
    # Values that the query does not use are no hindrance.
    query(warehouse, model(sql), values={"a": 1, "b": 2, "b_2": 3, "other": 4})


def test_an_unknown_parameter_is_named(warehouse):
    with pytest.raises(
        ModelError, match=r"^/models/m\.sql: unknown parameters: days, top; there are: known, timezone$"
    ):
        materialise(warehouse, model("SELECT $top AS a, $days AS b, $known AS c"), values={"known": 1})


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1 AS a", ""),
        ("FROM a", "a"),
        ("SELECT * FROM a JOIN b USING (x) LEFT JOIN c ON c.y = a.y, d", "a b c d"),
        ("SELECT (SELECT max(x) FROM a) FROM b WHERE y IN (SELECT z FROM c) AND EXISTS (FROM d)", "a b c d"),
        ("WITH a AS (FROM b), c AS (FROM a JOIN d USING (x)) FROM c", "b d"),
        ("FROM a UNION ALL BY NAME (FROM b EXCEPT FROM c)", "a b c"),
        ("WITH a AS (SELECT * FROM a WHERE x) FROM a", "a"),
        ("WITH a AS (FROM b), b AS (FROM a) FROM b", "b"),
        ("WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a JOIN b USING (n)) FROM a", "b"),
        ("SELECT * FROM (WITH a AS (FROM b) FROM a) JOIN a USING (x)", "a b"),
        ("WITH a AS (FROM b) SELECT * FROM c WHERE x IN (SELECT y FROM a)", "b c"),
        ("FROM BIB_Docs JOIN main.a USING (x)", "bib_docs a"),
        ("WITH A AS (FROM b) FROM a", "b"),
        ("SELECT * FROM a, unnest(a.list) AS t(x), range(3)", "a"),
        ("PIVOT a ON b USING sum(c)", "a"),
        ("FROM a SELECT COLUMNS(*)", "a"),
        ("SELECT * FROM a ASOF JOIN b ON a.t >= b.t POSITIONAL JOIN c", "a b c"),
        ("SELECT 'FROM b' AS x /* FROM c */ FROM a -- FROM d", "a"),
    ],
)
def test_tables_are_those_that_a_query_reads(sql, tables):
    assert model(sql).tables == set(tables.split())


def test_the_models_of_this_project_read_what_they_read():
    models = read_models(MODELS_FOLDER)

    assert models["golden_set"].tables == {"oraculo_queries"}
    assert models["golden_set"].parameters == {"day", "day_end", "questions"}
    assert models["unique_chunks"].tables == {"bib_chunks", "bib_docs"}
    assert [name for name, each in models.items() if each.by_day] == ["golden_set"]
    assert all(each.description for each in models.values())


def test_the_comment_at_the_head_is_the_description(warehouse):
    sql = "\n-- What it\n--  holds.\n--\n--partitions:  day\n\n-- And more.\nSELECT $day AS day -- not this\n-- nor"

    assert model(sql).description == "What it holds. And more."
    assert model(sql).by_day is True
    assert model("SELECT 1 AS a\n-- partitions: day").by_day is False
    assert model("-- a\u2028b\x85c\n-- partitions: day\nSELECT $day AS day").by_day is True


def test_partitions_of_another_kind_are_an_error():
    with pytest.raises(ModelError, match=r"m\.sql: partitions: 'week' is unknown; only `day` is"):
        _ = model("-- partitions: week\nSELECT 1 AS a").by_day


def test_the_version_changes_with_the_query():
    assert model("SELECT 1 AS a").version == model("SELECT 1 AS a", "other").version
    assert model("SELECT 1 AS a").version != model("SELECT 2 AS a").version


@pytest.mark.parametrize(
    "sql", ["SELECT 1 AS a;", "SELECT 1 AS a ;\n\n", "SELECT 1 AS a; -- the end", "SELECT 1 AS a -- end"]
)
def test_a_semicolon_at_the_end_does_no_harm(warehouse, sql):
    assert query(warehouse, model(sql)) == [{"a": 1}]
    assert model(sql).tables == set()


def test_a_query_is_asked_without_writing(warehouse):
    put(warehouse, a=1)
    changed_at = Path(warehouse.address).stat().st_mtime_ns

    assert query(warehouse, model(COPY)) == [{"file": "a", "bytes": 1}]
    assert Path(warehouse.address).stat().st_mtime_ns == changed_at
    assert "m" not in {row[0] for row in rows(warehouse, "SHOW TABLES")}


def test_models_read_models(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY, "first"))
    materialise(warehouse, model("SELECT count(*) AS n FROM first", "second"))

    assert rows(warehouse, "FROM second") == [(1,)]


# --- what is wrong


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("-- head\nSELEC 1", 2),
        ("\n\n-- head\nSELECT a\nFROM nowhere", 5),
        ("SELECT 1 AS a,\n  b\nFROM query_log_files", 2),
        ("SELECT nope()", 1),
        ("-- head\nSELECT 'x'::INTEGER AS a", 2),
        ("-- head\r\n\r\nSELECT a\r\nFROM nowhere", 4),
    ],
)
def test_bad_sql_names_the_file_and_the_line_of_it(warehouse, sql, line):
    for run in (materialise, query):
        with pytest.raises(ModelError, match=rf"^/models/m\.sql: .*(?s:.)*\nLINE {line}: ") as raised:
            run(warehouse, model(sql))
        assert "\x1b" not in str(raised.value)


def test_a_query_that_fails_halfway_leaves_the_table(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY))
    with pytest.raises(ModelError, match="on purpose"):
        materialise(warehouse, model("SELECT file, error('on purpose') AS bytes FROM query_log_files"))

    assert rows(warehouse) == [("a", 1)]


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("", 0),
        ("-- only a comment", 0),
        ("SELECT 1 AS a; SELECT 2 AS a", 2),
        ("SELECT 1; DROP TABLE query_log_files", 2),
    ],
)
def test_a_model_is_one_statement_and_no_other_is_run(warehouse, sql, count):
    put(warehouse, a=1)
    for look in (
        lambda: materialise(warehouse, model(sql)),
        lambda: query(warehouse, model(sql)),
        lambda: model(sql).tables,
    ):
        with pytest.raises(ModelError, match=rf"m\.sql: {count} statements; one SELECT is right"):
            look()

    assert rows(warehouse, "FROM query_log_files") == [("a", 1)]


@pytest.mark.parametrize(
    "sql", ["DROP TABLE query_log_files", "DELETE FROM query_log_files", "CREATE TABLE x AS SELECT 1"]
)
def test_what_is_no_select_is_not_run(warehouse, sql):
    put(warehouse, a=1)
    with pytest.raises(ModelError, match=r"m\.sql: "):
        materialise(warehouse, model(sql))

    assert rows(warehouse, "FROM query_log_files") == [("a", 1)]


@pytest.mark.parametrize(
    ("writes", "statement"),
    [
        ("INSERT INTO query_log_files (file) VALUES ('b')", "INSERT"),
        ("UPDATE query_log_files SET file = 'b'", "UPDATE"),
        ("DELETE FROM query_log_files", "DELETE"),
    ],
)
def test_what_writes_within_a_select_is_not_run(warehouse, writes, statement):
    """DuckDB runs it, and a test would do so outside the writers' lock."""
    put(warehouse, a=1)
    sql = f"WITH changed AS ({writes} RETURNING file) FROM changed"
    for look in (
        lambda: materialise(warehouse, model(sql)),
        lambda: query(warehouse, model(sql)),
        lambda: run_test(warehouse, sql_test(sql), most=1),
        lambda: model(sql).tables,
    ):
        with pytest.raises(
            ModelError, match=rf"\.sql: it writes \({statement}\); a SELECT that only reads is"
        ):
            look()

    assert rows(warehouse, "FROM query_log_files") == [("a", 1)]


def test_what_is_nested_too_deeply_for_sqlglot_says_so():
    with pytest.raises(ModelError, match=r"m\.sql: its tables cannot be told: it is nested too deeply"):
        _ = model(f"SELECT {'(' * 300}1{')' * 300} AS a").tables


def test_what_sqlglot_cannot_read_says_so_without_colours():
    with pytest.raises(ModelError, match=r"m\.sql: ") as raised:
        _ = model("SELECT 'abc").tables
    assert "\x1b" not in str(raised.value)


# --- files


def test_models_are_read_by_name_whatever_their_line_ends_and_marks(tmp_path, warehouse):
    (tmp_path / "b.sql").write_bytes(
        b"\xef\xbb\xbf-- The b.\r\n-- partitions: day\r\nSELECT\r\n  $day AS day;\r\n"
    )
    (tmp_path / "a_1.sql").write_bytes("-- Año.\nSELECT 'ñ' AS a".encode())
    (tmp_path / "README.md").write_text("no model")
    models = read_models(tmp_path)

    assert list(models) == ["a_1", "b"]
    assert (models["b"].description, models["b"].by_day) == ("The b.", True)
    assert query(warehouse, models["b"], day=MONDAY) == [{"day": MONDAY}]
    assert query(warehouse, models["a_1"]) == [{"a": "ñ"}]
    # A checkout on Windows is no other version.
    (tmp_path / "b.sql").write_bytes(b"-- The b.\n-- partitions: day\nSELECT\n  $day AS day;\n")
    assert read_models(tmp_path)["b"].version == models["b"].version


@pytest.mark.parametrize("name", ["A", "1a", "a-b", "a b", "a.b", "ñ", "_new_rows"])
def test_a_file_is_called_like_a_table(tmp_path, name):
    (tmp_path / f"{name}.sql").write_text("SELECT 1 AS a")
    with pytest.raises(ModelError, match=r"use lower-case letters, digits and '_'"):
        read_models(tmp_path)


@pytest.mark.parametrize("name", ["bib_docs", "oraculo_queries"])
def test_a_model_takes_no_table_that_is_not_its_own(tmp_path, name):
    """It would be swapped whole for the model's rows."""
    (tmp_path / f"{name}.sql").write_text("SELECT 1 AS a")
    with pytest.raises(ModelError, match=f"{name} is a table that is no model's"):
        read_models(tmp_path)


def test_a_file_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "a.sql").write_bytes("-- año\nSELECT 1 AS a".encode("cp1252"))
    with pytest.raises(ModelError, match=r"a\.sql: .*UTF-8 is right"):
        read_models(tmp_path)


def test_what_is_no_file_is_named_and_what_an_editor_leaves_is_none(tmp_path):
    (tmp_path / ".#a.sql").symlink_to("somebody@host:1")
    (tmp_path / "._a.sql").write_bytes(b"\x00\x05\x16\x07")
    assert read_models(tmp_path) == read_tests(tmp_path) == {}
    (tmp_path / "a.sql").mkdir()
    for read in (read_models, read_tests):
        with pytest.raises(ModelError, match=r"a\.sql: cannot be read: Is a directory"):
            read(tmp_path)


def test_what_is_left_of_a_model_that_is_gone_is_not_read_as_if_it_were_fresh(warehouse):
    put(warehouse, a=1)
    materialise(warehouse, model(COPY, "gone"))
    reader = model("FROM gone JOIN query_log_files USING (file)")
    require_made(warehouse, reader, ["gone", "m"])
    with pytest.raises(
        ModelError, match=r"/m\.sql: it reads gone, the table of a model that is gone; give it"
    ):
        require_made(warehouse, reader, ["m"])
    # What was never there is for DuckDB to say.
    require_made(warehouse, model("FROM nowhere, information_schema.tables, 'a.csv'"), ["m"])


@pytest.mark.parametrize("name", ["order", "select", "table", "new_rows", "temp"])
def test_a_model_may_be_called_like_a_word_of_sql(warehouse, name):
    put(warehouse, a=1)
    for wrote in (True, False):
        assert materialise(warehouse, model(COPY, name)).wrote is wrote
    put(warehouse, a=2)
    assert materialise(warehouse, model(COPY, name)).wrote is True
    assert rows(warehouse, f'FROM main."{name}"') == [("a", 2)]


def test_two_runs_of_a_model_at_once_end_in_one_table(warehouse, start):
    put(warehouse, a=1, b=2)
    script = """
from datetime import date
from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel
from bib_orchestration.biblioteca.warehouse.sql_tables import materialise
warehouse = Warehouse(ARGUMENTS[0], Path(ARGUMENTS[1]), on_wait=lambda message: None)
say("ready")
wait()
for day in (5, 6):
    report = materialise(warehouse, SqlModel("m", ARGUMENTS[2], Path("m.sql")), day=date(2026, 10, day))
    say(int(report.wrote))
"""
    folder = Path(warehouse.address).parent
    children = [start(script, warehouse.address, folder / "locks", by_day().sql) for _ in range(2)]
    for child in children:
        child.hear()
    for child in children:
        child.go_on()

    assert sum(int(said) for child in children for said in child.finish()) == 2
    assert [row[:2] for row in rows(warehouse)] == [(day, name) for day in (MONDAY, TUESDAY) for name in "ab"]


def test_times_reach_a_model_in_utc(warehouse):
    with warehouse.lock(), warehouse.transaction() as connection:
        insert_rows(
            connection, "oraculo_queries", [{"query_id": "a", "ts": datetime(2026, 10, 5, 22, tzinfo=UTC)}]
        )
    before_its_end = model(f"{BY_DAY}SELECT $day AS day FROM oraculo_queries WHERE ts < $day_end")

    assert query(warehouse, before_its_end, day=MONDAY) == []
    assert query(warehouse, before_its_end, day=MONDAY, timezone="UTC") == [{"day": MONDAY}]
    assert query(warehouse, before_its_end, day=TUESDAY) == [{"day": TUESDAY}]


# --- models that read models


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.sql").write_text(text)
    return path


def test_models_come_after_those_that_they_read(tmp_path):
    folder(tmp_path, a="FROM c JOIN b USING (x)", b="FROM c", c="FROM bib_docs", d="SELECT 1 AS x")

    assert list(read_models(tmp_path)) == ["c", "d", "b", "a"]


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"a": "FROM b", "b": "FROM c", "c": "FROM a"}, r"(a → b → c → a|b → c → a → b|c → a → b → c)"),
        ({"a": "FROM a"}, "a → a"),
        ({"a": "FROM A JOIN bib_docs USING (x)"}, "a → a"),
    ],
)
def test_a_cycle_is_named(tmp_path, files, cycle):
    with pytest.raises(ModelError, match=rf"\.sql: models read each other in a cycle: {cycle} "):
        read_models(folder(tmp_path, **files))


@pytest.mark.parametrize(
    "sql",
    [
        "FROM range(3)",
        "FROM information_schema.tables",
        "FROM 'pages.parquet'",
        "FROM read_csv('pages.csv')",
        "FROM other.main.pages",
        "WITH pages AS (FROM bib_docs) FROM pages",
        "FROM BIB_DOCS",
    ],
)
def test_what_is_no_table_of_ours_may_be_read(tmp_path, sql):
    assert list(read_models(folder(tmp_path, a=sql))) == ["a"]


def test_a_table_that_nobody_makes_is_named_with_what_was_meant(tmp_path):
    said = r"a\.sql: it reads bib_dox, which is neither a table of ours nor a model; did you mean bib_docs\? there"
    with pytest.raises(ModelError, match=said):
        read_models(folder(tmp_path, a="SELECT * FROM bib_chunks JOIN bib_dox USING (doc_id)"))


def test_an_error_in_the_first_line_shows_the_query_as_it_was_written(warehouse):
    with pytest.raises(ModelError) as raised:
        query(warehouse, model("SELECT titel FROM bib_docs"))
    line, caret = str(raised.value).split("\n")[-2:]
    assert line == "LINE 1: SELECT titel FROM bib_docs"
    assert caret.index("^") == line.index("titel")


# --- tests


def sql_test(sql: str) -> SqlTest:
    return SqlTest("t", sql, Path("/tests/t.sql"))


def test_a_test_is_of_the_table_that_it_reads_or_names():
    assert sql_test("FROM Bib_Docs WHERE false").table == "bib_docs"
    assert sql_test("-- Said.\n-- checks: bib_chunks\nFROM bib_docs JOIN bib_chunks USING (x)").table == (
        "bib_chunks"
    )
    for sql in ("FROM bib_docs JOIN bib_chunks USING (x)", "SELECT 1 AS x"):
        with pytest.raises(ModelError, match=r"^/tests/t\.sql: it reads .*; a line `-- checks: TABLE` at"):
            _ = sql_test(sql).table


def test_a_test_that_warns_says_so():
    assert not sql_test("FROM a").warns
    assert not sql_test("-- severity: error\nFROM a").warns
    assert sql_test("-- severity: warn\nFROM a").warns
    with pytest.raises(ModelError, match=r"severity: 'fatal' is unknown; only `error` or `warn` is"):
        _ = sql_test("-- severity: fatal\nFROM a").warns
    with pytest.raises(ModelError, match=r"severity: said 2 times; once is right"):
        _ = sql_test("-- severity: warn\n-- severity: error\nFROM a").warns
    # A sentence is no directive.
    assert sql_test("-- checks: that all is well\nFROM a").description == "checks: that all is well"


def test_a_test_counts_bad_rows_and_shows_the_first(warehouse):
    put(warehouse, a=1, b=2, c=3)
    found = run_test(
        warehouse,
        sql_test("FROM query_log_files WHERE bytes > $least ORDER BY file"),
        most=1,
        values={"least": 1, "other": 2},
    )

    assert (found.test, found.bad_rows, found.first) == ("t", 2, ({"file": "b", "bytes": 2},))
    assert run_test(warehouse, sql_test("FROM query_log_files WHERE false"), most=1).bad_rows == 0


@pytest.mark.parametrize("sql", ["FROM nowhere", "SELECT nothing FROM bib_docs", "SELECT 1; SELECT 2"])
def test_a_test_that_cannot_run_is_an_error_with_its_file(warehouse, sql):
    with pytest.raises(ModelError, match=r"^/tests/t\.sql: "):
        run_test(warehouse, sql_test(sql), most=1)


def test_tests_are_read_by_name(tmp_path):
    folder(tmp_path, b="-- The b.\nFROM bib_docs", a="FROM bib_chunks")
    found = read_tests(tmp_path)

    assert [(name, each.table, each.description) for name, each in found.items()] == [
        ("a", "bib_chunks", ""),
        ("b", "bib_docs", "The b."),
    ]
