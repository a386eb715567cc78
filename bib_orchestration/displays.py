"""Metadata for the UI: bounded tables and lists. An asset page must stay quick, whatever the run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

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
    return dg.TableSchema(columns=[dg.TableColumn(column, type=kind) for column, kind in TABLES[name].items()])


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return "no data"
    return " ".join(str(value).split()).replace("|", "\\|")
