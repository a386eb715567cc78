"""Backfills from the command line: a plan's runs, one after the other in this process.

Runs are recorded in Dagster's home, so the UI shows them like any other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from bib_orchestration.backfill_plan import BackfillPlan, PlannedRun, plain_reason
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.partitions import range_tags, refresh_config

INSTANCE_SETTINGS = Path(__file__).resolve().parent / "dagster.yaml"


@dataclass(frozen=True, slots=True)
class Materialised:
    """An asset's partition ("" for an asset without) that was materialised, and its figures."""

    asset: str
    partition: str
    figures: dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A step that failed, the partitions that its run was for ("" for none), and the reason."""

    step: str
    partitions: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.step} ({self.partitions}): {self.reason}"
            if self.partitions
            else f"{self.step}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class FoundWanting:
    """A check that did not pass, and how many bad rows it found (None: it does not count them)."""

    asset: str
    check: str
    severity: str
    bad_rows: int | None
    description: str


@dataclass
class BackfillReport:
    """What a backfill did, assets in the order they were made; what failed, and what was not made for it.

    checks: those that did not pass, warnings included, of the last run that made their asset.
    not_made: assets, with the partitions of their run; what they need failed.
    run_ids: Dagster's ids of the runs.
    """

    materialised: list[Materialised] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    checks: dict[tuple[str, str], FoundWanting] = field(default_factory=dict)
    not_made: list[tuple[str, str]] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)


def backfill(
    settings: Settings,
    definitions: dg.Definitions,
    plan: BackfillPlan,
    *,
    full: bool = False,
    on_run: Callable[[PlannedRun], None] = lambda run: None,
) -> BackfillReport:
    """Make the runs of a plan; one that fails does not stop the next. `on_run` is told of each before it
    starts."""
    prepare_home(settings)
    job = definitions.resolve_implicit_global_asset_job_def()
    report = BackfillReport()
    with dg.DagsterInstance.get() as instance:
        for planned in plan.runs:
            on_run(planned)
            tags = range_tags(planned.partitions) if planned.partitions else {}
            result = job.execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey.from_user_string(name) for name in planned.assets],
                tags={**tags, "bib/backfill": planned.label or "unpartitioned"},
                run_config=_run_config(planned.assets, full),
                raise_on_error=False,
            )
            _note(report, plan, planned, result)
    order = list(dict.fromkeys(made.asset for made in report.materialised))
    report.materialised.sort(key=lambda made: (order.index(made.asset), made.partition))
    return report


def _note(
    report: BackfillReport, plan: BackfillPlan, planned: PlannedRun, result: dg.ExecuteInProcessResult
) -> None:
    report.run_ids.append(result.run_id)
    left = set(planned.assets)
    for event in result.all_events:
        if event.is_step_materialization:
            made = event.materialization
            figures = {
                name: value.value
                for name, value in made.metadata.items()
                if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue | dg.TextMetadataValue)
                and value.value is not None
            }
            asset = made.asset_key.to_user_string()
            left.discard(asset)
            report.materialised.append(Materialised(asset, made.partition or "", figures))
        elif event.event_type_value == "ASSET_CHECK_EVALUATION":
            _note_check(report, event.asset_check_evaluation_data)
        elif event.is_step_failure:
            error = event.step_failure_data.error
            cause = error.cause if error and error.cause else error
            said = plain_reason(cause.message) if cause else "no reason given"
            left.discard(event.step_key or "")
            report.failures.append(Failed(event.step_key or "", planned.label, said))
    report.not_made += [
        (name, planned.label if plan.ranges[name] else "") for name in planned.assets if name in left
    ]


def _note_check(report: BackfillReport, evaluation: dg.AssetCheckEvaluation) -> None:
    asset = evaluation.asset_key.to_user_string()
    key = (asset, evaluation.check_name)
    report.checks.pop(key, None)
    if not evaluation.passed:
        bad_rows = evaluation.metadata.get("bad_rows")
        count = bad_rows.value if isinstance(bad_rows, dg.IntMetadataValue) else None
        report.checks[key] = FoundWanting(
            *key, evaluation.severity.value.lower(), count, evaluation.description or ""
        )


def dagster_home(settings: Settings) -> Path:
    """Where Dagster keeps its runs: DAGSTER_HOME, or a folder of the knowledge base's state."""
    return Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").absolute()


def prepare_home(settings: Settings) -> Path:
    """Make sure that Dagster has a home with our settings in it, and that this process uses it."""
    home = dagster_home(settings)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / INSTANCE_SETTINGS.name).exists():
        shutil.copyfile(INSTANCE_SETTINGS, home / INSTANCE_SETTINGS.name)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def _run_config(assets: Sequence[str], full: bool) -> dict[str, Any]:
    # The figures are printed at the end; the whole log is in the UI.
    quiet: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return quiet | refresh_config(assets, full=full)
