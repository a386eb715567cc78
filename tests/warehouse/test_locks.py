"""What locks.py promises: one holder at a time, who is named, and whose death frees the lock."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.warehouse import locks

HOLD = """
from bib_orchestration.biblioteca.warehouse import locks
with locks.hold(Path(ARGUMENTS[0])):
    say("held")
    wait()
say("released")
"""
COUNT = """
import time
from bib_orchestration.biblioteca.warehouse import locks
lock, counter, rounds = Path(ARGUMENTS[0]), Path(ARGUMENTS[1]), int(ARGUMENTS[2])
say("ready")
wait()
for _ in range(rounds):
    with locks.hold(lock, timeout_s=50, on_wait=lambda message: None):
        number = int(counter.read_text())
        time.sleep(0.002)
        counter.write_text(str(number + 1))
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """In a folder that does not exist yet."""
    return tmp_path / "locks" / "warehouse.lock"


def test_processes_exclude_each_other(start, lock, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    children = [start(COUNT, lock, counter, 15) for _ in range(4)]
    for child in children:
        child.hear()
    for child in children:
        child.go_on()
    for child in children:
        child.finish()

    assert counter.read_text() == "60"


def test_threads_of_a_process_exclude_each_other(lock):
    number = 0

    def count() -> None:
        nonlocal number
        for _ in range(15):
            with locks.hold(lock, timeout_s=50):
                seen = number
                time.sleep(0.001)
                number = seen + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert number == 60


def test_who_waits_is_told_once_who_has_it(start, lock):
    child = start(HOLD, lock)
    child.hear()
    messages = []

    def told(message: str) -> None:
        messages.append(message)
        threading.Timer(0.3, child.go_on).start()

    with locks.hold(lock, timeout_s=30, on_wait=told):
        assert child.finish() == ["released"]

    assert len(messages) == 1
    assert str(lock) in messages[0]
    assert f"pid {child.pid} (" in messages[0]


def test_who_need_not_wait_is_told_nothing(lock):
    with locks.hold(lock, on_wait=lambda message: pytest.fail(message)):
        assert locks.is_held_here(lock)


@pytest.mark.parametrize("timeout_s", [0, 0.05])
def test_waiting_ends_with_an_error_that_names_the_holder(start, lock, timeout_s):
    child = start(HOLD, lock)
    child.hear()

    named = rf"{timeout_s:g} s; it is held by pid {child.pid} "
    with pytest.raises(locks.LockTimeout, match=named), locks.hold(lock, timeout_s=timeout_s):
        pytest.fail("held twice")

    assert not locks.is_held_here(lock)


def test_a_free_lock_is_had_without_any_time_to_wait(lock):
    with locks.hold(lock, timeout_s=0):
        pass


def test_it_is_free_the_moment_its_holder_is_killed(start, lock):
    child = start(HOLD, lock)
    child.hear()
    child.kill()

    with locks.hold(lock, timeout_s=0, on_wait=lambda message: pytest.fail(message)):
        pass


def test_what_a_killed_holder_had_started_does_not_keep_it(start, lock):
    """`git fetch` runs while the warehouse's lock is held, and may outlive a run that is killed."""
    child = start(
        """
        import subprocess
        from bib_orchestration.biblioteca.warehouse import locks
        with locks.hold(Path(ARGUMENTS[0])):
            say(subprocess.Popen(["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL).pid)
            wait()
        """.replace("\n        ", "\n"),
        lock,
    )
    grandchild = int(child.hear())
    child.kill()
    try:
        with locks.hold(lock, timeout_s=0):
            pass
    finally:
        os.kill(grandchild, 9)


def test_a_holder_that_has_gone_is_not_named(lock):
    with locks.hold(lock):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    # The next one has it, and has not signed yet.
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(locks.LockTimeout) as raised, locks.hold(lock, timeout_s=0):
            pytest.fail("held twice")

    assert str(os.getpid()) not in str(raised.value).removeprefix(str(lock))
    assert "has not signed yet" in str(raised.value)


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b"null", b'{"pid": 1}', b"\xff\xfe"])
def test_whatever_the_file_says_waiting_goes_on(lock, written):
    lock.parent.mkdir()
    lock.write_bytes(written)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(locks.LockTimeout, match="not signed"), locks.hold(lock, timeout_s=0):
            pytest.fail("held twice")


def test_taking_it_twice_is_an_error_and_no_wait_for_ever(lock, tmp_path):
    link = tmp_path / "link"
    with locks.hold(lock):
        link.symlink_to(lock.parent)
        for again in (lock, link / lock.name, lock.parent / ".." / lock.parent.name / lock.name):
            with pytest.raises(RuntimeError, match="already held by this thread"), locks.hold(again):
                pytest.fail("held twice")
            assert locks.is_held_here(again)
        assert locks.is_held_here(lock)
    with locks.hold(lock, timeout_s=0):
        pass


def test_two_locks_are_two(lock):
    with locks.hold(lock), locks.hold(lock.with_name("index.lock"), timeout_s=0):
        assert locks.is_held_here(lock)
        assert locks.is_held_here(lock.with_name("index.lock"))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_frees_it(lock, error):
    with pytest.raises(error), locks.hold(lock):
        raise error

    assert not locks.is_held_here(lock)
    with locks.hold(lock, timeout_s=0):
        pass


def test_an_exception_while_waiting_leaves_nothing(start, lock):
    child = start(HOLD, lock)
    child.hear()

    def refuse(message: str) -> None:
        raise InterruptedError(message)

    with pytest.raises(InterruptedError), locks.hold(lock, on_wait=refuse):
        pytest.fail("held twice")
    assert not locks.is_held_here(lock)

    child.go_on()
    child.finish()
    with locks.hold(lock, timeout_s=0):
        pass


def test_another_thread_does_not_hold_it(lock):
    seen = []
    with locks.hold(lock):
        thread = threading.Thread(target=lambda: seen.append(locks.is_held_here(lock)))
        thread.start()
        thread.join()

    assert seen == [False]


@given(st.floats(0.001, 1), st.floats(1, 100), st.integers(1, 40))
def test_pauses_grow_to_the_longest_and_no_further(shortest, times, count):
    longest = shortest * times
    for number, pause in enumerate(itertools.islice(locks.jittered_pauses(shortest, longest), count)):
        whole = min(shortest * 2**number, longest)
        assert 0.5 * whole <= pause <= whole
