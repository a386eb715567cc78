"""Runs over days: the golden set and the A/B run of each, its gate as checks that warn, its files and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import pytest

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.warehouse.query_log import LoggedQuery, append
from bib_orchestration.circuits import EVALUATION

from .conftest import PAGES, Floor, checks, failures, figures

DAYS = ["2025-10-01", "2025-10-02", "2025-10-03"]
ASKED = {
    "2025-10-02T08:00": "¿Cómo se piden las vacaciones?",
    "2025-10-02T09:00": "¿Qué exige el acceso remoto?",
    # Still the 2nd in UTC, but the 3rd in Madrid.
    "2025-10-02T22:30": "¿En qué formato se exporta el plano?",
    "2025-10-03T10:00": "corta",
}


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """An indexed knowledge base with four questions in its log, none of them before the 2nd of October."""
    with dg.DagsterInstance.ephemeral() as instance:
        made = Floor(tmp_path_factory.mktemp("days"), instance)
        for path, text in PAGES.items():
            made.write(path, text)
        assert made.materialise(["docs", "notas", "wiki"]).success
        for number, (at, question) in enumerate(ASKED.items()):
            asked = datetime.fromisoformat(at).replace(tzinfo=UTC)
            append(made.settings.query_log, LoggedQuery(f"q{number}", asked, question))
        yield made


@pytest.fixture(scope="module")
def two_runs(floor: Floor) -> tuple[dg.ExecuteInProcessResult, dg.ExecuteInProcessResult]:
    """Two runs over the same days; most tests look at the second."""
    return floor.materialise(DAYS, EVALUATION), floor.materialise(DAYS, EVALUATION)


@pytest.fixture(scope="module")
def result(
    two_runs: tuple[dg.ExecuteInProcessResult, dg.ExecuteInProcessResult],
) -> dg.ExecuteInProcessResult:
    return two_runs[1]


def test_a_range_of_days_is_one_green_run_with_a_days_own_figures(
    floor: Floor, result: dg.ExecuteInProcessResult
) -> None:
    assert result.success
    golden = {day: made["dagster/partition_row_count"] for day, made in figures(result, "golden_set").items()}
    assert golden == {"2025-10-01": 0, "2025-10-02": 2, "2025-10-03": 3}
    runs = figures(result, "retrieval_ab")
    assert {day: made["questions"] for day, made in runs.items()} == golden
    assert "acceso remoto" in runs["2025-10-02"]["results"]
    assert "formato" not in runs["2025-10-02"]["results"]
    assert "formato" in runs["2025-10-03"]["results"]
    rows = floor.rows("SELECT day::VARCHAR, question FROM golden_set ORDER BY day, rank")
    assert rows == [
        ("2025-10-02", "¿Qué exige el acceso remoto?"),
        ("2025-10-02", "¿Cómo se piden las vacaciones?"),
        ("2025-10-03", "¿En qué formato se exporta el plano?"),
        ("2025-10-03", "¿Qué exige el acceso remoto?"),
        ("2025-10-03", "¿Cómo se piden las vacaciones?"),
    ]


def test_a_day_before_the_first_question_has_no_numbers_and_no_conclusion(
    result: dg.ExecuteInProcessResult,
) -> None:
    made = figures(result, "retrieval_ab")["2025-10-01"]
    assert made["questions"] == 0
    assert made["verdict"] == "cannot conclude"
    measured = ("avg_tokens_baseline", "avg_tokens_trim", "token_reduction_pct", "avg_overlap_vs_baseline")
    # Left out of the plots, and null in the summary: never 0.
    assert not set(measured) & set(made)
    assert {made["summary"][name] for name in measured} == {None}
    assert made["gate"].count("| no data |") >= 3


def test_the_gates_checks_warn_and_state_the_contracts_two_traps(result: dg.ExecuteInProcessResult) -> None:
    gate = {name: check for name, check in checks(result).items() if name.startswith("gate_")}
    assert set(gate) == {"gate_token_reduction", "gate_overlap", "gate_answers_as_good"}
    assert {check.severity for check in gate.values()} == {dg.AssetCheckSeverity.WARN}
    assert {check.metadata["day"].value for check in gate.values()} == {"2025-10-03"}
    assert gate["gate_overlap"].passed
    assert "proves nothing" in (gate["gate_overlap"].description or "")
    assert "100 % against more than 70 %" in (gate["gate_overlap"].description or "")
    answers = gate["gate_answers_as_good"]
    assert not answers.passed
    assert (answers.description or "").startswith("unmeasured: ")
    assert "6.3 % of the answers gone" in (answers.description or "")
    assert "measured_pct" not in answers.metadata
    assert {check.metadata["verdict"].value for check in gate.values()} <= {"cannot conclude", "no-go"}


def test_the_same_days_give_the_same_bytes(
    two_runs: tuple[dg.ExecuteInProcessResult, dg.ExecuteInProcessResult], floor: Floor
) -> None:
    first, second = (figures(run, "retrieval_ab") for run in two_runs)
    for day in DAYS:
        one, other = (floor.settings.runs / made[day]["run"].rsplit("/", 1)[-1] for made in (first, second))
        assert one != other
        for name in ("results.json", "results.parquet"):
            assert (one / name).read_bytes() == (other / name).read_bytes()
        told = [json.loads((folder / "run.json").read_text()) for folder in (one, other)]
        assert told[0]["run_id"] != told[1]["run_id"]
        assert {(run["day"], run["golden_hash"]) for run in told} == {(day, told[0]["golden_hash"])}


def test_a_day_extracted_again_changes_nothing(floor: Floor, result: dg.ExecuteInProcessResult) -> None:
    before = floor.rows("SELECT * FROM golden_set ORDER BY day, rank")
    assert floor.materialise(DAYS[:1], ["golden_set"]).success
    assert floor.rows("SELECT * FROM golden_set ORDER BY day, rank") == before
    assert figures(result, "oraculo_queries")[None]["added"] == 0
    assert figures(result, "oraculo_queries")[None]["dagster/row_count"] == len(ASKED)


def test_all_rows_come_back_after_the_warehouse_is_deleted(
    floor: Floor, result: dg.ExecuteInProcessResult
) -> None:
    everything = "SELECT * FROM ab_results ORDER BY run_id, rank, variant"
    before = floor.rows(everything)
    assert len({row[0] for row in before}) >= 4
    half = floor.settings.runs / ".20251003T000000Z-2025-10-03-half.1"
    half.mkdir()
    (half / "run.json").write_text("{")
    for file in floor.folder.glob("home/warehouse*"):
        file.unlink()
    floor.library = Library(floor.settings)
    floor.library.embedder = floor.embedder
    floor.reload((floor.folder / "bib.toml").read_text())
    rebuilt = floor.materialise(DAYS[:1], EVALUATION)
    assert rebuilt.success
    # The 1st has no question, so its run has no row.
    assert floor.rows(everything) == before
    assert floor.rows("SELECT count(*) FROM oraculo_queries") == [(len(ASKED),)]


def test_without_an_index_the_run_is_red_and_says_what_to_do(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        bare = Floor(tmp_path_factory.mktemp("bare"), instance)
        red = bare.materialise(DAYS[1:2], EVALUATION)
    assert not red.success
    assert list(failures(red)) == ["retrieval_ab"]
    assert "run `bib index` first" in failures(red)["retrieval_ab"]
