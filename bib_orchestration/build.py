"""The one place where all parts meet. Tests call `build_definitions` with settings and parts of their own."""

from __future__ import annotations

import warnings

import dagster as dg

from bib_orchestration.assets.corpus import corpus_assets
from bib_orchestration.assets.evaluation import evaluation_assets
from bib_orchestration.assets.index import chunk_index
from bib_orchestration.assets.queries import oraculo_queries
from bib_orchestration.assets.sql_models import model_assets
from bib_orchestration.biblioteca.library import MODELS_FOLDER, Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.sql_models import read_models
from bib_orchestration.checks import corpus_checks
from bib_orchestration.jobs import IN_PROCESS, build_jobs
from bib_orchestration.schedules import build_schedules


def build_definitions(settings: Settings, *, library: Library | None = None) -> dg.Definitions:
    """All that Dagster sees of a knowledge base. `library` stands in for the one made from settings."""
    library = library or Library(settings)
    with warnings.catch_warnings():
        # Single-run backfills are in beta, and what lets a range run from the command line.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.Definitions(
            assets=[
                *corpus_assets(settings),
                chunk_index,
                oraculo_queries,
                *model_assets(settings, read_models(MODELS_FOLDER)),
                *evaluation_assets(settings),
            ],
            asset_checks=corpus_checks(),
            jobs=build_jobs(settings, library),
            schedules=build_schedules(settings),
            resources={"library": library},
            executor=IN_PROCESS,
        )
