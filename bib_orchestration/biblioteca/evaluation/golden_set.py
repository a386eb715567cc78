"""The golden set of a day: the questions that an A/B run asks. The SQL model `golden_set` extracts it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.sql_models import ModelReport, SqlModel, materialise


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The questions of a day, newest first, and a hash that tells whether two sets are the same."""

    day: date
    questions: tuple[str, ...]
    golden_hash: str | None


def extract(
    warehouse: Warehouse, model: SqlModel, day: date, *, questions: int, timezone: str
) -> ModelReport:
    """Extract the golden set of a day: its model's rows of that day are replaced."""
    return materialise(warehouse, model, day=day, timezone=timezone, values={"questions": questions})


def golden_set(warehouse: Warehouse, day: date) -> GoldenSet:
    """The golden set of a day as it was extracted; without questions when there were none."""
    with warehouse.read() as connection:
        rows = connection.execute(
            "SELECT question, golden_hash FROM golden_set WHERE day = $day ORDER BY rank", {"day": day}
        ).fetchall()
    return GoldenSet(day, tuple(row[0] for row in rows), rows[0][1] if rows else None)


def today(timezone: str) -> date:
    """The day that it is now in that time zone."""
    return datetime.now(ZoneInfo(timezone)).date()


def yesterday(timezone: str) -> date:
    """The last whole day in that time zone."""
    return today(timezone) - timedelta(days=1)
