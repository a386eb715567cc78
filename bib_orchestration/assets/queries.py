"""The query log: what was really asked."""

from typing import Any

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.biblioteca.warehouse.query_log import load
from bib_orchestration.displays import table, table_schema
from bib_orchestration.resources import LibraryResource


def query_assets() -> list[dg.AssetsDefinition]:
    """`oraculo_queries`."""

    @dg.asset(
        # Without one, a range of partitions cannot be asked for beside it.
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="queries",
        kinds={"json", "duckdb"},
        owners=OWNERS,
        code_version="1",
        description="Real questions, loaded from the append-only spool. Loading again adds nothing.",
        metadata={
            "dagster/column_schema": table_schema("oraculo_queries"),
            "dagster/table_name": "oraculo_queries",
        },
    )
    def oraculo_queries(context: dg.AssetExecutionContext, library: LibraryResource) -> dg.MaterializeResult:
        report = load(library.warehouse, library.settings.query_log)
        library.warehouse.publish()
        for line in report.bad_lines:
            context.log.warning(f"a line of the query log was left out: {line}")
        metadata: dict[str, Any] = {
            "dagster/row_count": report.total,
            "added": report.added,
            "bad_lines": len(report.bad_lines),
        }
        if report.bad_lines:
            metadata["left_out"] = table([{"line": line} for line in report.bad_lines], ["line"])
        return dg.MaterializeResult(metadata=metadata)

    return [oraculo_queries]
