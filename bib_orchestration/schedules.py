"""A job and a schedule for each circuit that is built.

A tick looks before it launches: it skips while a run of its circuit is active, and when its sources are as
they were at the circuit's last run and that run succeeded. One that failed is tried again, also when its
sources have gone back to what they were before: it may have done half of its work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise, takewhile

import dagster as dg
from cronsim import CronSim

from bib_orchestration.assets.sql_models import with_models
from bib_orchestration.biblioteca.corpus.markdown import CHUNKER_VERSION
from bib_orchestration.biblioteca.corpus.sources import SourceError, source_fingerprint
from bib_orchestration.biblioteca.index.model_cards import EMBEDDED_TEXT_VERSION
from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel
from bib_orchestration.circuits import (
    CIRCUITS,
    Circuit,
    check_names,
    circuit_sources,
    cron_of,
    runs_anything,
)
from bib_orchestration.jobs import IN_PROCESS
from bib_orchestration.partitions import range_tags, refresh_config

FINGERPRINT_TAG = "bib/fingerprint"
MAX_RUNTIME_S = 6 * 3600
_ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

Tick = dg.RunRequest | dg.SkipReason


def build_schedules(settings: Settings, models: Mapping[str, SqlModel]) -> list[dg.ScheduleDefinition]:
    """The schedules, each with its job. Raises SettingsError for a time of an unknown circuit."""
    check_names(settings)
    return [_schedule(circuit, settings, models) for circuit in CIRCUITS if runs_anything(circuit, settings)]


def freshness_policies(settings: Settings, models: Mapping[str, SqlModel]) -> dict[str, dg.FreshnessPolicy]:
    """How old the newest materialisation of an asset may be, by the asset's name.

    Only circuits that run whatever happened promise that. A tick of any other skips while its sources are as
    they were, and an asset that nobody had to refresh is not stale.
    """
    policies: dict[str, dg.FreshnessPolicy] = {}
    for circuit in CIRCUITS:
        always = circuit.full or "documents" not in circuit.assets
        if always and runs_anything(circuit, settings):
            window = _interval(circuit, settings) + timedelta(seconds=MAX_RUNTIME_S)
            for name in with_models(circuit.assets, models):
                policies.setdefault(name, dg.FreshnessPolicy.time_window(fail_window=window))
    return policies


def _interval(circuit: Circuit, settings: Settings) -> timedelta:
    """The longest time between two ticks of a circuit, in the year from a fixed day on."""
    start = datetime(2026, 1, 1, tzinfo=settings.schedules.zone)
    ticks = CronSim(cron_of(circuit, settings), start)
    times: list[datetime] = [start, *takewhile(lambda at: at < start + timedelta(days=366), ticks)]
    return max(after - before for before, after in pairwise(times))


def job_name(circuit: Circuit) -> str:
    """The name of a circuit's job. Not the circuit's own: there is an asset `chunks` too, and Dagster loads
    nothing when a job and an asset share a name."""
    return f"refresh_{circuit.name}"


def _schedule(circuit: Circuit, settings: Settings, models: Mapping[str, SqlModel]) -> dg.ScheduleDefinition:
    by_source = "documents" in circuit.assets
    job = dg.define_asset_job(
        job_name(circuit),
        selection=dg.AssetSelection.assets(*with_models(circuit.assets, models)),
        description=f"Refreshes {circuit.refreshes}.",
        executor_def=IN_PROCESS,
        tags={"bib/circuit": circuit.name, "dagster/max_runtime": str(MAX_RUNTIME_S)},
    )

    def tick(context: dg.ScheduleEvaluationContext) -> Tick:
        if active := _active_run(context.instance, job_name(circuit)):
            return dg.SkipReason(f"run {active[:8]} of {circuit.name} is still active")
        return (
            _source_tick(context, circuit, settings) if by_source else _day_tick(context, circuit, settings)
        )

    status = dg.DefaultScheduleStatus
    return dg.ScheduleDefinition(
        name=circuit.name,
        job=job,
        cron_schedule=cron_of(circuit, settings),
        execution_timezone=settings.schedules.timezone,
        execution_fn=tick,
        description=f"Refreshes {circuit.refreshes}.",
        default_status=status.RUNNING if settings.schedules.enabled else status.STOPPED,
    )


def _source_tick(context: dg.ScheduleEvaluationContext, circuit: Circuit, settings: Settings) -> Tick:
    sources = circuit_sources(circuit, settings)
    fingerprint = circuit_fingerprint(circuit, settings)
    if not circuit.full and fingerprint == _last_done(context.instance, job_name(circuit)):
        return dg.SkipReason(f"nothing changed in {', '.join(source.name for source in sources)}")
    return dg.RunRequest(
        run_config=refresh_config(circuit.assets, full=circuit.full),
        tags={**range_tags(source.name for source in sources), FINGERPRINT_TAG: fingerprint},
    )


def _day_tick(context: dg.ScheduleEvaluationContext, circuit: Circuit, settings: Settings) -> Tick:
    now = context.scheduled_execution_time.astimezone(settings.schedules.zone)
    day = now.date() - timedelta(days=1)
    if day < settings.evaluation.first_day:
        return dg.SkipReason(
            f"{day} is before evaluation.first_day ({settings.evaluation.first_day}) of {settings.config.name}"
        )
    if day.isoformat() == _last_done(context.instance, job_name(circuit)):
        return dg.SkipReason(f"{day} is evaluated")
    return dg.RunRequest(partition_key=day.isoformat(), tags={FINGERPRINT_TAG: day.isoformat()})


def circuit_fingerprint(circuit: Circuit, settings: Settings) -> str:
    """Changes when a circuit's sources do, or the settings and versions that shape what is made of them.

    A source that cannot be read has the error for its fingerprint: it is tried again, and fails in a run,
    where people look.
    """
    parts: list[str] = [*_versions(), settings.model.model_dump_json(), settings.chunks.model_dump_json()]
    for source in circuit_sources(circuit, settings):
        try:
            state = source_fingerprint(source, settings.checkouts)
        except SourceError as error:
            state = str(error)
        parts += [source.model_dump_json(), state]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _versions() -> tuple[str, ...]:
    """A new version of ours makes something else of the same sources."""
    # It imports numpy, which whoever only loads the definitions need not pay for.
    from bib_orchestration.biblioteca.retrieval.lexical import LEXICAL_VERSION

    return CHUNKER_VERSION, EMBEDDED_TEXT_VERSION, SPLITTER_VERSION, LEXICAL_VERSION


def _active_run(instance: dg.DagsterInstance, job: str) -> str | None:
    runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=_ACTIVE), limit=1)
    return runs[0].run_id if runs else None


def _last_done(instance: dg.DagsterInstance, job: str) -> str | None:
    """The fingerprint that a circuit's last run started with; None when it did not succeed."""
    runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=_ENDED), limit=1)
    succeeded = runs and runs[0].status == dg.DagsterRunStatus.SUCCESS
    return runs[0].tags.get(FINGERPRINT_TAG) if succeeded else None
