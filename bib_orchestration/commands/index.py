"""`bib index`: reads the sources and brings the index level."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings, SettingsError
from bib_orchestration.commands import DONE, FAILED
from bib_orchestration.commands.arguments import add_command
from bib_orchestration.terminal import console, errors, safe

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.indexing import IndexingReport


def add(commands: Any) -> None:
    command = add_command(commands, "index", _run, "Read the sources and bring the index level.")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help="sources to read (default: all)")
    command.add_argument(
        "--full", action="store_true", help="ignore stored fingerprints: read and verify all"
    )


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration.biblioteca.indexing import index_all

    sources = _named_sources(settings, parsed.sources) if parsed.sources else None
    with terminal.progress("embedding", "contents") as progress:
        report = index_all(terminal.library(settings), sources, full=parsed.full, progress=progress)
    terminal.print_result(parsed, _index_json(report), lambda: _show_index(report))
    return FAILED if report.errors else DONE


def _named_sources(settings: Settings, names: Sequence[str]) -> list[Any]:
    try:
        return [settings.source(name) for name in names]
    except KeyError as error:
        raise SettingsError(str(error.args[0])) from None


def _index_json(report: IndexingReport) -> dict[str, Any]:
    """What an indexing did, for programs."""
    return {
        "sources": [asdict(source) for source in report.sources],
        "chunks": [asdict(chunks) for chunks in report.chunks],
        "removed_sources": list(report.removed_sources),
        "index": asdict(report.index),
        "queries": asdict(report.queries),
        "runs": asdict(report.runs),
        "errors": report.errors,
    }


def _show_index(report: IndexingReport) -> None:
    table = terminal.table(
        "source", "documents>", "chunks>", "added>", "changed>", "moved>", "deleted>", "skipped>"
    )
    for source, chunks in zip(report.sources, report.chunks, strict=True):
        counts = (source.added, source.changed, source.moved, source.deleted, source.problems)
        table.add_row(
            source.source, str(source.documents), str(chunks.chunks), *(str(len(c)) for c in counts)
        )
    console.print(table)
    index = report.index
    console.print(
        f"index: {index.contents} contents; {index.added} added, {index.updated} updated, "
        f"{index.deleted} deleted; {index.embedded} embedded ({index.texts} texts given to the model)"
        + (f"; {index.generation} went live" if index.went_live else "")
    )
    if report.queries.added or report.runs.added:
        console.print(f"loaded: {report.queries.added} logged questions, {report.runs.added} A/B runs")
    for line in [*report.queries.bad_lines, *report.runs.unreadable][: terminal.MOST_PROBLEMS]:
        console.print(f"[yellow]left out[/yellow] {safe(line)}")
    for name in report.removed_sources:
        console.print(f"removed: source {name}, which bib.toml no longer names")
    for source in report.sources:
        terminal.show_problems(source.source, [(p.path, p.reason) for p in source.problems], "skipped")
        terminal.show_problems(source.source, source.warnings, "read, but")
    for error in report.errors:
        errors.print(f"[bold red]failed:[/bold red] {safe(error)}")
