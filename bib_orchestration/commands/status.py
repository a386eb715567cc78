"""`bib status`: what is indexed, how old it is, and what went wrong."""

from __future__ import annotations

import argparse
from typing import Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.circuits import CIRCUITS, cron_of, runs_anything
from bib_orchestration.commands import DONE
from bib_orchestration.commands.arguments import add_command
from bib_orchestration.terminal import console, safe


def add(commands: Any) -> None:
    add_command(commands, "status", _run, "What is indexed, how old it is, and what went wrong.")


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration.biblioteca.status import read_status

    status = read_status(settings)
    terminal.print_result(parsed, status, lambda: _show_status(status, settings))
    return DONE


def _show_status(status: dict[str, Any], settings: Settings) -> None:
    console.print(f"[dim]{safe(status['config'])}, state in {safe(status['home'])}[/dim]\n")
    table = terminal.table(
        "source", "type", "documents>", "chunks>", "tokens>", "changed (UTC)", "commit", "state"
    )
    for row in status["sources"]:
        state = "[red]failed[/red]" if row["error"] else ("ok" if row["documents"] else "never read")
        if row["problems"] and not row["error"]:
            state = f"[yellow]{len(row['problems'])} skipped[/yellow]"
        table.add_row(
            row["source"],
            row["source_type"],
            str(row["documents"]),
            str(row["chunks"]),
            str(row["tokens"]),
            # Without the year, or the table would not fit into 80 columns.
            _short_time(row["changed_at"])[5:].replace(" ", "\N{NO-BREAK SPACE}"),
            (row["commit"] or "")[:10],
            state,
        )
    console.print(table)
    for row in status["sources"]:
        if row["error"]:
            console.print(f"[red]failed:[/red] {safe(row['error'])}")
        terminal.show_problems(row["source"], [(p["path"], p["reason"]) for p in row["problems"]], "skipped")
    _show_index_state(status["index"])
    queries = status["queries"]
    if queries and queries["questions"]:
        newest = _short_time(queries["newest"])
        console.print(f"questions: {queries['questions']} logged, the newest of {newest} UTC")
    else:
        console.print("questions: none logged yet")
    run = status["evaluation"]
    console.print(
        f"evaluation: {run['verdict'] or terminal.NO_DATA} on {run['questions']} questions ({run['run_id']})"
        if run
        else "evaluation: none yet"
    )
    _show_circuits(settings)


def _show_index_state(index: dict[str, Any] | None) -> None:
    if index is None:
        console.print("index: none yet; `bib index` makes it")
        return
    console.print(
        f"index: {index['contents']} contents by {safe(index['model'])} {safe(index['revision'][:12])} "
        f"({index['dimension']} dimensions), {index['table']}"
    )


def _show_circuits(settings: Settings) -> None:
    schedules = settings.schedules
    state = "on" if schedules.enabled else "off; `schedules.enabled = true` in bib.toml turns them on"
    console.print(f"\ncircuits ({schedules.timezone}; {state}):")
    table = terminal.table("circuit", "when", "refreshes")
    for circuit in CIRCUITS:
        if runs_anything(circuit, settings):
            table.add_row(circuit.name, cron_of(circuit, settings), circuit.refreshes)
    console.print(table)
    idle = [c.name for c in CIRCUITS if c.built and not runs_anything(c, settings)]
    if idle:
        console.print(f"without sources here: {', '.join(idle)}")


def _short_time(value: str | None) -> str:
    return value.replace("T", " ")[:16] if value else ""
