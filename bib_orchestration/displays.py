"""Metadata for the UI: bounded tables, column schemas and lineage. An asset page must stay quick, whatever
the run did. Plots are in `plots`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from bib_orchestration import plots
from bib_orchestration.biblioteca.warehouse.column_lineage import Lineage, Origin
from bib_orchestration.biblioteca.warehouse.schema import NOTES, TABLES

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.evaluating import Evaluation
    from bib_orchestration.biblioteca.evaluation.ab_test import AbSettings
    from bib_orchestration.biblioteca.evaluation.gate import Gate

MOST_ROWS = 50
MOST_COLUMNS = 30
MOST_CHARS = 300
# What Markdown takes for more than text: escapes, code, emphasis, links, images, HTML, entities, cells.
_MARKDOWN = re.compile(r"[\\`*\[\]<&~|]|(?<![^\W_])_|_(?![^\W_])")


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, most_chars: int = MOST_CHARS
) -> dg.MarkdownMetadataValue:
    """Rows as a table of at most MOST_ROWS rows and MOST_COLUMNS columns; what was left out is said below it.

    A cell longer than `most_chars` is cut. Values are shown as they are: what would be Markdown or HTML in them
    is escaped.
    """
    shown = columns[:MOST_COLUMNS]
    lines = [_line(shown, most_chars), "| " + " | ".join(["---"] * len(shown)) + " |"]
    lines += [_line([row.get(column) for column in shown], most_chars) for row in rows[:MOST_ROWS]]
    left_out = {"more": len(rows) - MOST_ROWS, "columns more": len(columns) - MOST_COLUMNS}
    said = [f"\n\n… and {count} {what}" for what, count in left_out.items() if count > 0]
    return dg.MetadataValue.md("\n".join(lines) + "".join(said))


def table_schema(name: str, lineage: Mapping[str, Lineage] | None = None) -> dg.TableSchema:
    """The columns of one of the warehouse's own tables."""
    return column_schema(TABLES[name], NOTES[name], lineage)


def column_schema(
    columns: Mapping[str, str],
    notes: Mapping[str, str] | None = None,
    lineage: Mapping[str, Lineage] | None = None,
) -> dg.TableSchema:
    """Columns, their types, what `notes` say of them, and where they come from.

    Dagster's own web server keeps a column's lineage without showing it, so the description tells it too; one
    that is unknown says so, and why.
    """
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name,
                type=kind,
                description=" ".join(
                    said for said in ((notes or {}).get(name), _whence((lineage or {}).get(name))) if said
                )
                or None,
            )
            for name, kind in columns.items()
        ]
    )


def _whence(lineage: Lineage | None) -> str | None:
    if lineage is None:
        return None
    if lineage.unknown:
        return f"(lineage unknown: {lineage.unknown})"
    return f"← {', '.join(map(str, lineage.origins))}" if lineage.origins else None


def column_lineage(lineage: Mapping[str, Lineage]) -> dg.TableColumnLineage:
    """Where columns come from, for Dagster. The origins' tables are assets by name."""
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(asset_key=dg.AssetKey(origin.table), column_name=origin.column)
                for origin in known.origins
            ]
            for column, known in lineage.items()
            if known.origins
        }
    )


def lineage_from(asset: str, origins: Mapping[str, Sequence[str]]) -> dict[str, Lineage]:
    """The lineage of columns that are made of those of one asset, by our own account."""
    return {
        column: Lineage(tuple(Origin(asset, name) for name in names)) for column, names in origins.items()
    }


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
        "gate": _gate(evaluation.gate),
        **_tokens_per_question(evaluation),
        "summary": dg.MetadataValue.json(summary),
        "results": table(rows, ["question", "variant", "tokens", "tokens_before", "top_score", "overlap"]),
        "run": dg.MetadataValue.path(str(evaluation.stored.folder)),
    }


def _gate(gate: Gate) -> dg.MarkdownMetadataValue:
    """The gate's conditions as a table, and what is to be said of them below it: a column would be narrow."""
    conditions = [
        {
            "condition": condition.name,
            "measured": condition.measured,
            "required": None if condition.required is None else f"> {condition.required:g}",
            "met": {True: "yes", False: "no", None: "unmeasured"}[condition.met],
        }
        for condition in gate.conditions
    ]
    notes = [f"`{condition.name}`: {condition.note}" for condition in gate.conditions if condition.note]
    listed = table(conditions, ["condition", "measured", "required", "met"]).value or ""
    return dg.MetadataValue.md("\n\n".join([listed, *notes]))


def _tokens_per_question(evaluation: Evaluation) -> dict[str, dg.MarkdownMetadataValue]:
    """The plot of whole against trimmed chunks, the largest saving first; nothing when there is no pair."""
    from bib_orchestration.biblioteca.evaluation.metrics import BASELINE, TRIM

    by_variant = {
        variant: {
            result.question: result.tokens for result in evaluation.run.results if result.variant == variant
        }
        for variant in (BASELINE, TRIM)
    }
    whole, trimmed = by_variant[BASELINE], by_variant[TRIM]
    pairs = sorted(
        ((question, whole[question], trimmed[question]) for question in whole if question in trimmed),
        key=lambda pair: (pair[2] - pair[1], pair[0]),
    )
    if not pairs:
        return {}
    questions, before, after = zip(*pairs, strict=True)
    plot = plots.before_and_after(
        questions,
        before,
        after,
        names=("whole chunks", "trimmed"),
        title=f"Tokens per question ({_trimming(evaluation.run.settings)})",
        unit="tokens",
    )
    return {"tokens_per_question": plot}


def _line(cells: Sequence[Any], most_chars: int) -> str:
    return "| " + " | ".join(_cell(cell, most_chars) for cell in cells) + " |"


def _cell(value: Any, most_chars: int) -> str:
    if value is None:
        return "no data"
    text = " ".join(str(value).split())
    shown = text if len(text) <= most_chars else text[: most_chars - 1] + "…"
    return _MARKDOWN.sub(r"\\\g<0>", shown)


def _trimming(settings: AbSettings) -> str:
    threshold = (
        f"threshold {settings.trim_threshold:g}" if settings.trim_mode == "cosine" else settings.trim_mode
    )
    return f"{threshold}, window {settings.trim_window}"
