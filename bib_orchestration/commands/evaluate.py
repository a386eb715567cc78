"""`bib eval`: compares variants of retrieval on questions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings, SettingsError
from bib_orchestration.commands import DONE
from bib_orchestration.commands.arguments import add_command, add_retrieval_options, day, positive
from bib_orchestration.terminal import console, safe

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.evaluating import Evaluation

_VERDICT_STYLES = {"go": "bold green", "no-go": "bold red", "cannot conclude": "bold yellow"}


def add(commands: Any) -> None:
    command = add_command(
        commands,
        "eval",
        _run,
        "Compare whole with trimmed chunks on the newest questions, or on given ones.",
    )
    command.add_argument("--question", action="append", metavar="TEXT", help="a question; may be repeated")
    command.add_argument("--questions-file", type=Path, metavar="FILE", help="a question a line")
    command.add_argument("--day", type=day, metavar="DAY", help="the golden set of this day")
    command.add_argument(
        "--last", type=positive, metavar="N", help="size of the golden set (default: bib.toml's)"
    )
    command.add_argument("--variants", metavar="A,B", help="baseline,trim by default")
    add_retrieval_options(command)


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_now

    asked = ab_settings(
        settings,
        variants=tuple(parsed.variants.split(",")) if parsed.variants else None,
        top_k=parsed.top_k,
        trim_mode=parsed.trim_mode,
        trim_threshold=parsed.threshold,
        trim_min_sentences=parsed.min_sentences,
        trim_window=parsed.window,
        source_type=parsed.source_type,
        app=parsed.app,
    )
    library = terminal.library(settings)
    evaluation = evaluate_now(library, asked, _questions(parsed), day=parsed.day, last=parsed.last)
    library.warehouse.publish()
    terminal.print_result(parsed, evaluation.output, lambda: _show_evaluation(evaluation))
    return DONE


def _questions(parsed: argparse.Namespace) -> list[str] | None:
    """The questions given; None when none were."""
    given = [text.encode("utf-8", "replace").decode() for text in parsed.question or []]
    if parsed.questions_file:
        try:
            given += parsed.questions_file.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SettingsError(f"--questions-file: {parsed.questions_file}: {reason}") from None
    return given if parsed.question or parsed.questions_file else None


def _show_evaluation(evaluation: Evaluation) -> None:
    summary = evaluation.run.summary
    if not summary["questions"]:
        console.print("no questions: `bib log import` adds logged ones, --question takes one\n")
    table = terminal.table("summary", "value>")
    for name, value in summary.items():
        table.add_row(name, terminal.NO_DATA if value is None else str(value))
    console.print(table)
    gate = terminal.table("gate", "measured>", "required>", "met")
    for condition in evaluation.gate.conditions:
        gate.add_row(
            condition.name,
            terminal.NO_DATA if condition.measured is None else f"{condition.measured:g} %",
            "" if condition.required is None else f"> {condition.required:g} %",
            {True: "[green]yes[/green]", False: "[red]no[/red]", None: "[yellow]unmeasured[/yellow]"}[
                condition.met
            ],
        )
    console.print(gate)
    for condition in evaluation.gate.conditions:
        if condition.note:
            console.print(f"{condition.name}: {safe(condition.note)}")
    verdict = evaluation.gate.verdict
    console.print(f"\nverdict: [{_VERDICT_STYLES[verdict]}]{verdict}[/]")
    console.print(f"[dim]written to {safe(str(evaluation.stored.folder))}[/dim]")
