"""Fixtures of the warehouse's tests: a warehouse of their own, and other processes that use it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bib_orchestration.biblioteca.warehouse.connection import Warehouse

# A child that hangs must not hang the tests.
CHILD_LIMIT_S = 60.0
PRELUDE = """\
import sys
from pathlib import Path

def say(text):
    print(text, flush=True)

def wait():
    sys.stdin.readline()

ARGUMENTS = sys.argv[1:]
"""


class Child:
    """Another Python process, steered line by line: it may `say(…)` a line, and `wait()` for one."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._watchdog = threading.Timer(CHILD_LIMIT_S, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        return line.rstrip("\n")

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> list[str]:
        """SIGKILL; returns the lines that it had said and nobody had heard."""
        self._process.kill()
        return self._process.communicate()[0].splitlines()

    def wait_for_its_death(self) -> None:
        self._process.communicate(timeout=CHILD_LIMIT_S)

    def finish(self) -> list[str]:
        """Wait for its end, which must be a good one; returns the rest of what it said."""
        said, wrong = self._process.communicate(timeout=CHILD_LIMIT_S)
        assert self._process.returncode == 0, wrong
        return said.splitlines()

    def end(self) -> None:
        self._watchdog.cancel()
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


StartChild = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[StartChild]:
    """Start another process: `start(script, *arguments)`."""
    children: list[Child] = []

    def start_child(script: str, *arguments: object) -> Child:
        children.append(Child(script, *arguments))
        return children[-1]

    yield start_child
    for child in children:
        child.end()


@pytest.fixture
def open_warehouse(tmp_path: Path) -> Callable[[], Warehouse]:
    """Another object for the same warehouse, as another program has it."""
    return lambda: Warehouse(str(tmp_path / "warehouse.duckdb"), tmp_path / "locks", lock_timeout_s=30)


@pytest.fixture
def warehouse(open_warehouse: Callable[[], Warehouse]) -> Warehouse:
    return open_warehouse()
