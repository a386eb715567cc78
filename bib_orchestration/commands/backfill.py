"""`bib backfill`: materialises assets in Dagster, here or on the running server."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.commands import DONE, FAILED, WRONG
from bib_orchestration.commands.arguments import add_command
from bib_orchestration.terminal import console, errors, safe, shown

if TYPE_CHECKING:
    from bib_orchestration.backfill import BackfillReport

_SERVER = "http://127.0.0.1:3000"
_LONG_FIGURE = 40
# Of an asset with more partitions than this, a backfill shows so many at either end.
_MOST_PARTITIONS, _ENDS = 15, 3
_MOST_WORDS = 3
# Figures that count what a run changed: 0 is nothing to tell, and a sum over partitions has a sense.
_CHANGES = frozenset(
    "added changed moved deleted updated removed skipped embedded texts_embedded documents_cut bad_lines".split()
)
# Figures that are for a page in the UI, and for `--json`.
_NOT_IN_TABLES = frozenset("avg_overlap_vs_baseline distinct_contents documents_cut generation".split())


def add(commands: Any) -> None:
    command = add_command(
        commands,
        "backfill",
        _run,
        "Materialise assets in Dagster for sources and days, here or on the running server.",
    )
    command.add_argument("--sources", metavar="NAMES", help="'all', or names joined by commas")
    command.add_argument(
        "--days",
        metavar="DAYS",
        help="'all', or DAY, FIRST..LAST, FIRST.., ..LAST, joined by commas; up to yesterday",
    )
    command.add_argument(
        "--assets", metavar="NAMES", help="only these, joined by commas; any asset of the definitions"
    )
    command.add_argument(
        "--full", action="store_true", help="ignore stored fingerprints: read and verify all"
    )
    command.add_argument(
        "--queue",
        action="store_true",
        help="hand it to the running server as an asset backfill, instead of making the runs here",
    )
    command.add_argument(
        "--server",
        metavar="URL",
        help=f"with --queue: where the server is (default: DAGSTER_URL, or {_SERVER})",
    )
    command.add_argument("--wait", action="store_true", help="with --queue: until the backfill has ended")


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    if not (parsed.sources or parsed.days or parsed.assets):
        return terminal.complain("say which: --sources all, or --days 2026-10-01..2026-10-31", WRONG)
    for option, given in (("--server", parsed.server), ("--wait", parsed.wait)):
        if given and not parsed.queue:
            return terminal.complain(f"{option} goes with --queue; without it the runs are made here", WRONG)

    from bib_orchestration.backfill import backfill
    from bib_orchestration.backfill_plan import plan_backfill
    from bib_orchestration.biblioteca.library import Library
    from bib_orchestration.build import build_definitions

    library = Library(settings)
    definitions = build_definitions(settings, library=library)
    plan = plan_backfill(
        settings,
        definitions,
        models=library.models,
        sources=parsed.sources,
        days=parsed.days,
        assets=parsed.assets.split(",") if parsed.assets else None,
    )
    for span in plan.left_out:
        terminal.note(f"--days: left out {span}")
    if parsed.queue:
        return _queue(parsed, settings, plan)
    report = backfill(
        settings,
        definitions,
        plan,
        full=parsed.full,
        on_run=lambda run: _show_backfill_run(run.assets, run.label),
    )
    made = [(each.asset, each.partition, each.figures) for each in report.materialised]
    terminal.print_result(
        parsed,
        {
            "materialised": [
                {"asset": asset, "partition": partition or None, "figures": figures}
                for asset, partition, figures in made
            ],
            "failures": [asdict(failure) for failure in report.failures],
            "checks": [asdict(check) for check in report.checks.values()],
            "not_made": [{"asset": asset, "partitions": label} for asset, label in report.not_made],
            "left_out": list(plan.left_out),
            "run_ids": report.run_ids,
        },
        lambda: show_backfill(made),
    )
    _show_checks(report)
    _show_failures([*map(str, report.failures)], report.not_made)
    return FAILED if report.failures else DONE


def _queue(parsed: argparse.Namespace, settings: Settings, plan: Any) -> int:
    from bib_orchestration.backfill import dagster_home
    from bib_orchestration.queued_backfill import DagsterServer, QueueError

    address = parsed.server or os.environ.get("DAGSTER_URL") or _SERVER
    server = DagsterServer(address)
    try:
        queued = server.launch(plan, full=parsed.full, home=dagster_home(settings))
        if not parsed.json:
            _show_queued(queued.id, queued.url)
        outcome = server.wait(queued, on_change=_show_queue_progress) if parsed.wait else None
    except QueueError as error:
        return terminal.complain(error, FAILED)
    except KeyboardInterrupt:
        return terminal.complain("interrupted; a backfill that was queued goes on", FAILED)
    if parsed.json:
        value = {"backfill_id": queued.id, "url": queued.url, "left_out": list(plan.left_out)}
        print(json.dumps(value | (asdict(outcome) if outcome else {}), ensure_ascii=False, indent=2))
    elif outcome:
        _show_outcome(outcome.status, outcome.assets)
    if outcome is None:
        return DONE
    _show_failures(outcome.failures)
    return DONE if outcome.succeeded else FAILED


def _show_backfill_run(assets: Sequence[str], partitions: str) -> None:
    """On a terminal, what is being made; nothing elsewhere."""
    if errors.is_terminal:
        for_what = f" for {partitions}" if partitions else ""
        errors.print(f"[dim]making {safe(', '.join(assets) + for_what)} …[/dim]")


def show_backfill(materialised: Sequence[tuple[str, str, Mapping[str, float | str]]]) -> None:
    """A row a partition, with its own figures; of an asset with many, the first, the last, and all in one."""
    table = terminal.table("asset", "partition", "rows>", "figures")
    shortened = False
    for asset, group in groupby(materialised, key=lambda row: row[0]):
        made = [(partition, figures) for _, partition, figures in group]
        few = len(made) <= _MOST_PARTITIONS
        for partition, figures in made if few else made[:_ENDS]:
            table.add_row(asset, partition, str(_rows(figures)), safe(_figures(figures)))
        if few:
            continue
        shortened = True
        table.add_row(asset, "…", "", f"{len(made) - 2 * _ENDS} more partitions")
        for partition, figures in made[-_ENDS:]:
            table.add_row(asset, partition, str(_rows(figures)), safe(_figures(figures)))
        rows = [count for _, figures in made if isinstance(count := _rows(figures), int)]
        summary = _summary([figures for _, figures in made])
        table.add_row(asset, f"all {len(made)}", str(sum(rows)) if rows else "", safe(summary), style="bold")
    console.print(table)
    if shortened:
        console.print("[dim]Shortened: each partition is in `--json`, and in Dagster's UI (`make ui`).[/dim]")


def _show_checks(report: BackfillReport) -> None:
    """The checks that did not pass. The gate's are left out: each day's verdict is in the table."""
    for check in report.checks.values():
        if check.check.startswith("gate_"):
            continue
        rows = "" if check.bad_rows is None else f": {check.bad_rows} rows, which are on its page in the UI"
        how = "[yellow]warned:[/yellow]" if check.severity == "warn" else "[bold red]not passed:[/bold red]"
        errors.print(f"{how} {safe(f'{check.asset}: {check.check}{rows}')}")


def _show_failures(failures: Sequence[str], not_made: Sequence[tuple[str, str]] = ()) -> None:
    """Why steps failed, and which assets were not made because of it, with their partitions."""
    for failure in failures:
        first, *more = shown(failure).split("\n")
        errors.print(f"[bold red]failed:[/bold red] {safe(first)}")
        for line in more:
            errors.print(f"    {line}", markup=False)
    for asset, partitions in not_made:
        for_what = f" ({partitions})" if partitions else ""
        errors.print(f"[yellow]not made:[/yellow] {safe(asset + for_what)}: what it needs failed")


def _show_queued(backfill_id: str, url: str) -> None:
    console.print(f"queued: backfill {safe(backfill_id)}, to be watched at {safe(url)}")
    # What follows may take minutes.
    sys.stdout.flush()


def _show_queue_progress(said: str) -> None:
    """On a terminal, how far a queued backfill is; nothing elsewhere."""
    if errors.is_terminal:
        errors.print(f"[dim]{safe(said)}[/dim]")


def _show_outcome(status: str, assets: Mapping[str, Mapping[str, int]]) -> None:
    """How many partitions of each asset a queued backfill made."""
    table = terminal.table("asset", "targeted>", "materialised>", "failed>")
    for asset, counts in assets.items():
        table.add_row(asset, *(str(counts[name]) for name in ("targeted", "materialised", "failed")))
    console.print(table)
    console.print(f"ended: {safe(status)}")


def _rows(figures: Mapping[str, float | str]) -> float | str:
    return figures.get("dagster/partition_row_count", figures.get("dagster/row_count", ""))


def _figures(figures: Mapping[str, float | str]) -> str:
    """A partition's figures; changes that were none are left out."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
        if _is_shown(name, value) and not (name in _CHANGES and not value)
    )


def _summary(listed: Sequence[Mapping[str, float | str]]) -> str:
    """Figures of many partitions: sums of changes, the span of other numbers, and words with their count."""
    said = []
    for name in dict.fromkeys(name for figures in listed for name in figures):
        values = [figures[name] for figures in listed if name in figures and _is_shown(name, figures[name])]
        numbers = [value for value in values if not isinstance(value, str)]
        words = Counter(value for value in values if isinstance(value, str))
        if numbers and name in _CHANGES:
            if any(numbers):
                said.append(f"{name} {sum(numbers):g}")
        elif numbers:
            low, high = min(numbers), max(numbers)
            said.append(f"{name} {low:g}" if low == high else f"{name} {low:g} to {high:g}")
        if 0 < len(words) <= _MOST_WORDS:
            said.append(f"{name} " + ", ".join(f"{word} ({count})" for word, count in words.most_common()))
    return ", ".join(said)


def _is_shown(name: str, value: float | str) -> bool:
    if name.startswith("dagster/") or name in _NOT_IN_TABLES:
        return False
    return value != "" and len(str(value)) < _LONG_FIGURE
