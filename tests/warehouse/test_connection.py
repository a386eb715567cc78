"""What connection.py promises: short connections, one writer, nothing lost, and a copy for everyone else."""

from __future__ import annotations

import random
import struct
import threading
import time
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.warehouse import connection as connection_module
from bib_orchestration.biblioteca.warehouse import locks
from bib_orchestration.biblioteca.warehouse.connection import (
    Warehouse,
    WarehouseError,
    insert_rows,
    quoted,
    read_published,
)
from bib_orchestration.biblioteca.warehouse.schema import TABLES

OPEN = """
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, read_published
address, locks = ARGUMENTS[:2]
warehouse = Warehouse(address, Path(locks), lock_timeout_s=50, on_wait=lambda message: None)

def add(connection, name, rows=1):
    connection.execute("INSERT INTO query_log_files SELECT $1, range FROM range($2)", [name, rows])
"""
HOLD_FILE = (
    OPEN
    + """
with warehouse.read():
    say("open")
    wait()
"""
)
HOLD_LOCK = (
    OPEN
    + """
with warehouse.lock():
    say("locked")
    wait()
"""
)
# DuckDB 2.0's own is 69; 1.5 reads 68 and older.
NEWEST_FOR_DUCKDB_1_5 = 68


def add(warehouse: Warehouse, *names: str) -> None:
    with warehouse.lock(), warehouse.transaction() as connection:
        insert_rows(connection, "query_log_files", [{"file": name, "bytes": 0} for name in names])


def names(warehouse: Warehouse) -> list[str]:
    with warehouse.read() as connection:
        return [row[0] for row in connection.sql("SELECT file FROM query_log_files ORDER BY file").fetchall()]


def published_names(warehouse: Warehouse) -> list[str] | None:
    with read_published(warehouse) as connection:
        if connection is None:
            return None
        return [row[0] for row in connection.sql("SELECT file FROM query_log_files ORDER BY file").fetchall()]


def fail_in_the_middle(warehouse: Warehouse, error: BaseException, *statements: str) -> None:
    """Insert a row, run statements, and raise in the block of a transaction."""
    with warehouse.lock(), warehouse.transaction() as connection:
        insert_rows(connection, "query_log_files", [{"file": "lost"}])
        for statement in statements:
            connection.execute(statement)
        raise error


def beside(warehouse: Warehouse) -> tuple[str, str]:
    """The arguments that another process needs to open the same warehouse."""
    return warehouse.address, str(warehouse.read_copy.parent / "locks")


def file_version(path: Path) -> int:
    return struct.unpack_from("<Q", path.read_bytes(), 12)[0]


# --- transactions


def test_a_transaction_is_there_when_its_block_has_ended(warehouse):
    add(warehouse, "a", "b")

    assert names(warehouse) == ["a", "b"]


def test_a_transaction_needs_the_lock_and_of_this_thread(warehouse):
    with pytest.raises(RuntimeError, match="needs the warehouse's lock"), warehouse.transaction():
        pytest.fail("no lock")

    wrong = []

    def write() -> None:
        try:
            with warehouse.transaction():
                wrong.append("no lock")
        except RuntimeError:
            pass

    with warehouse.lock():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, duckdb.ConversionException])
def test_an_exception_leaves_the_transaction_undone(warehouse, error):
    add(warehouse, "before")
    with pytest.raises(error):
        fail_in_the_middle(warehouse, error("on purpose"), "CREATE TABLE lost AS SELECT 1 AS a")

    assert names(warehouse) == ["before"]
    with warehouse.read() as connection:
        assert connection.sql("SELECT * FROM duckdb_tables() WHERE table_name = 'lost'").fetchall() == []
    add(warehouse, "after")
    assert names(warehouse) == ["after", "before"]


def test_the_exception_that_undid_it_is_the_one_that_is_seen(warehouse):
    """A ROLLBACK used to be sent, and failed where the connection was in the middle of a result, or broken."""
    with pytest.raises(KeyError, match="mine"):
        fail_in_the_middle(warehouse, KeyError("mine"), "FROM range(1000000)")
    with pytest.raises(KeyError, match="mine"):
        fail_in_the_middle(warehouse, KeyError("mine"), "ROLLBACK")
    with pytest.raises(duckdb.Error, match="broken"):
        fail_in_the_middle(warehouse, KeyError("mine"), "SELECT error('broken')")

    assert names(warehouse) == []


def test_a_connection_inside_another_is_an_error_that_says_so(warehouse):
    with warehouse.read(), pytest.raises(RuntimeError, match="inside the block of another"):
        names(warehouse)
    with warehouse.lock(), warehouse.transaction() as connection:
        with pytest.raises(RuntimeError, match="inside the block of another"):
            names(warehouse)
        insert_rows(connection, "query_log_files", [{"file": "a"}])

    assert names(warehouse) == ["a"]


def test_a_file_that_this_process_has_open_otherwise_is_an_error_that_says_so(warehouse):
    add(warehouse, "a")
    with duckdb.connect(warehouse.address), pytest.raises(RuntimeError, match="open in this process"):
        names(warehouse)

    assert names(warehouse) == ["a"]


def test_between_blocks_the_file_is_closed(warehouse, start):
    add(warehouse, "a")
    with pytest.raises(ValueError, match="on purpose"):
        fail_in_the_middle(warehouse, ValueError("on purpose"))
    child = start(
        "import duckdb; say(duckdb.connect(ARGUMENTS[0]).sql('FROM query_log_files').fetchall())",
        warehouse.address,
    )

    assert child.finish() == ["[('a', 0)]"]


def test_duckdb_is_started_once_a_process_and_anew_after_an_error(warehouse, open_warehouse, monkeypatch):
    started = []
    real_connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a, **k: started.append(a) or real_connect(*a, **k))
    with pytest.raises(duckdb.Error), warehouse.read() as connection:
        connection.execute("SELECT error('broken')")
    started.clear()
    for one in (warehouse, open_warehouse(), warehouse):
        add(one, "a")
    assert started == [(":memory:",)]

    with pytest.raises(duckdb.Error), warehouse.read() as connection:
        connection.execute("SELECT error('broken')")
    assert names(warehouse) == ["a", "a", "a"]
    assert started == [(":memory:",)] * 2


def test_one_block_sees_nothing_of_what_another_left_in_its_connection(warehouse):
    with warehouse.read() as connection:
        connection.execute("CREATE TEMP TABLE left_over AS SELECT 1 AS a")
        connection.execute("SET TimeZone = 'America/Havana'")
        connection.register("registered", connection.sql("SELECT 1 AS a").to_arrow_table())
        unread = connection.execute("FROM range(1000000)")
    with warehouse.read() as connection:
        for name in ("left_over", "registered"):
            with pytest.raises(duckdb.CatalogException):
                connection.sql(f"FROM {name}")
        assert connection.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
    with pytest.raises(duckdb.Error):
        unread.fetchall()


def test_a_fork_of_a_process_that_used_it_can_use_it_too(warehouse, start):
    script = (
        OPEN
        + """
import os
with warehouse.lock(), warehouse.transaction() as connection:
    add(connection, "parent")
child = os.fork()
with warehouse.lock(), warehouse.transaction() as connection:
    add(connection, "child" if child == 0 else "parent again")
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    start(script, *beside(warehouse)).finish()

    assert names(warehouse) == ["child", "parent", "parent again"]


def test_threads_and_objects_of_one_process_take_turns(warehouse, open_warehouse):
    def write(mine: Warehouse, name: str) -> None:
        for number in range(3):
            add(mine, f"{name}{number}")
            assert f"{name}{number}" in names(mine)

    other = open_warehouse()
    threads = [
        threading.Thread(target=write, args=(mine, name))
        for mine, name in [(warehouse, "a"), (warehouse, "b"), (other, "c"), (other, "d")]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert names(warehouse) == sorted(f"{name}{number}" for name in "abcd" for number in range(3))


def test_processes_read_and_write_at_once_and_lose_nothing(warehouse, start):
    script = (
        OPEN
        + """
for number in range(4):
    with warehouse.lock():
        with warehouse.read() as connection:
            seen = connection.sql("SELECT count(*) FROM query_log_files").fetchall()[0][0]
        with warehouse.transaction() as connection:
            add(connection, f"{seen:03}")
"""
    )
    children = [start(script, *beside(warehouse)) for _ in range(2)]
    seen = []
    while len(seen) < 8:
        latest = names(warehouse)
        assert latest[: len(seen)] == seen
        seen = latest
        time.sleep(0.02)
    for child in children:
        child.finish()

    # What each wrote followed from what it read under the lock: no number twice.
    assert seen == [f"{number:03}" for number in range(8)]


# --- waiting


def test_who_finds_the_file_open_waits_until_it_is_free(warehouse, start):
    add(warehouse, "a")
    child = start(HOLD_FILE, *beside(warehouse))
    child.hear()
    threading.Timer(0.4, child.go_on).start()
    began = time.monotonic()

    assert names(warehouse) == ["a"]
    assert time.monotonic() - began > 0.3


def test_waiting_for_the_file_ends_with_an_error_that_names_its_holder_and_the_copy(
    warehouse, start, monkeypatch
):
    add(warehouse, "a")
    warehouse.publish()
    child = start(HOLD_FILE, *beside(warehouse))
    child.hear()
    monkeypatch.setattr(connection_module, "CONNECT_TIMEOUT_S", 0.2)

    with pytest.raises(WarehouseError) as raised:
        names(warehouse)

    assert "was not free within 0.2 s" in str(raised.value)
    assert f"PID {child.pid}" in str(raised.value)
    assert "should open warehouse.read.duckdb" in str(raised.value)
    assert published_names(warehouse) == ["a"]


def test_a_reader_does_not_wait_for_a_writer_that_is_at_work_elsewhere(warehouse, open_warehouse, start):
    """A writer holds the lock while it fetches from git. Only making the tables needs it."""
    add(warehouse, "a")
    child = start(HOLD_LOCK, *beside(warehouse))
    child.hear()
    reader = Warehouse(*_short_of_patience(warehouse))

    assert names(reader) == ["a"]


def test_making_the_tables_waits_for_the_lock(warehouse, start):
    child = start(HOLD_LOCK, *beside(warehouse))
    child.hear()
    reader = Warehouse(*_short_of_patience(warehouse), lock_timeout_s=0.1)

    with pytest.raises(locks.LockTimeout, match=f"pid {child.pid} "):
        names(reader)


def _short_of_patience(warehouse: Warehouse) -> tuple[str, Path]:
    address, folder = beside(warehouse)
    return address, Path(folder)


# --- kill -9


def test_a_writer_killed_in_the_middle_loses_nothing_acknowledged_and_leaves_no_lock(warehouse, start):
    script = (
        OPEN
        + """
for number in range(3):
    with warehouse.lock(), warehouse.transaction() as connection:
        add(connection, f"kept {number}")
with warehouse.lock(), warehouse.transaction() as connection:
    add(connection, "lost", 5000)
    connection.execute("DELETE FROM query_log_files WHERE file LIKE 'kept%'")
    say("in the middle")
    wait()
"""
    )
    child = start(script, *beside(warehouse))
    child.hear()
    child.kill()
    survivor = Warehouse(*_short_of_patience(warehouse), lock_timeout_s=0)

    assert names(survivor) == ["kept 0", "kept 1", "kept 2"]
    add(survivor, "next")
    assert "next" in names(survivor)


def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged(warehouse, start):
    script = (
        OPEN
        + """
for number in range(10000):
    with warehouse.lock(), warehouse.transaction() as connection:
        add(connection, f"{ARGUMENTS[2]} {number:05}")
    say(f"{ARGUMENTS[2]} {number:05}")
"""
    )
    chance = random.Random(5)
    acknowledged: list[str] = []
    for name in ("a", "b", "c"):
        child = start(script, *beside(warehouse), name)
        acknowledged.append(child.hear())
        time.sleep(chance.uniform(0, 0.3))
        acknowledged += child.kill()
        kept = names(warehouse)

        assert set(acknowledged) <= set(kept)
        # At most the one that was under way is there as well.
        assert len(kept) <= len(acknowledged) + "abc".index(name) + 1


# --- the published copy


def test_nothing_is_published_before_there_is_something(warehouse):
    assert warehouse.publish() is False
    assert published_names(warehouse) is None
    assert not Path(warehouse.address).exists()


def test_a_copy_is_published_after_a_write_and_only_then(warehouse):
    add(warehouse, "a")
    assert not warehouse.read_copy.exists()
    # Until there is a copy, or when somebody removed it, the warehouse itself is read.
    assert published_names(warehouse) == ["a"]
    assert warehouse.publish() is True
    assert published_names(warehouse) == ["a"]

    names(warehouse)
    with warehouse.lock(), warehouse.transaction():
        pass
    assert warehouse.publish() is False

    add(warehouse, "b")
    assert published_names(warehouse) == ["a"]
    assert warehouse.publish() is True
    assert published_names(warehouse) == ["a", "b"]


def test_what_a_run_wrote_that_died_before_it_published_is_published_by_the_next(warehouse, start):
    """Even by one that finds nothing to do: publishing used to ask only what this very run had written."""
    add(warehouse, "a")
    warehouse.publish()
    script = (
        OPEN
        + """
with warehouse.lock(), warehouse.transaction() as connection:
    add(connection, "b")
say("written")
wait()
"""
    )
    child = start(script, *beside(warehouse))
    child.hear()
    child.kill()

    assert warehouse.publish() is True
    assert published_names(warehouse) == ["a", "b"]
    assert warehouse.publish() is False


def test_the_copy_holds_commits_that_are_still_in_the_log(warehouse, start):
    script = (
        OPEN
        + """
import os, signal
with warehouse.lock(), warehouse.transaction() as connection:
    pass
with warehouse.lock():
    with warehouse._connect() as connection:
        connection.execute("SET GLOBAL checkpoint_threshold = '1GB'")
        add(connection, "only in the log")
        os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    start(script, *beside(warehouse)).wait_for_its_death()
    assert Path(f"{warehouse.address}.wal").exists()

    assert warehouse.publish() is True
    assert published_names(warehouse) == ["only in the log"]


def test_who_has_the_older_copy_open_keeps_reading_it(warehouse, start):
    add(warehouse, "a")
    warehouse.publish()
    script = (
        OPEN
        + """
with read_published(warehouse) as connection:
    for _ in range(2):
        say(connection.sql("SELECT count(*) FROM query_log_files").fetchall()[0][0])
        wait()
"""
    )
    child = start(script, *beside(warehouse))
    assert child.hear() == "1"

    add(warehouse, "b")
    assert warehouse.publish() is True
    child.go_on()
    assert child.hear() == "1"
    assert published_names(warehouse) == ["a", "b"]


def test_nobody_has_the_file_open_while_it_is_copied(warehouse):
    """Closing a file drops every lock that its process has on it, those of other threads' connections too."""
    add(warehouse, "a")
    done = []
    publishing = threading.Thread(target=lambda: done.append(warehouse.publish()))
    with warehouse.read():
        publishing.start()
        time.sleep(0.3)
        assert not warehouse.read_copy.exists()
    publishing.join()

    assert done == [True]


def test_a_copy_that_cannot_be_put_in_its_place_leaves_nothing_behind(warehouse):
    add(warehouse, "a")
    warehouse.read_copy.mkdir()

    with pytest.raises(OSError, match=r"warehouse\.read\.duckdb"):
        warehouse.publish()

    assert sorted(path.name for path in warehouse.read_copy.parent.iterdir()) == [
        "locks",
        "warehouse.duckdb",
        "warehouse.read.duckdb",
    ]
    warehouse.read_copy.rmdir()
    assert warehouse.publish() is True


def test_a_copy_that_is_damaged_says_what_to_do_and_doing_it_helps(warehouse):
    add(warehouse, "a")
    warehouse.publish()
    warehouse.read_copy.write_bytes(b"no database" * 1000)

    with pytest.raises(WarehouseError, match=r"warehouse\.read\.duckdb cannot be read: .* delete it"):
        published_names(warehouse)

    warehouse.read_copy.unlink()
    assert warehouse.publish() is True
    assert published_names(warehouse) == ["a"]


def test_a_copy_is_read_only(warehouse):
    add(warehouse, "a")
    warehouse.publish()
    with read_published(warehouse) as connection, pytest.raises(duckdb.Error, match="read-only"):
        connection.execute("DELETE FROM query_log_files")


# --- the file


def test_older_versions_of_duckdb_can_read_it(warehouse):
    add(warehouse, "a")
    warehouse.publish()

    assert file_version(Path(warehouse.address)) <= NEWEST_FOR_DUCKDB_1_5
    assert file_version(warehouse.read_copy) <= NEWEST_FOR_DUCKDB_1_5


@pytest.mark.parametrize(
    "name",
    [
        'a b\'s "q".duckdb',
        "x*y[1]?.duckdb",
        "semi;colon -- comment.duckdb",
        "año 🙂.duckdb",
        "no_extension",
        "$home{x}#%20.duckdb",
        "two.dots.duckdb",
    ],
)
def test_a_file_may_be_called_anything(tmp_path, name):
    warehouse = Warehouse(str(tmp_path / "a 'folder'" / name), tmp_path / "locks")
    add(warehouse, "a")
    assert warehouse.publish() is True

    assert Path(warehouse.address).is_file()
    assert warehouse.read_copy != Path(warehouse.address)
    assert published_names(warehouse) == ["a"]


@pytest.mark.parametrize(
    ("address", "is_file"),
    [
        ("/a/b.duckdb", True),
        ("b.duckdb", True),
        ("md:bib", False),
        ("ducklake:sqlite:x", False),
        ("c:x", True),
    ],
)
def test_an_address_may_be_a_file_or_a_service(tmp_path, address, is_file):
    assert Warehouse(address, tmp_path).is_file is is_file


def test_a_service_publishes_nothing(tmp_path):
    assert Warehouse("md:bib", tmp_path).publish() is False


def test_text_becomes_a_string_of_sql():
    for text in ("a", "it's", "''", "", "\\", "año -- x"):
        assert duckdb.sql(f"SELECT {quoted(text)}").fetchall() == [(text,)]


# --- damage


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"no database" * 1000,
        lambda data: b"SQLite format 3\0" + bytes(1000),
        lambda data: data[:5000],
        lambda data: data[: len(data) // 2],
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "text", "sqlite", "cut in the header", "cut in half", "zeros"],
)
def test_a_damaged_file_says_what_to_do_and_doing_it_helps(warehouse, open_warehouse, spoil):
    add(warehouse, "a")
    file = Path(warehouse.address)
    file.write_bytes(spoil(file.read_bytes()))

    for other in (warehouse, open_warehouse()):
        with pytest.raises(WarehouseError, match=r"(?s)warehouse\.duckdb cannot be read: .* move it away"):
            names(other)

    file.rename(file.with_suffix(".damaged"))
    assert names(warehouse) == []
    add(warehouse, "b")
    assert names(open_warehouse()) == ["b"]


def test_a_folder_in_its_place_says_so(warehouse):
    Path(warehouse.address).mkdir()
    with pytest.raises(WarehouseError, match="directory"):
        names(warehouse)


def test_a_file_of_a_newer_duckdb_says_so(warehouse):
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH {quoted(warehouse.address)} AS newer (STORAGE_VERSION 'v2.0.0')")
        connection.execute("CREATE TABLE newer.x AS SELECT 1 AS a")

    with pytest.raises(WarehouseError, match="storage version"):
        names(warehouse)


@pytest.fixture(scope="module")
def full_file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    warehouse = Warehouse(str(folder / "warehouse.duckdb"), folder / "locks")
    add(warehouse, *(f"{random.Random(number).random()}" for number in range(5000)))
    return Path(warehouse.address)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_damage_anywhere_is_told_or_does_no_harm(tmp_path, full_file, where, bit, cut):
    file = tmp_path / "warehouse.duckdb"
    data = full_file.read_bytes()
    place = int(where * len(data))
    flipped = bytes([data[place] ^ (1 << bit)])
    file.write_bytes(data[:place] + (b"" if cut else flipped + data[place + 1 :]))
    file.with_name("warehouse.duckdb.wal").unlink(missing_ok=True)
    warehouse = Warehouse(str(file), tmp_path / "locks")
    found, said = [], ""
    try:
        found = names(warehouse)
    except WarehouseError as error:
        said = str(error)

    assert len(found) == 5000 or "move it away" in said


# --- tables


def test_a_file_that_is_deleted_while_we_live_is_made_anew(warehouse):
    add(warehouse, "a")
    Path(warehouse.address).unlink()

    assert names(warehouse) == []
    add(warehouse, "b")
    assert names(warehouse) == ["b"]


def test_columns_and_tables_that_an_older_version_lacked_are_added(warehouse, open_warehouse):
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH {quoted(warehouse.address)} AS older (STORAGE_VERSION 'v1.0.0')")
        connection.execute('CREATE TABLE older.bib_chunks ("end" BIGINT, chunk_id VARCHAR, of_old INTEGER)')
        connection.execute("INSERT INTO older.bib_chunks VALUES (7, 'c', 1)")

    with warehouse.read() as connection:
        assert connection.sql('SELECT chunk_id, "end", of_old, tokens FROM bib_chunks').fetchall() == [
            ("c", 7, 1, None)
        ]
        for table, columns in TABLES.items():
            present = {row[0]: row[1] for row in connection.sql(f"DESCRIBE {table}").fetchall()}
            assert columns.keys() <= present.keys()
    with warehouse.lock(), warehouse.transaction() as connection:
        insert_rows(connection, "bib_chunks", [{"chunk_id": "d", "tokens": 3}])
    with open_warehouse().read() as connection:
        assert connection.sql("SELECT chunk_id, tokens FROM bib_chunks ORDER BY 1").fetchall() == [
            ("c", None),
            ("d", 3),
        ]


# --- rows


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: dict[str, st.SearchStrategy] = {
    "query_id": TEXT,
    "ts": st.datetimes(
        datetime(1, 1, 3),
        datetime(9999, 12, 29),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=13)), timezone(timedelta(hours=-11))]),
    ),
    "question": TEXT,
    "mode": TEXT,
    "latency_ms": st.floats(allow_nan=False),
    "tokens": st.integers(-(2**63), 2**63 - 1),
    "content_ids": st.lists(TEXT, max_size=3),
    "paths": st.lists(TEXT, max_size=3),
    "generation": TEXT,
    "answered": st.booleans(),
}


@settings(max_examples=15)
@given(
    st.lists(st.fixed_dictionaries({}, optional={k: v | st.none() for k, v in VALUES.items()}), max_size=4)
)
def test_rows_come_back_as_they_were_and_what_is_absent_is_null(rows):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "CREATE TABLE oraculo_queries"
            f" ({', '.join(f'{name} {kind}' for name, kind in TABLES['oraculo_queries'].items())})"
        )
        insert_rows(connection, "oraculo_queries", rows)
        stored = connection.sql("FROM oraculo_queries").fetchall()

    assert stored == [tuple(row.get(name) for name in TABLES["oraculo_queries"]) for row in rows]


def test_every_type_of_a_column_can_be_inserted():
    row = {"day": date(2026, 1, 1), "run_id": "r", "chunk_ids": ["ñ"], "top_score": 0.5, "tokens": 3}
    with duckdb.connect() as connection:
        for table, columns in TABLES.items():
            listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {table} ({listed})")
            insert_rows(connection, table, [{}])
            assert connection.sql(f"FROM {table}").fetchall() == [(None,) * len(columns)]
        insert_rows(connection, "ab_results", [row])
        names_of_row = ", ".join(row)
        assert connection.sql(f"SELECT {names_of_row} FROM ab_results OFFSET 1").fetchall() == [
            tuple(row.values())
        ]


def test_times_are_utc_wherever_the_machine_stands(warehouse, monkeypatch):
    monkeypatch.setenv("TZ", "America/Santiago")
    time.tzset()
    try:
        asked = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        with warehouse.lock(), warehouse.transaction() as connection:
            insert_rows(connection, "oraculo_queries", [{"query_id": "a", "ts": asked}])
        with warehouse.read() as connection:
            assert connection.sql("SELECT ts, ts::VARCHAR FROM oraculo_queries").fetchall() == [
                (asked, "2026-03-29 01:30:00+00")
            ]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_no_extension_is_ever_downloaded(warehouse, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    began = time.monotonic()
    with warehouse.read() as connection, pytest.raises(duckdb.Error):
        connection.sql("FROM read_xlsx('a.xlsx')").fetchall()

    assert time.monotonic() - began < 5
    assert not (tmp_path / "nobody").exists()
