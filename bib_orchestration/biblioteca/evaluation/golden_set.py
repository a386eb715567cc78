"""The golden set of a day: the questions that an A/B run asks. The SQL model `golden_set` extracts it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel
from bib_orchestration.biblioteca.warehouse.sql_tables import query, table_exists


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The questions of a day, newest first, and a hash that tells whether two sets are the same."""

    day: date
    questions: tuple[str, ...]
    golden_hash: str | None


def newest_questions(
    warehouse: Warehouse, model: SqlModel, day: date, *, questions: int, timezone: str
) -> GoldenSet:
    """The golden set of a day, asked for without extracting it: the table is left as it is."""
    rows = query(warehouse, model, day=day, timezone=timezone, values={"questions": questions})
    ordered = sorted(rows, key=lambda row: row["rank"])
    return GoldenSet(
        day, tuple(row["question"] for row in ordered), ordered[0]["golden_hash"] if ordered else None
    )


def golden_set(warehouse: Warehouse, day: date) -> GoldenSet:
    """The golden set of a day as it was extracted; without questions when there were none, and also when the
    model `golden_set` has not run for that day: the table cannot tell these apart, `newest_questions` can."""
    with warehouse.read() as connection:
        if not table_exists(connection, "golden_set"):
            return GoldenSet(day, (), None)
        rows = connection.execute(
            "SELECT question, golden_hash FROM golden_set WHERE day = $day ORDER BY rank", {"day": day}
        ).fetchall()
    return GoldenSet(day, tuple(row[0] for row in rows), rows[0][1] if rows else None)


def today(timezone: str) -> date:
    """The day that it is now in that time zone."""
    return datetime.now(ZoneInfo(timezone)).date()
