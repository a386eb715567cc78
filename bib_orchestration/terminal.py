"""What commands print on: tables for people, plain values for programs, and complaints for both."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.biblioteca.settings import Settings

if TYPE_CHECKING:
    import argparse

NO_DATA = "no data"
MOST_PROBLEMS = 20
# Control characters (escape sequences among them) and those that change the direction of writing.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Without emoji: `:key:` in a path or in code is what it says.
console = Console(highlight=False, soft_wrap=True, emoji=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def library(settings: Settings) -> Library:
    """The knowledge base, telling the terminal when it waits for another process."""
    return Library(settings, on_wait=lambda message: errors.print(f"[dim]{safe(message)}[/dim]"))


@contextmanager
def progress(what: str, unit: str) -> Iterator[Any]:
    """A progress bar on a terminal, and lines every ten seconds elsewhere."""
    if not sys.stderr.isatty():
        yield ProgressLog(what, unit, lambda line: print(line, file=sys.stderr))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")

        def update(done: int, total: int) -> None:
            elapsed = bar.tasks[task].elapsed or 0
            rate = f"{done / elapsed:.0f} {unit}/s" if done and elapsed else ""
            bar.update(task, completed=done, total=total, rate=rate)

        yield update


def print_result(parsed: argparse.Namespace, value: Any, show: Callable[[], None]) -> None:
    """`value` as JSON where `--json` asks for it, or else what `show` prints."""
    if parsed.json:
        print(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    else:
        show()


def complain(problem: object, status: int) -> int:
    """A fault in a line on stderr; gives the exit status back."""
    # A file's name may hold what steers a terminal.
    text = "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in str(problem)
    )
    print(f"bib: {text}", file=sys.stderr)
    return status


def note(remark: str) -> None:
    """Something to know that is no fault, on stderr."""
    complain(remark, 0)


def show_problems(source: str, problems: Sequence[tuple[str, str]], what: str) -> None:
    """The first of the files that had a problem, with the reason."""
    for path, reason in problems[:MOST_PROBLEMS]:
        console.print(f"[yellow]{what}[/yellow] {safe(source)}/{safe(path)}: {safe(reason)}")
    if len(problems) > MOST_PROBLEMS:
        console.print(f"… and {len(problems) - MOST_PROBLEMS} more in {safe(source)}")


def table(*columns: str) -> Table:
    """A table; a column whose name ends in ">" is right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column.endswith(">")
        table.add_column(column.rstrip(">"), justify="right" if right else "left", overflow="fold")
    return table


def safe(text: str) -> str:
    """A value in a line of our own: neither markup, nor a line end, nor what steers a terminal."""
    return escape(shown(text).replace("\n", "\N{SYMBOL FOR NEWLINE}").replace("\t", " "))


def shown(text: str) -> str:
    """A text without what steers a terminal or turns its writing round."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)
