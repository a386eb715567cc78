"""SQL models as assets: one a file of `dbt_like_sql/models/`, its dependencies read from its query.

What a model's page shows beside its rows, for those models that ship with the project, is in `model_pages`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.assets.model_pages import page_of
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.column_lineage import Lineage, Origin, follow_columns
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel
from bib_orchestration.biblioteca.warehouse.sql_tables import ModelReport, materialise, table_columns
from bib_orchestration.circuits import CORPUS, EVALUATION
from bib_orchestration.displays import column_lineage, column_schema
from bib_orchestration.partitions import day_partitions, keys_of
from bib_orchestration.resources import LibraryResource

# Which asset makes a table that is no model.
MADE_BY = {
    "bib_docs": "documents",
    "bib_sources": "documents",
    "bib_chunks": "chunks",
    "bib_chunked_docs": "chunks",
    "bib_index": "chunk_index",
    "oraculo_queries": "oraculo_queries",
    "query_log_files": "oraculo_queries",
    "ab_runs": "retrieval_ab",
    "ab_results": "retrieval_ab",
}
# Assets that have a partition a source. A day of a model reads what all sources have now.
_BY_SOURCE = ("documents", "chunks")
# Models that belong to a stage of their own.
_GROUPS = {"unique_chunks": "index", "golden_set": "evaluation"}


def model_assets(settings: Settings, models: Mapping[str, SqlModel]) -> list[dg.AssetsDefinition]:
    """An asset a model."""
    return [_model_asset(settings, model, models) for model in models.values()]


def with_models(assets: Iterable[str], models: Mapping[str, SqlModel]) -> tuple[str, ...]:
    """`assets` and the models that follow from them, so that a model that is added is refreshed with what it
    reads.

    A model by day joins every run that has days, whatever it reads, and no other. Models that are a stage of the
    path of a document or a question are left to whoever names them.
    """
    found = list(assets)
    by_day = any(name in models and models[name].by_day for name in found)
    for model in models.values():
        follows = by_day if model.by_day else bool(set(found) & set(upstream(model, models)))
        if follows and model.name not in (*found, *CORPUS, *EVALUATION):
            found.append(model.name)
    return tuple(found)


def upstream(model: SqlModel, models: Mapping[str, SqlModel]) -> list[str]:
    """The assets that a model reads, by name."""
    known = models.keys() | MADE_BY.keys()
    return sorted({MADE_BY.get(table, table) for table in model.tables if table in known})


def _dependency(asset: str, model: SqlModel) -> dg.AssetDep:
    if model.by_day and asset in _BY_SOURCE:
        return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
    return dg.AssetDep(asset)


def _model_asset(settings: Settings, model: SqlModel, models: Mapping[str, SqlModel]) -> dg.AssetsDefinition:
    @dg.asset(
        name=model.name,
        deps=[_dependency(asset, model) for asset in upstream(model, models)],
        partitions_def=day_partitions(settings) if model.by_day else None,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name=_GROUPS.get(model.name, "models"),
        kinds={"sql", "duckdb"},
        owners=OWNERS,
        code_version=model.version,
        description=f"{model.description}\n\n```sql\n{model.query}\n```",
        metadata={"dagster/table_name": model.name},
    )
    def asset(context: dg.AssetExecutionContext, library: LibraryResource) -> dg.MaterializeResult:
        days = keys_of(context) if model.by_day else [None]
        metadata: dict[str, Any] = {}
        lineage: dict[str, Lineage] = {}
        for day in days:
            report = materialise(
                library.warehouse,
                model,
                day=date.fromisoformat(day) if day else None,
                timezone=settings.schedules.timezone,
                values=library.sql_values,
            )
            # Every day of a run has the columns of the same query.
            lineage = lineage or _lineage(library, model, report)
            metadata = _metadata(library, model, report, lineage, day)
            if day:
                context.add_asset_metadata(metadata, partition_key=day)
        library.warehouse.publish()
        return dg.MaterializeResult(metadata={} if model.by_day else metadata)

    return asset


def _lineage(library: Library, model: SqlModel, report: ModelReport) -> dict[str, Lineage]:
    with library.warehouse.read() as connection:
        tables = table_columns(connection)
    return _of_assets(follow_columns(model, list(report.columns), tables))


def _metadata(
    library: Library, model: SqlModel, report: ModelReport, lineage: Mapping[str, Lineage], day: str | None
) -> dict[str, Any]:
    with library.warehouse.read() as connection:
        page = page_of(model.name, connection, day)
    return {
        "dagster/partition_row_count" if day else "dagster/row_count": report.rows,
        "changed": report.wrote,
        "dagster/column_schema": column_schema(report.columns, model.column_notes, lineage),
        "dagster/column_lineage": column_lineage(lineage),
        **page,
    }


def _of_assets(lineage: Mapping[str, Lineage]) -> dict[str, Lineage]:
    """A lineage with the assets that make the tables in their place."""
    return {
        column: replace(
            known,
            origins=tuple(
                Origin(MADE_BY.get(origin.table, origin.table), origin.column) for origin in known.origins
            ),
        )
        for column, known in lineage.items()
    }
