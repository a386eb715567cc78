"""Backfills from the command line: a range of partitions materialised in this process, and waited for.

Runs are recorded in Dagster's home, so the UI shows them like any other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg

from bib_orchestration.biblioteca.settings import Settings, SettingsError
from bib_orchestration.build import build_definitions
from bib_orchestration.circuits import CORPUS, EVALUATION, ordered_sources
from bib_orchestration.partitions import day_partitions, range_tags, refresh_config

INSTANCE_SETTINGS = Path(__file__).resolve().parent / "dagster.yaml"


@dataclass(frozen=True, slots=True)
class Materialised:
    """An asset's partition ("" for an asset without) that was materialised, and its figures."""

    asset: str
    partition: str
    figures: dict[str, float | str]


@dataclass
class BackfillReport:
    """What a backfill did, assets in the order they were made, and why steps of it failed."""

    materialised: list[Materialised] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def backfill(
    settings: Settings,
    *,
    sources: str | None = None,
    days: str | None = None,
    assets: Sequence[str] | None = None,
    full: bool = False,
) -> BackfillReport:
    """Materialise the assets of a corpus for `sources`, and those of an evaluation for `days`.

    `sources` is "all" or names joined by commas; `days` a day, or "first..last". Raises SettingsError for a
    source, day or asset that there is not.
    """
    ranges = list(_source_ranges(settings, sources)) if sources else []
    spans = [_day_range(settings, days)] if days else []
    _check_assets(assets)
    prepare_home(settings)
    job = build_definitions(settings).resolve_implicit_global_asset_job_def()
    report = BackfillReport()
    with dg.DagsterInstance.get() as instance:
        for kind, listed in ((CORPUS, ranges), (EVALUATION, spans)):
            chosen = [name for name in kind if assets is None or name in assets]
            for keys in listed if chosen else []:
                result = job.execute_in_process(
                    instance=instance,
                    asset_selection=[dg.AssetKey(name) for name in chosen],
                    tags={**range_tags(keys), "bib/backfill": f"{keys[0]}..{keys[-1]}"},
                    run_config=_run_config(chosen, full),
                    raise_on_error=False,
                )
                _note(report, result)
    order = list(dict.fromkeys(made.asset for made in report.materialised))
    report.materialised.sort(key=lambda made: (order.index(made.asset), made.partition))
    return report


def _note(report: BackfillReport, result: dg.ExecuteInProcessResult) -> None:
    for event in result.all_events:
        if event.is_step_materialization:
            made = event.materialization
            figures = {
                name: value.value
                for name, value in made.metadata.items()
                if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue | dg.TextMetadataValue)
                and value.value is not None
            }
            report.materialised.append(
                Materialised(made.asset_key.to_user_string(), made.partition or "", figures)
            )
        elif event.is_step_failure:
            error = event.step_failure_data.error
            cause = error.cause if error and error.cause else error
            said = cause.message.strip() if cause else "no reason given"
            report.failures.append(f"{event.step_key}: {said}")


def prepare_home(settings: Settings) -> Path:
    """Make sure that Dagster has a home with our settings in it, and that this process uses it."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").absolute()
    home.mkdir(parents=True, exist_ok=True)
    if not (home / INSTANCE_SETTINGS.name).exists():
        shutil.copyfile(INSTANCE_SETTINGS, home / INSTANCE_SETTINGS.name)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def _source_ranges(settings: Settings, asked: str) -> Iterator[list[str]]:
    """Runs of neighbouring partitions that hold the sources asked for."""
    names = [source.name for source in ordered_sources(settings)]
    wanted = names if asked == "all" else [name.strip() for name in asked.split(",")]
    for name in wanted:
        if name not in names:
            raise SettingsError(f"--sources: no source {name!r}; there are: all, {', '.join(names)}")
    flagged = groupby(names, key=lambda name: name in wanted)
    yield from (list(group) for is_wanted, group in flagged if is_wanted)


def _day_range(settings: Settings, asked: str) -> list[str]:
    first, _, last = asked.partition("..")
    keys = day_partitions(settings).get_partition_keys()
    try:
        start, end = (date.fromisoformat(day).isoformat() for day in (first, last or first))
    except ValueError:
        raise SettingsError(f"--days: {asked!r}; 2026-10-01 or 2026-10-01..2026-10-31 is right") from None
    chosen = [key for key in keys if start <= key <= end]
    if not chosen:
        known = f"{keys[0]} to {keys[-1]}" if keys else "none yet"
        raise SettingsError(
            f"--days: no day in {asked}; there are {known} (evaluation.first_day to yesterday)"
        )
    return chosen


def _run_config(assets: Sequence[str], full: bool) -> dict[str, Any]:
    # The figures are printed at the end; the whole log is in the UI.
    quiet: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return quiet | refresh_config(assets, full=full)


def _check_assets(assets: Sequence[str] | None) -> None:
    known = (*CORPUS, *EVALUATION)
    for name in assets or ():
        if name not in known:
            raise SettingsError(f"--assets: no asset {name!r}; there are: {', '.join(known)}")
