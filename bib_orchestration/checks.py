"""Asset checks.

What a check here may do that an asset may not: make the run red without stopping what is downstream.
"""

import json
from collections.abc import Iterator

import dagster as dg

from bib_orchestration.displays import table
from bib_orchestration.resources import LibraryResource


@dg.asset_check(
    asset="documents",
    description=(
        "Every source of this run was read. One that is missing or empty keeps its rows and stops no other; "
        "this check then fails, and the run with it."
    ),
)
def sources_were_read(
    context: dg.AssetCheckExecutionContext, library: LibraryResource
) -> Iterator[dg.AssetCheckResult]:
    with library.warehouse.read() as connection:
        rows = connection.execute(
            "SELECT source, error FROM bib_sources WHERE run_id = $run_id AND error IS NOT NULL"
            " ORDER BY source",
            {"run_id": context.run.run_id},
        ).fetchall()
    failed = [{"source": source, "error": error} for source, error in rows]
    yield dg.AssetCheckResult(
        passed=not failed,
        metadata={"sources": table(failed, ["source", "error"])} if failed else {},
    )
    if failed:
        # A check that does not pass leaves the run green; an exception in it does not, and nothing waits
        # for this step.
        raise dg.Failure(
            "; ".join(row["error"] for row in failed), metadata={"sources": json.dumps(failed)}, allow_retries=False
        )


CHECKS = [sources_were_read]
