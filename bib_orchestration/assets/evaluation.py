"""The A/B run, partitioned by day: the golden set of each day, under each variant, on today's index."""

from datetime import date
from typing import TYPE_CHECKING

import dagster as dg

from bib_orchestration.assets import OWNERS
from bib_orchestration.biblioteca.evaluation.gate import (
    ANSWERS_UNMEASURED,
    OVERLAP_PROVES_NOTHING,
    Condition,
)
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.displays import column_lineage, evaluation_metadata, lineage_from, table_schema
from bib_orchestration.partitions import day_partitions, keys_of
from bib_orchestration.resources import LibraryResource

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.evaluating import Evaluation

_LINEAGE = lineage_from("golden_set", {name: (name,) for name in ("day", "question", "rank")})

GATE_CHECKS = {
    "gate_token_reduction": "The trimmed variant needs clearly fewer tokens than whole chunks.",
    "gate_overlap": f"Both variants show the same chunks. It {OVERLAP_PROVES_NOTHING}.",
    "gate_answers_as_good": f"Answers are as good as with whole chunks. {ANSWERS_UNMEASURED[0].upper()}"
    f"{ANSWERS_UNMEASURED[1:]}.",
}


def evaluation_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """`retrieval_ab`."""

    @dg.asset(
        deps=["golden_set", "chunk_index"],
        partitions_def=day_partitions(settings),
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="evaluation",
        kinds={"python", "parquet", "duckdb"},
        owners=OWNERS,
        code_version="1",
        description=(
            "Whole against trimmed chunks on the golden set of each day: tokens, overlap, and the gate's "
            "verdict. Written to `runs/` as JSON and Parquet, and loaded into `ab_results`."
        ),
        metadata={
            "dagster/column_schema": table_schema("ab_results", _LINEAGE),
            "dagster/table_name": "ab_results",
        },
        check_specs=[
            dg.AssetCheckSpec(name, asset="retrieval_ab", description=description)
            for name, description in GATE_CHECKS.items()
        ],
    )
    def retrieval_ab(context: dg.AssetExecutionContext, library: LibraryResource) -> dg.MaterializeResult:
        # numpy is not for whoever only loads the definitions.
        from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_day

        evaluations = {}
        for day in keys_of(context):
            evaluations[day] = evaluate_day(library, date.fromisoformat(day), ab_settings(settings))
            context.add_asset_metadata(
                {
                    **evaluation_metadata(evaluations[day]),
                    "dagster/column_lineage": column_lineage(_LINEAGE),
                },
                partition_key=day,
            )
        library.warehouse.publish()
        newest = max(evaluations)
        return dg.MaterializeResult(check_results=_gate_results(newest, evaluations[newest]))

    return [retrieval_ab]


def _gate_results(day: str, evaluation: "Evaluation") -> list[dg.AssetCheckResult]:
    """The gate as checks. They warn: a change that may not go live is a finding, and no failure of the run.

    Unmeasured is not met: the check does not pass, and its description says why.
    """
    return [
        dg.AssetCheckResult(
            check_name=f"gate_{condition.name}",
            asset_key="retrieval_ab",
            passed=condition.met is True,
            severity=dg.AssetCheckSeverity.WARN,
            description=_said(condition),
            metadata={
                "day": day,
                "verdict": evaluation.gate.verdict,
                **({} if condition.measured is None else {"measured_pct": condition.measured}),
            },
        )
        for condition in evaluation.gate.conditions
    ]


def _said(condition: Condition) -> str:
    if condition.measured is None or condition.required is None:
        return condition.note
    found = f"{condition.measured:g} % against more than {condition.required:g} %"
    return f"{found}; {condition.note}" if condition.note else found
