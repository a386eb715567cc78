"""The one place where all parts meet. Tests call `build_definitions` with settings and parts of their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import dagster as dg

from bib_orchestration.assets.corpus import corpus_assets
from bib_orchestration.assets.evaluation import evaluation_assets
from bib_orchestration.assets.index import index_assets
from bib_orchestration.assets.queries import query_assets
from bib_orchestration.assets.sql_models import model_assets
from bib_orchestration.biblioteca.library import TESTS_FOLDER, Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.sql_models import ModelError, SqlFile, read_tests
from bib_orchestration.checks import corpus_checks, index_checks, sql_checks
from bib_orchestration.jobs import IN_PROCESS, build_jobs
from bib_orchestration.schedules import build_schedules, freshness_policies


def build_definitions(settings: Settings, *, library: Library | None = None) -> dg.Definitions:
    """All that Dagster sees of a knowledge base. `library` stands in for the one made from settings."""
    library = library or Library(settings)
    models = library.models
    with warnings.catch_warnings():
        # Single-run backfills and freshness policies are in beta; the first lets a range run from the
        # command line.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        policies = freshness_policies(settings, models)
        tests = read_tests(TESTS_FOLDER)
        assets = [*corpus_assets(settings), *index_assets(), *query_assets(), *evaluation_assets(settings)]
        checks = [*corpus_checks(), *index_checks()]
        jobs, schedules = build_jobs(settings, library), build_schedules(settings, models)
        _require_names_of_their_own([*models.values(), *tests.values()], [*assets, *checks], jobs, schedules)
        definitions = dg.Definitions(
            assets=[*assets, *model_assets(settings, models)],
            asset_checks=[*checks, *sql_checks(tests, models)],
            jobs=jobs,
            schedules=schedules,
            resources={"library": library},
            executor=IN_PROCESS,
        )
        return definitions.map_resolved_asset_specs(
            func=lambda spec: spec.replace_attributes(
                freshness_policy=policies.get(spec.key.to_user_string())
            )
        )


def _require_names_of_their_own(
    files: Iterable[SqlFile],
    made: Iterable[dg.AssetsDefinition],
    jobs: Iterable[dg.JobDefinition],
    schedules: Iterable[dg.ScheduleDefinition],
) -> None:
    """Raise ModelError for a SQL file that is called like something else that Dagster knows: it would load
    nothing, and name no file."""
    taken = {
        **{name: "an asset or a check" for each in made for name in _names(each)},
        **{name: "a job or an op of it" for job in jobs for name in (job.name, *job.graph.node_dict)},
        **{schedule.job_name: "a job" for schedule in schedules},
    }
    for file in files:
        if file.name in taken:
            raise ModelError(
                f"{file.path}: {file.name} is {taken[file.name]} already; give the file another name"
            )
        taken[file.name] = "a model or a test"


def _names(made: dg.AssetsDefinition) -> set[str]:
    keys = {key.to_user_string() for key in made.keys}
    return {made.node_def.name, *keys, *(check.name for check in made.check_specs)}
