"""The one place where all parts meet. Tests call `build_definitions` with settings and parts of their own."""

from __future__ import annotations

import warnings

import dagster as dg

from bib_orchestration.assets.corpus import corpus_assets
from bib_orchestration.assets.evaluation import evaluation_assets
from bib_orchestration.assets.index import index_assets
from bib_orchestration.assets.queries import query_assets
from bib_orchestration.assets.sql_models import model_assets
from bib_orchestration.biblioteca.library import TESTS_FOLDER, Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.sql_models import read_tests
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
        definitions = dg.Definitions(
            assets=[
                *corpus_assets(settings),
                *index_assets(),
                *query_assets(),
                *model_assets(settings, models),
                *evaluation_assets(settings),
            ],
            asset_checks=[*corpus_checks(), *sql_checks(read_tests(TESTS_FOLDER), models), *index_checks()],
            jobs=build_jobs(settings, library),
            schedules=build_schedules(settings, models),
            resources={"library": library},
            executor=IN_PROCESS,
        )
        return definitions.map_resolved_asset_specs(
            func=lambda spec: spec.replace_attributes(
                freshness_policy=policies.get(spec.key.to_user_string())
            )
        )
