"""How far a long piece of work is: for the log, with rate and time left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

LOG_EVERY_S = 10.0


class ProgressLog:
    """Tells a log how far the work is, at most every `every_s` seconds, and at its end.

    >>> lines = []
    >>> progress = ProgressLog("embedding", "contents", lines.append, every_s=0)
    >>> progress(0, 2); progress(2, 2)
    >>> lines[-1].split(",")[0]
    'embedding: 2 of 2 contents'
    """

    def __init__(
        self,
        what: str,
        unit: str,
        tell: Callable[[str], None] = log.info,
        *,
        every_s: float = LOG_EVERY_S,
    ) -> None:
        self._what = what
        self._unit = unit
        self._tell = tell
        self._every_s = every_s
        self._started = self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == 0:
            self._started = self._told = now
            return
        if done < total and now - self._told < self._every_s:
            return
        self._told = now
        self._tell(f"{self._what}: {done} of {total} {self._unit}, {self._speed(now, done, total)}")

    def _speed(self, now: float, done: int, total: int) -> str:
        rate = done / max(now - self._started, 1e-6)
        if done == total:
            return f"{rate:.0f}/s, done in {duration(now - self._started)}"
        return f"{rate:.0f}/s, {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """A length of time as people say it.

    >>> [duration(seconds) for seconds in (4.2, 125, 7320)]
    ['4 s', '2 min 5 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
