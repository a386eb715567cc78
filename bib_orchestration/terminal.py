"""What the command line prints: tables for people, plain values for programs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bib_orchestration.biblioteca.corpus.chunks import heading_line
from bib_orchestration.biblioteca.evaluating import Evaluation
from bib_orchestration.biblioteca.indexing import IndexingReport
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.biblioteca.retrieval.chunk import Retrieval, RetrievedChunk
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, read_published
from bib_orchestration.biblioteca.warehouse.query_import import ImportReport
from bib_orchestration.biblioteca.warehouse.query_log import LoadReport
from bib_orchestration.circuits import CIRCUITS, cron_of, runs_anything

NO_DATA = "no data"
# Control characters (escape sequences among them) and those that change the direction of writing.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MOST_PROBLEMS = 20
_EXCERPT = 400
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
_VERDICT_STYLES = {"go": "bold green", "no-go": "bold red", "cannot conclude": "bold yellow"}

# Without emoji: `:key:` in a path or in code is what it says.
_console = Console(highlight=False, soft_wrap=True, emoji=False)
_errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def library(settings: Settings) -> Library:
    """The knowledge base, telling the terminal when it waits for another process."""
    return Library(settings, on_wait=lambda message: _errors.print(f"[dim]{_safe(message)}[/dim]"))


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
    with Progress(*columns, console=_errors, transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")

        def update(done: int, total: int) -> None:
            elapsed = bar.tasks[task].elapsed or 0
            rate = f"{done / elapsed:.0f} {unit}/s" if done and elapsed else ""
            bar.update(task, completed=done, total=total, rate=rate)

        yield update


# --- index


def index_json(report: IndexingReport) -> dict[str, Any]:
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


def show_index(report: IndexingReport) -> None:
    table = _table("source", "documents>", "chunks>", "added>", "changed>", "moved>", "deleted>", "skipped>")
    for source, chunks in zip(report.sources, report.chunks, strict=True):
        counts = (source.added, source.changed, source.moved, source.deleted, source.problems)
        table.add_row(
            source.source, str(source.documents), str(chunks.chunks), *(str(len(c)) for c in counts)
        )
    _console.print(table)
    index = report.index
    _console.print(
        f"index: {index.contents} contents; {index.added} added, {index.updated} updated, "
        f"{index.deleted} deleted; {index.embedded} embedded ({index.texts} texts given to the model)"
        + (f"; {index.generation} went live" if index.went_live else "")
    )
    if report.queries.added or report.runs.added:
        _console.print(f"loaded: {report.queries.added} logged questions, {report.runs.added} A/B runs")
    for line in [*report.queries.bad_lines, *report.runs.unreadable][:_MOST_PROBLEMS]:
        _console.print(f"[yellow]left out[/yellow] {_safe(line)}")
    for name in report.removed_sources:
        _console.print(f"removed: source {name}, which bib.toml no longer names")
    for source in report.sources:
        _show_problems(source.source, [(p.path, p.reason) for p in source.problems], "skipped")
        _show_problems(source.source, source.warnings, "read, but")
    for error in report.errors:
        _errors.print(f"[bold red]failed:[/bold red] {_safe(error)}")


def _show_problems(source: str, problems: list[tuple[str, str]], what: str) -> None:
    for path, reason in problems[:_MOST_PROBLEMS]:
        _console.print(f"[yellow]{what}[/yellow] {_safe(source)}/{_safe(path)}: {_safe(reason)}")
    if len(problems) > _MOST_PROBLEMS:
        _console.print(f"… and {len(problems) - _MOST_PROBLEMS} more in {_safe(source)}")


# --- search


def search_json(question: str, found: Retrieval) -> dict[str, Any]:
    """What was found, for programs."""
    return {
        "question": question,
        "chunks": [_chunk_json(chunk) for chunk in found.chunks],
        "tokens_in_context": found.tokens_in_context,
        "tokens_before": found.tokens_before,
        "top_score": found.top_score,
    }


def _chunk_json(chunk: RetrievedChunk) -> dict[str, Any]:
    names = (
        "content_id",
        "score",
        "cosine",
        "source",
        "path",
        "title",
        "heading_path",
        "tokens",
        "text",
        "kept",
    )
    return {name: getattr(chunk, name) for name in names}


def line_numbers(settings: Settings, found: Retrieval) -> dict[tuple[str, str, str], int]:
    """The first line of each chunk shown, by (content id, source, path), from the published warehouse."""
    with read_published(Warehouse(settings.warehouse_address, settings.locks)) as connection:
        if connection is None:
            return {}
        rows = connection.execute(
            "SELECT content_id, source, path, min(line_start) FROM bib_chunks"
            " WHERE content_id IN (SELECT unnest($ids::VARCHAR[])) GROUP BY ALL",
            {"ids": [chunk.content_id for chunk in found.chunks]},
        ).fetchall()
    return {(content_id, source, path): line for content_id, source, path, line in rows}


def show_search(found: Retrieval, lines: dict[tuple[str, str, str], int]) -> None:
    if not found.chunks:
        _console.print("nothing found")
        return
    for number, chunk in enumerate(found.chunks, start=1):
        line = lines.get((chunk.content_id, chunk.source, chunk.path))
        place = f"{chunk.source}/{chunk.path}" + (f":{line}" if line else "")
        _console.print(
            f"[bold]{number}. {_safe(place)}[/bold]  [dim]score {chunk.score:.3f}, cosine {chunk.cosine:.3f}[/dim]"
        )
        if heading := heading_line(chunk.title, chunk.heading_path):
            _console.print(f"   [cyan]{_safe(heading)}[/cyan]")
        text = chunk.text if len(chunk.text) <= _EXCERPT else chunk.text[:_EXCERPT].rstrip() + " …"
        for text_line in text.split("\n"):
            # Not as markup: a backslash at a line's end would come out twice.
            _console.print(f"   {_shown(text_line)}", markup=False)
        _console.print()
    trimmed = f", trimmed from {found.tokens_before}" if found.tokens_in_context < found.tokens_before else ""
    _console.print(f"{found.tokens_in_context} tokens in context{trimmed}")


# --- eval


def show_evaluation(evaluation: Evaluation) -> None:
    summary = evaluation.run.summary
    if not summary["questions"]:
        _console.print("no questions: `bib log import` adds logged ones, --question takes one\n")
    table = _table("summary", "value>")
    for name, value in summary.items():
        table.add_row(name, NO_DATA if value is None else str(value))
    _console.print(table)
    gate = _table("gate", "measured>", "required>", "met")
    for condition in evaluation.gate.conditions:
        gate.add_row(
            condition.name,
            NO_DATA if condition.measured is None else f"{condition.measured:g} %",
            "" if condition.required is None else f"> {condition.required:g} %",
            {True: "[green]yes[/green]", False: "[red]no[/red]", None: "[yellow]unmeasured[/yellow]"}[
                condition.met
            ],
        )
    _console.print(gate)
    for condition in evaluation.gate.conditions:
        if condition.note:
            _console.print(f"{condition.name}: {_safe(condition.note)}")
    verdict = evaluation.gate.verdict
    _console.print(f"\nverdict: [{_VERDICT_STYLES[verdict]}]{verdict}[/]")
    _console.print(f"[dim]written to {_safe(str(evaluation.stored.folder))}[/dim]")


# --- status


def show_status(status: dict[str, Any], settings: Settings) -> None:
    _console.print(f"[dim]{_safe(status['config'])}, state in {_safe(status['home'])}[/dim]\n")
    table = _table("source", "type", "documents>", "chunks>", "tokens>", "changed (UTC)", "commit", "state")
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
    _console.print(table)
    for row in status["sources"]:
        if row["error"]:
            _console.print(f"[red]failed:[/red] {_safe(row['error'])}")
        _show_problems(row["source"], [(p["path"], p["reason"]) for p in row["problems"]], "skipped")
    _show_index_state(status["index"])
    queries = status["queries"]
    if queries and queries["questions"]:
        newest = _short_time(queries["newest"])
        _console.print(f"questions: {queries['questions']} logged, the newest of {newest} UTC")
    else:
        _console.print("questions: none logged yet")
    run = status["evaluation"]
    _console.print(
        f"evaluation: {run['verdict'] or NO_DATA} on {run['questions']} questions ({run['run_id']})"
        if run
        else "evaluation: none yet"
    )
    _show_circuits(settings)


def _show_index_state(index: dict[str, Any] | None) -> None:
    if index is None:
        _console.print("index: none yet; `bib index` makes it")
        return
    _console.print(
        f"index: {index['contents']} contents by {_safe(index['model'])} {_safe(index['revision'][:12])} "
        f"({index['dimension']} dimensions), {index['table']}"
    )


def _show_circuits(settings: Settings) -> None:
    schedules = settings.schedules
    state = "on" if schedules.enabled else "off; `schedules.enabled = true` in bib.toml turns them on"
    _console.print(f"\ncircuits ({schedules.timezone}; {state}):")
    table = _table("circuit", "when", "refreshes")
    for circuit in CIRCUITS:
        if runs_anything(circuit, settings):
            table.add_row(circuit.name, cron_of(circuit, settings), circuit.refreshes)
    _console.print(table)
    idle = [c.name for c in CIRCUITS if c.built and not runs_anything(c, settings)]
    if idle:
        _console.print(f"without sources here: {', '.join(idle)}")


# --- backfill


def show_backfill_run(assets: Sequence[str], partitions: str) -> None:
    """On a terminal, what is being made; nothing elsewhere."""
    if _errors.is_terminal:
        for_what = f" for {partitions}" if partitions else ""
        _errors.print(f"[dim]making {_safe(', '.join(assets) + for_what)} …[/dim]")


def show_backfill(materialised: Sequence[tuple[str, str, Mapping[str, float | str]]]) -> None:
    """A row a partition, with its own figures; of an asset with many, the first, the last, and all in one."""
    table = _table("asset", "partition", "rows>", "figures")
    shortened = False
    for asset, group in groupby(materialised, key=lambda row: row[0]):
        made = [(partition, figures) for _, partition, figures in group]
        few = len(made) <= _MOST_PARTITIONS
        for partition, figures in made if few else made[:_ENDS]:
            table.add_row(asset, partition, str(_rows(figures)), _safe(_figures(figures)))
        if few:
            continue
        shortened = True
        table.add_row(asset, "…", "", f"{len(made) - 2 * _ENDS} more partitions")
        for partition, figures in made[-_ENDS:]:
            table.add_row(asset, partition, str(_rows(figures)), _safe(_figures(figures)))
        rows = [count for _, figures in made if isinstance(count := _rows(figures), int)]
        summary = _summary([figures for _, figures in made])
        table.add_row(asset, f"all {len(made)}", str(sum(rows)) if rows else "", _safe(summary), style="bold")
    _console.print(table)
    if shortened:
        _console.print(
            "[dim]Shortened: each partition is in `--json`, and in Dagster's UI (`make ui`).[/dim]"
        )


def show_failures(failures: Sequence[str], not_made: Sequence[tuple[str, str]] = ()) -> None:
    """Why steps failed, and which assets were not made because of it, with their partitions."""
    for failure in failures:
        _errors.print(f"[bold red]failed:[/bold red] {_safe(failure)}")
    for asset, partitions in not_made:
        for_what = f" ({partitions})" if partitions else ""
        _errors.print(f"[yellow]not made:[/yellow] {_safe(asset + for_what)}: what it needs failed")


def show_queued(backfill_id: str, url: str) -> None:
    _console.print(f"queued: backfill {_safe(backfill_id)}, to be watched at {_safe(url)}")
    # What follows may take minutes.
    sys.stdout.flush()


def show_queue_progress(said: str) -> None:
    """On a terminal, how far a queued backfill is; nothing elsewhere."""
    if _errors.is_terminal:
        _errors.print(f"[dim]{_safe(said)}[/dim]")


def show_outcome(status: str, assets: Mapping[str, Mapping[str, int]]) -> None:
    """How many partitions of each asset a queued backfill made."""
    table = _table("asset", "targeted>", "materialised>", "failed>")
    for asset, counts in assets.items():
        table.add_row(asset, *(str(counts[name]) for name in ("targeted", "materialised", "failed")))
    _console.print(table)
    _console.print(f"ended: {_safe(status)}")


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


# --- log


def import_json(imported: ImportReport, loaded: LoadReport) -> dict[str, Any]:
    """What an import did, for programs."""
    return {
        "file": str(imported.file),
        "questions": imported.questions,
        "added": loaded.added,
        "total": loaded.total,
        "bad_rows": [*imported.bad_rows, *loaded.bad_lines],
    }


def show_import(imported: ImportReport, loaded: LoadReport) -> None:
    _console.print(
        f"{imported.questions} questions in the file, {loaded.added} of them new; "
        f"{loaded.total} in the query log"
    )
    bad = [*imported.bad_rows, *loaded.bad_lines]
    for line in bad[:_MOST_PROBLEMS]:
        _console.print(f"[yellow]left out[/yellow] {_safe(line)}")
    if len(bad) > _MOST_PROBLEMS:
        _console.print(f"… and {len(bad) - _MOST_PROBLEMS} more")


# --- common


def _table(*columns: str) -> Table:
    """A table; a column whose name ends in ">" is right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column.endswith(">")
        table.add_column(column.rstrip(">"), justify="right" if right else "left", overflow="fold")
    return table


def _safe(text: str) -> str:
    """A value in a line of our own: neither markup, nor a line end, nor what steers a terminal."""
    return escape(_shown(text).replace("\n", "\N{SYMBOL FOR NEWLINE}").replace("\t", " "))


def _shown(text: str) -> str:
    """A text without what steers a terminal or turns its writing round."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", text)


def _short_time(value: str | None) -> str:
    return value.replace("T", " ")[:16] if value else ""
