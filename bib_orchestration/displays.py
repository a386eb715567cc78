"""Metadata for the UI: bounded tables and lists. An asset page must stay quick, whatever the run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from bib_orchestration.biblioteca.evaluating import Evaluation
from bib_orchestration.biblioteca.warehouse.schema import TABLES

MOST_ROWS = 50


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Rows as a table of at most MOST_ROWS rows; what was left out is said below it."""
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([row.get(column) for column in columns]) for row in rows[:MOST_ROWS]]
    left_out = len(rows) - MOST_ROWS
    return dg.MetadataValue.md("\n".join(lines) + (f"\n\n… and {left_out} more" if left_out > 0 else ""))


def table_schema(name: str) -> dg.TableSchema:
    """The columns of one of the warehouse's own tables."""
    return dg.TableSchema(
        columns=[dg.TableColumn(column, type=kind) for column, kind in TABLES[name].items()]
    )


def evaluation_metadata(evaluation: Evaluation) -> dict[str, Any]:
    """What the UI shows of an A/B run."""
    summary = evaluation.run.summary
    # A number that was not measured is left out: a series must not have a zero that pretends.
    numbers = {
        name: summary[name]
        for name in (
            "avg_tokens_baseline",
            "avg_tokens_trim",
            "token_reduction_pct",
            "avg_overlap_vs_baseline",
        )
        if summary[name] is not None
    }
    conditions = [
        {
            "condition": condition.name,
            "measured": condition.measured,
            "required": None if condition.required is None else f"> {condition.required:g}",
            "met": {True: "yes", False: "no", None: "unmeasured"}[condition.met],
            "note": condition.note,
        }
        for condition in evaluation.gate.conditions
    ]
    rows = [
        {
            "question": result.question,
            "variant": result.variant,
            "tokens": result.tokens,
            "tokens_before": result.tokens_before,
            "top_score": result.top_score,
            "overlap": result.overlap_vs_baseline,
        }
        for result in evaluation.run.results
    ]
    return {
        "dagster/partition_row_count": len(rows),
        "questions": summary["questions"],
        **numbers,
        "verdict": evaluation.gate.verdict,
        "gate": table(conditions, ["condition", "measured", "required", "met", "note"]),
        "summary": dg.MetadataValue.json(summary),
        "results": table(rows, ["question", "variant", "tokens", "tokens_before", "top_score", "overlap"]),
        "run": dg.MetadataValue.path(str(evaluation.stored.folder)),
    }


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return "no data"
    return " ".join(str(value).split()).replace("|", "\\|")
