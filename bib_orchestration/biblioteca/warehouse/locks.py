"""One writer at a time, across processes: a file lock that is free the moment its holder dies.

`flock` and not a database's own lock, because it must hold for Dagster, the command line, MCP and tests
alike, and a run that is killed must leave nothing behind. The file says who holds it, so that whoever
waits can say so.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 1800.0
_RETRY_S = (0.005, 0.25)

_held: set[tuple[Path, int]] = set()


class LockTimeout(TimeoutError):
    """The lock was not free in time; the message names its holder."""


@contextmanager
def hold(
    path: Path, *, timeout_s: float = DEFAULT_TIMEOUT_S, on_wait: Callable[[str], None] = log.info
) -> Iterator[None]:
    """Hold the lock at `path` for the length of the block; `on_wait` is told once who has it.

    Not re-entrant: taking a lock that this thread already holds is a RuntimeError rather than a wait for
    ever. Raises LockTimeout after `timeout_s` seconds.
    """
    key = _key(path)
    if key in _held:
        raise RuntimeError(f"{path} is already held by this thread")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _acquire(descriptor, path, timeout_s, on_wait)
        _held.add(key)
        _sign(descriptor)
        yield
    finally:
        if key in _held:
            _held.discard(key)
            # Whoever waits next must not be told of a holder that has gone.
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def is_held_here(path: Path) -> bool:
    """Whether this thread holds the lock at `path`."""
    return _key(path) in _held


def jittered_pauses(shortest_s: float = _RETRY_S[0], longest_s: float = _RETRY_S[1]) -> Iterator[float]:
    """Seconds to sleep between tries: doubling up to `longest_s`, each cut by chance so that two who
    wait do not wake together. Chance here decides when, never what: it needs no seed."""
    pause = shortest_s
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest_s)


def _key(path: Path) -> tuple[Path, int]:
    # Resolved, or a link to the folder would make a second lock of the same file.
    return path.resolve(), threading.get_ident()


def _acquire(descriptor: int, path: Path, timeout_s: float, on_wait: Callable[[str], None]) -> None:
    give_up = time.monotonic() + timeout_s
    told = False
    for pause in jittered_pauses():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _holder(descriptor)
        if time.monotonic() >= give_up:
            raise LockTimeout(f"{path} was not free within {timeout_s:g} s; it is held by {holder}")
        if not told:
            on_wait(f"waiting for {path}, held by {holder}")
            told = True
        time.sleep(pause)


def _sign(descriptor: int) -> None:
    holder = {
        "pid": os.getpid(),
        "command": Path(sys.argv[0]).name or "python",
        "since": f"{datetime.now(UTC):%H:%M:%S} UTC",
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _holder(descriptor: int) -> str:
    """Who holds it, by the holder's own account. It may not have signed yet."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"pid {holder['pid']} ({holder['command']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        return "a process that has not signed yet"
