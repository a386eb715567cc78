"""Arguments that commands have in common, and what may be said for them."""

from __future__ import annotations

import argparse
from datetime import date
from typing import Any

from bib_orchestration.biblioteca.settings import TRIM_MODES

# Arithmetic on days ends with the year 9999.
_LAST_YEAR = 9000


def add_command(
    commands: Any, name: str, run: Any, text: str, *, as_json: bool = True
) -> argparse.ArgumentParser:
    """A command with its name, what runs it, and what the help says of it."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    if as_json:
        command.add_argument("--json", action="store_true", help="print JSON, for programs")
    return command


def add_retrieval_options(command: argparse.ArgumentParser) -> None:
    """What a search and an evaluation have in common; bib.toml's settings are the defaults."""
    command.add_argument("--top-k", type=positive, metavar="N", help="chunks a question")
    command.add_argument("--trim-mode", choices=TRIM_MODES, help="how the sentences that matter are told")
    command.add_argument(
        "--threshold", type=cosine, metavar="COSINE", help="cosine from which a sentence stays (mode cosine)"
    )
    command.add_argument(
        "--min-sentences",
        type=count,
        metavar="N",
        help="kept of each chunk at the least; with 0 whole chunks may go",
    )
    command.add_argument("--window", type=count, metavar="N", help="neighbours kept on either side")
    command.add_argument("--source-type", metavar="TYPE", help="only chunks of such sources")
    command.add_argument("--app", metavar="APP", help="only chunks of this app")


def day(text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.max
    if found.year > _LAST_YEAR:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; 2026-10-31 is right")
    return found


def cosine(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -1 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no cosine; a number from -1 to 1 is right")
    return value


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number from 0 up is right")
    return int(text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number from 1 up is right")
    return int(text)
