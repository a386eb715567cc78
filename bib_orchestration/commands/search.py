"""`bib search`: finds the chunks for a question."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.commands import DONE, WRONG
from bib_orchestration.commands.arguments import add_command, add_retrieval_options
from bib_orchestration.terminal import console, safe, shown

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.retrieval.chunk import Retrieval, RetrievedChunk

_EXCERPT = 400


def add(commands: Any) -> None:
    command = add_command(commands, "search", _run, "Find the chunks for a question.")
    command.add_argument("question", help="what is asked")
    command.add_argument("--ranking", choices=["vector", "hybrid"], help="how to rank (default: bib.toml's)")
    command.add_argument(
        "--trim", action=argparse.BooleanOptionalAction, help="keep only the sentences that matter"
    )
    add_retrieval_options(command)


def _run(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration.biblioteca.retrieval.retrieve import Filters, RetrievalOptions, retrieve

    if not parsed.question.strip():
        return terminal.complain("the question is blank; ask something", WRONG)
    asked = {
        "ranking": parsed.ranking,
        "trim": parsed.trim,
        "trim_mode": parsed.trim_mode,
        "trim_threshold": parsed.threshold,
        "trim_min_sentences": parsed.min_sentences,
        "trim_window": parsed.window,
    }
    options = replace(
        RetrievalOptions.of(settings.retrieval),
        **{name: value for name, value in asked.items() if value is not None},
    )
    library = terminal.library(settings)
    top_k = settings.retrieval.top_k if parsed.top_k is None else parsed.top_k
    filters = Filters(source_type=parsed.source_type, app=parsed.app)
    index = library.index.snapshot()
    found = retrieve(library.question(parsed.question, index), top_k, options, filters, index=index)
    if not found.chunks:
        _hint_at_filters(parsed, settings)
    terminal.print_result(
        parsed,
        _search_json(parsed.question, found),
        lambda: _show_search(found, _line_numbers(settings, found)),
    )
    return DONE


def _hint_at_filters(parsed: argparse.Namespace, settings: Settings) -> None:
    """A filter that nothing in bib.toml can match is most likely a slip of the pen."""
    for option, asked, known in (
        ("--source-type", parsed.source_type, {source.source_type for source in settings.sources}),
        ("--app", parsed.app, {source.app for source in settings.sources if source.app}),
    ):
        if asked is not None and asked not in known:
            there = ", ".join(sorted(known)) or "none"
            terminal.complain(f"{option}: no source has {asked!r}; there are: {there}", WRONG)


def _search_json(question: str, found: Retrieval) -> dict[str, Any]:
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


def _line_numbers(settings: Settings, found: Retrieval) -> dict[tuple[str, str, str], int]:
    """The first line of each chunk shown, by (content id, source, path), from the published warehouse."""
    from bib_orchestration.biblioteca.warehouse.connection import Warehouse, read_published

    with read_published(Warehouse(settings.warehouse_address, settings.locks)) as connection:
        if connection is None:
            return {}
        rows = connection.execute(
            "SELECT content_id, source, path, min(line_start) FROM bib_chunks"
            " WHERE content_id IN (SELECT unnest($ids::VARCHAR[])) GROUP BY ALL",
            {"ids": [chunk.content_id for chunk in found.chunks]},
        ).fetchall()
    return {(content_id, source, path): line for content_id, source, path, line in rows}


def _show_search(found: Retrieval, lines: dict[tuple[str, str, str], int]) -> None:
    from bib_orchestration.biblioteca.corpus.chunks import heading_line

    if not found.chunks:
        console.print("nothing found")
        return
    for number, chunk in enumerate(found.chunks, start=1):
        line = lines.get((chunk.content_id, chunk.source, chunk.path))
        place = f"{chunk.source}/{chunk.path}" + (f":{line}" if line else "")
        console.print(
            f"[bold]{number}. {safe(place)}[/bold]  [dim]score {chunk.score:.3f}, cosine {chunk.cosine:.3f}[/dim]"
        )
        if heading := heading_line(chunk.title, chunk.heading_path):
            console.print(f"   [cyan]{safe(heading)}[/cyan]")
        text = chunk.text if len(chunk.text) <= _EXCERPT else chunk.text[:_EXCERPT].rstrip() + " …"
        for text_line in text.split("\n"):
            # Not as markup: a backslash at a line's end would come out twice.
            console.print(f"   {shown(text_line)}", markup=False)
        console.print()
    trimmed = f", trimmed from {found.tokens_before}" if found.tokens_in_context < found.tokens_before else ""
    console.print(f"{found.tokens_in_context} tokens in context{trimmed}")
