"""What the page of a SQL model shows beside its columns: its first rows, and for the models that ship with
the project, numbers worth a series and a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bib_orchestration import plots
from bib_orchestration.biblioteca.warehouse.connection import rows_of
from bib_orchestration.displays import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PREVIEW_ROWS = 20
PREVIEW_CHARS = 100
# Days and runs that a plot over time goes back.
PLOTTED = 90


def page_of(model: str, connection: DuckDBPyConnection, day: str | None) -> dict[str, Any]:
    """The metadata of a model's page, from its table; of one day's rows for a model by day."""
    scope = f" WHERE day = DATE '{day}'" if day else ""
    rows = rows_of(connection, f'SELECT * FROM "{model}"{scope} LIMIT {PREVIEW_ROWS}')
    page: dict[str, Any] = (
        {"first_rows": table(rows, list(rows[0]), most_chars=PREVIEW_CHARS)} if rows else {}
    )
    if extras := _EXTRAS.get(model):
        page |= extras(connection)
    return page


def _duplicates(connection: DuckDBPyConnection) -> dict[str, Any]:
    rows = rows_of(connection, "FROM duplicates_saved ORDER BY source <> '(all)', source")
    if not rows:
        return {}
    numbers = {name: rows[0][name] for name in ("embeddings_saved", "tokens_saved", "saved_pct")}
    plot = plots.stacked_bars(
        [row["source"] for row in rows],
        {
            "distinct contents": [row["contents"] for row in rows],
            "copies": [row["embeddings_saved"] for row in rows],
        },
        title="Occurrences of chunks, by source",
        unit="occurrences",
    )
    return {**numbers, "duplicates": plot}


def _reduction_by_day(connection: DuckDBPyConnection) -> dict[str, Any]:
    # Of each day the newest run; runs on questions of their own have no day.
    rows = rows_of(
        connection,
        "FROM ab_history WHERE day IS NOT NULL"
        " QUALIFY row_number() OVER (PARTITION BY day ORDER BY ran_at DESC, run_id DESC) = 1"
        f" ORDER BY day DESC LIMIT {PLOTTED}",
    )
    if not rows:
        return {}
    plot = plots.lines_by_day(
        [row["day"] for row in rows],
        {"token reduction": [row["token_reduction_pct"] for row in rows]},
        title="Token reduction by day of the golden set (newest run of each)",
        unit="%",
    )
    return {"reduction_by_day": plot}


def _questions_asked(connection: DuckDBPyConnection) -> dict[str, Any]:
    rows = rows_of(connection, f"FROM questions_by_day ORDER BY day DESC LIMIT {PLOTTED}")
    if not rows:
        return {}
    plot = plots.lines_by_day(
        [row["day"] for row in rows],
        {
            "questions": [row["questions"] for row in rows],
            "different ones": [row["different_questions"] for row in rows],
        },
        title="Questions by day",
        unit="questions",
    )
    return {"questions_asked": plot}


def _sources_behind(connection: DuckDBPyConnection) -> dict[str, Any]:
    behind = connection.sql("SELECT count(*) FROM index_age WHERE is_behind").fetchall()[0][0]
    return {"sources_behind": behind}


def _corpus_totals(connection: DuckDBPyConnection) -> dict[str, Any]:
    totals = rows_of(
        connection,
        "SELECT sum(documents)::BIGINT AS documents, sum(chunks)::BIGINT AS chunks, sum(tokens)::BIGINT AS tokens,"
        " sum(skipped_files)::BIGINT AS skipped_files, count(error) AS failing_sources FROM corpus_health",
    )[0]
    return {name: value for name, value in totals.items() if value is not None}


_EXTRAS: Mapping[str, Callable[[DuckDBPyConnection], dict[str, Any]]] = {
    "ab_history": _reduction_by_day,
    "corpus_health": _corpus_totals,
    "duplicates_saved": _duplicates,
    "index_age": _sources_behind,
    "questions_by_day": _questions_asked,
}
