"""`bib log`: the query log."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.commands import DONE, FAILED
from bib_orchestration.commands.arguments import add_command
from bib_orchestration.terminal import console, safe

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.warehouse.query_import import ImportReport
    from bib_orchestration.biblioteca.warehouse.query_log import LoadReport


def add(commands: Any) -> None:
    log = commands.add_parser("log", help="The query log.", description="The query log.")
    inner = log.add_subparsers(required=True, metavar="COMMAND")
    command = add_command(
        inner,
        "import",
        _import,
        "Add questions from a CSV, JSON, JSON Lines, Parquet or DuckDB file to the query log.",
    )
    command.add_argument("file", type=Path, help="a DuckDB file needs a table oraculo_queries")


def _import(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration.biblioteca.warehouse.query_import import import_log
    from bib_orchestration.biblioteca.warehouse.query_log import load

    imported = import_log(parsed.file, settings.query_log)
    library = terminal.library(settings)
    loaded = load(library.warehouse, settings.query_log)
    library.warehouse.publish()
    terminal.print_result(parsed, _import_json(imported, loaded), lambda: _show_import(imported, loaded))
    # Part of a file is not the file.
    return FAILED if imported.bad_rows else DONE


def _import_json(imported: ImportReport, loaded: LoadReport) -> dict[str, Any]:
    """What an import did, for programs."""
    return {
        "file": str(imported.file),
        "questions": imported.questions,
        "added": loaded.added,
        "total": loaded.total,
        "bad_rows": [*imported.bad_rows, *loaded.bad_lines],
    }


def _show_import(imported: ImportReport, loaded: LoadReport) -> None:
    left_out = f", {len(imported.bad_rows)} more left out" if imported.bad_rows else ""
    console.print(
        f"{imported.questions} questions in the file{left_out}, {loaded.added} of them new; "
        f"{loaded.total} in the query log"
    )
    bad = [*imported.bad_rows, *loaded.bad_lines]
    for line in bad[: terminal.MOST_PROBLEMS]:
        console.print(f"[yellow]left out[/yellow] {safe(line)}")
    if len(bad) > terminal.MOST_PROBLEMS:
        console.print(f"… and {len(bad) - terminal.MOST_PROBLEMS} more")
