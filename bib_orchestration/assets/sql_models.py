"""SQL models as assets: one a file of `dbt_like_sql/models/`, its dependencies read from its query."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel, materialise
from bib_orchestration.partitions import day_partitions
from bib_orchestration.resources import LibraryResource

# Which asset makes a table that is no model.
MADE_BY = {
    "bib_docs": "documents",
    "bib_chunks": "chunks",
    "bib_sources": "documents",
    "oraculo_queries": "oraculo_queries",
    "ab_results": "retrieval_ab",
}
# Models that belong to a stage of their own.
_GROUPS = {"unique_chunks": "index", "golden_set": "evaluation"}


def model_assets(settings: Settings, models: Mapping[str, SqlModel]) -> list[dg.AssetsDefinition]:
    """An asset a model."""
    return [_model_asset(settings, model, frozenset(models)) for model in models.values()]


def _model_asset(settings: Settings, model: SqlModel, names: frozenset[str]) -> dg.AssetsDefinition:
    values = {"questions": settings.evaluation.questions}
    known = {name: value for name, value in values.items() if name in model.parameters}

    @dg.asset(
        name=model.name,
        deps=sorted({MADE_BY.get(table, table) for table in model.tables if table in names | MADE_BY.keys()}),
        partitions_def=day_partitions(settings) if model.by_day else None,
        backfill_policy=dg.BackfillPolicy.single_run() if model.by_day else None,
        group_name=_GROUPS.get(model.name, "models"),
        kinds={"sql", "duckdb"},
        owners=OWNERS,
        code_version=model.version,
        description=f"{model.description}\n\n```sql\n{model.sql.strip()}\n```",
        metadata={"dagster/table_name": model.name},
    )
    def asset(context: dg.AssetExecutionContext, library: LibraryResource) -> dg.MaterializeResult:
        warehouse = library.warehouse
        days = context.partition_keys if model.by_day else [None]
        metadata: dict[str, Any] = {}
        for day in days:
            report = materialise(
                warehouse,
                model,
                day=date.fromisoformat(day) if day else None,
                timezone=settings.schedules.timezone,
                values=known,
            )
            if day:
                context.add_asset_metadata({"dagster/partition_row_count": report.rows}, partition_key=day)
            else:
                metadata = {"dagster/row_count": report.rows, "changed": report.wrote}
        warehouse.publish()
        return dg.MaterializeResult(metadata=metadata)

    return asset
