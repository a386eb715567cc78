"""Asset checks.

What a check here may do that an asset may not: make the run red without stopping what is downstream.
"""

from collections.abc import Iterator

import dagster as dg

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.displays import table
from bib_orchestration.resources import LibraryResource


def corpus_checks() -> list[dg.AssetChecksDefinition]:
    """Checks on `documents`."""
    spec = dg.AssetCheckSpec(
        "sources_were_read",
        asset="documents",
        description=(
            "Every source of this run was read. One that is missing or empty keeps its rows and stops no "
            "other; this check then fails, and the run with it."
        ),
    )

    @dg.multi_asset_check(name="sources_were_read", specs=[spec])
    def sources_were_read(
        context: dg.AssetCheckExecutionContext, library: LibraryResource
    ) -> Iterator[dg.AssetCheckResult]:
        failed = _failed_sources(library, context.run.run_id)
        yield dg.AssetCheckResult(
            check_name="sources_were_read",
            asset_key="documents",
            passed=not failed,
            metadata={"sources": table(failed, ["source", "error"])} if failed else {},
        )
        if failed:
            # A check that does not pass leaves the run green; an exception in it does not, and nothing
            # waits for this step.
            raise dg.Failure("; ".join(row["error"] for row in failed), allow_retries=False)

    return [sources_were_read]


def _failed_sources(library: Library, run_id: str) -> list[dict[str, str]]:
    with library.warehouse.read() as connection:
        rows = connection.execute(
            "SELECT source, error FROM bib_sources WHERE run_id = $run_id AND error IS NOT NULL"
            " ORDER BY source",
            {"run_id": run_id},
        ).fetchall()
    return [{"source": source, "error": error} for source, error in rows]
