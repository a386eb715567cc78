"""The two kinds of partition: sources (by name) and days (in the schedules' time zone).

One definition serves all kinds of source: a job over assets of two definitions does not load.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.circuits import REFRESHED, ordered_sources


def source_partitions(settings: Settings) -> dg.StaticPartitionsDefinition:
    """A partition a source."""
    return dg.StaticPartitionsDefinition([source.name for source in ordered_sources(settings)])


def day_partitions(settings: Settings) -> dg.DailyPartitionsDefinition:
    """A partition a whole day, from `evaluation.first_day` to yesterday. Day D holds the questions up to the
    end of D; today, still growing, is evaluated by the job `eval_retrieval`."""
    return dg.DailyPartitionsDefinition(
        start_date=settings.evaluation.first_day.isoformat(), timezone=settings.schedules.timezone
    )


def keys_of(context: dg.AssetExecutionContext) -> list[str]:
    """The partitions that a run is for. A range that holds none fails, or it would end green and undone."""
    keys = list(context.partition_keys)
    if not keys:
        asked = context.partition_key_range
        raise dg.Failure(
            f"no partition from {asked.start} to {asked.end}: a range goes from the earlier to the later",
            allow_retries=False,
        )
    return keys


def range_tags(keys: Iterable[str]) -> dict[str, str]:
    """Tags that make one run of a range of partitions, given all keys of the range in order."""
    listed = list(keys)
    return {
        "dagster/asset_partition_range_start": listed[0],
        "dagster/asset_partition_range_end": listed[-1],
    }


def refresh_config(assets: Iterable[str], *, full: bool) -> dict[str, Any]:
    """The run config that tells those of `assets` that can be told whether to read and verify all."""
    return {"ops": {name: {"config": {"full": full}} for name in assets if name in REFRESHED}}
