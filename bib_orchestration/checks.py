"""Asset checks, from factories: the SQL tests of `dbt_like_sql/tests/`, and what SQL cannot see.

A test that finds bad rows stops what is downstream, unless it only warns: nobody is to index or evaluate what
is known to be wrong. `sources_were_read` is the other way round: it makes the run red and stops nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from bib_orchestration.assets.sql_models import MADE_BY
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.warehouse.sql_models import ModelError, SqlModel, SqlTest
from bib_orchestration.biblioteca.warehouse.sql_tables import require_made, run_test
from bib_orchestration.displays import MOST_ROWS, table
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


def index_checks() -> list[dg.AssetChecksDefinition]:
    """Checks on `chunk_index`."""

    @dg.multi_asset_check(
        name="index_is_sound",
        specs=[
            dg.AssetCheckSpec(
                "contents_are_indexed",
                asset="chunk_index",
                description="Every content of the corpus is in the live index, once, and no other is.",
                blocking=True,
            ),
            dg.AssetCheckSpec(
                "vectors_are_sound",
                asset="chunk_index",
                description=(
                    "Every vector is of the model's dimension, of finite numbers and of length 1, and every "
                    "sentence has one."
                ),
                blocking=True,
            ),
        ],
    )
    def index_is_sound(library: LibraryResource) -> Iterator[dg.AssetCheckResult]:
        from bib_orchestration.biblioteca.index.soundness import check_index

        found = check_index(library.store, library.warehouse)
        wrong = {
            "missing": found.missing,
            "unknown": found.unknown,
            "more than once": found.doubled,
        }
        rows = [{"what": what, "content_id": content} for what, ids in wrong.items() for content in ids]
        yield dg.AssetCheckResult(
            check_name="contents_are_indexed",
            asset_key="chunk_index",
            passed=found.is_level,
            metadata=_found(rows, len(rows), {"contents": found.contents}),
        )
        bad = [{"content_id": content} for content in found.bad_vectors]
        yield dg.AssetCheckResult(
            check_name="vectors_are_sound",
            asset_key="chunk_index",
            passed=not bad,
            metadata=_found(bad, len(bad), {"contents": found.contents}),
        )

    return [index_is_sound]


def sql_checks(
    tests: Mapping[str, SqlTest], models: Mapping[str, SqlModel]
) -> list[dg.AssetChecksDefinition]:
    """A check a SQL test. Raises ModelError for a test of a table that no asset makes."""
    return [_sql_check(test, _asset_of(test, models), models) for test in tests.values()]


def _asset_of(test: SqlTest, models: Mapping[str, SqlModel]) -> str:
    if test.table in models:
        return test.table
    if test.table in MADE_BY:
        return MADE_BY[test.table]
    known = ", ".join(sorted({*models, *MADE_BY}))
    raise ModelError(f"{test.path}: it checks {test.table!r}, which no asset makes; there are: {known}")


def _sql_check(test: SqlTest, asset: str, models: Iterable[str]) -> dg.AssetChecksDefinition:
    spec = dg.AssetCheckSpec(
        test.name,
        asset=asset,
        description=f"{test.description}\n\n```sql\n{test.query}\n```",
        blocking=not test.warns,
    )
    severity = dg.AssetCheckSeverity.WARN if test.warns else dg.AssetCheckSeverity.ERROR

    @dg.multi_asset_check(name=test.name, specs=[spec])
    def check(library: LibraryResource) -> Iterator[dg.AssetCheckResult]:
        require_made(library.warehouse, test, models)
        report = run_test(library.warehouse, test, most=MOST_ROWS, values=library.sql_values)
        yield dg.AssetCheckResult(
            check_name=test.name,
            asset_key=asset,
            passed=report.bad_rows == 0,
            severity=severity,
            metadata=_found(report.first, report.bad_rows, {}),
        )

    return check


def _found(rows: Any, count: int, figures: Mapping[str, int]) -> dict[str, Any]:
    """A check's metadata: how many bad rows it found, and the first of them."""
    return {"bad_rows": count, **figures, **({"rows": table(rows, list(rows[0]))} if rows else {})}


def _failed_sources(library: Library, run_id: str) -> list[dict[str, str]]:
    with library.warehouse.read() as connection:
        rows = connection.execute(
            "SELECT source, error FROM bib_sources WHERE run_id = $run_id AND error IS NOT NULL"
            " ORDER BY source",
            {"run_id": run_id},
        ).fetchall()
    return [{"source": source, "error": error} for source, error in rows]
