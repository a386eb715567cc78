"""The contract's metrics: tokens, reduction, overlap; what was not measured is None, never a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.evaluation.metrics import (
    overlap_vs_baseline,
    rounded,
    summarise,
    token_reduction_pct,
)

UPKEEP = Path(__file__).parents[1] / "cases" / "upkeep.jsonl"
H10 = next(
    case
    for line in UPKEEP.read_text(encoding="utf-8").split("\n")
    if line and (case := json.loads(line))["id"].startswith("H10")
)


def row(
    question: str, variant: str, tokens: int, before: int | None = None, ids: str = "a"
) -> dict[str, Any]:
    return {
        "question": question,
        "variant": variant,
        "chunk_ids": list(ids),
        "top_score": 0.5,
        "tokens": tokens,
        "tokens_before": tokens if before is None else before,
    }


# --- summarise


def test_case_h10_empty_inputs_neither_crash_nor_pretend_to_be_zero() -> None:
    nothing, without_chunks, without_baseline = map(summarise, H10["input"]["cases"])
    expected = H10["expected"]
    assert {key: nothing[key] for key in expected["case_1"]} == expected["case_1"]
    assert {key: without_chunks[key] for key in expected["case_2"]} == expected["case_2"]
    assert without_chunks["avg_overlap_vs_baseline"] is None
    assert without_baseline["avg_overlap_vs_baseline"] is expected["case_3"]["overlap_vs_baseline"]
    assert without_baseline["token_reduction_pct"] == expected["case_3"]["token_reduction_pct"]
    assert without_baseline["reduction_is_against"] == "tokens_before"


def test_the_summary_has_the_contracts_keys_and_names_its_token_counter() -> None:
    summary = summarise([], top_k=5, trim_threshold=0.38, trim_window=1)
    assert summary == {
        "questions": 0,
        "top_k": 5,
        "trim_threshold": 0.38,
        "trim_window": 1,
        "avg_tokens_baseline": None,
        "avg_tokens_trim": None,
        "token_reduction_pct": None,
        "reduction_is_against": None,
        "avg_overlap_vs_baseline": None,
        "token_counter": "ceil(characters / 4)",
    }


def test_the_reduction_is_that_of_the_averages_not_the_average_of_reductions() -> None:
    summary = summarise(
        [row("a", "baseline", 1000), row("a", "trim", 900), row("b", "baseline", 10), row("b", "trim", 1)]
    )
    # Averages 505 and 450.5; the average of the reductions would be 50.
    assert summary["token_reduction_pct"] == 11
    assert summary["reduction_is_against"] == "baseline"
    assert (summary["avg_tokens_baseline"], summary["avg_tokens_trim"]) == (505, 451)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("a", "baseline", 40)], {"avg_tokens_baseline": 40, "avg_tokens_trim": None}),
        ([row("a", "trim", 0, 0, "")], {"avg_tokens_trim": 0, "avg_tokens_baseline": None}),
        ([row("a", "baseline", 0, 0, ""), row("a", "trim", 0, 0, "")], {"avg_tokens_trim": 0}),
    ],
    ids=["only the baseline", "only trim, and no chunk", "both, and no chunk"],
)
def test_nothing_to_divide_by_gives_none(rows: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    summary = summarise(rows)
    assert {key: summary[key] for key in expected} == expected
    assert summary["token_reduction_pct"] is None
    assert summary["reduction_is_against"] is None
    assert summary["avg_overlap_vs_baseline"] is None


def test_a_question_without_chunks_does_not_count_for_the_overlap() -> None:
    summary = summarise(
        [
            row("a", "baseline", 8, ids="ab"),
            row("a", "trim", 4, 8, ids="a"),
            row("b", "baseline", 0, ids=""),
            row("b", "trim", 0, ids=""),
        ]
    )
    assert summary["avg_overlap_vs_baseline"] == 0.5
    assert summary["questions"] == 2


def test_a_trim_that_needs_more_tokens_is_a_negative_reduction() -> None:
    assert summarise([row("a", "baseline", 10), row("a", "trim", 12)])["token_reduction_pct"] == -20


def test_tokens_and_per_cent_are_integers_and_overlap_has_two_decimals() -> None:
    summary = summarise(
        [
            row("a", "baseline", 3, ids="abc"),
            row("a", "trim", 2, 3, ids="ab"),
            row("b", "baseline", 4, ids="abc"),
            row("b", "trim", 2, 4, ids="abc"),
        ]
    )
    shown = {
        name: summary[name] for name in ("avg_tokens_baseline", "avg_tokens_trim", "token_reduction_pct")
    }
    # 3.5 is 4, as people round; 42.857 is 43; (2/3 + 1) / 2 is 0.83.
    assert shown == {"avg_tokens_baseline": 4, "avg_tokens_trim": 2, "token_reduction_pct": 43}
    assert all(isinstance(value, int) for value in shown.values())
    assert summary["avg_overlap_vs_baseline"] == 0.83


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["baseline", "trim"]), st.integers(0, 999)), max_size=12
    )
)
def test_a_summary_of_anything_is_json_and_never_a_number_without_a_measurement(
    made: list[tuple[int, str, int]],
) -> None:
    rows = [row(str(number), variant, tokens, tokens + 1) for number, variant, tokens in made]
    summary = json.loads(json.dumps(summarise(rows), allow_nan=False))
    variants = {variant for _, variant, _ in made}
    assert (summary["avg_tokens_baseline"] is None) == ("baseline" not in variants)
    assert (summary["avg_tokens_trim"] is None) == ("trim" not in variants)
    if "trim" not in variants:
        assert summary["token_reduction_pct"] is None
    assert (summary["token_reduction_pct"] is None) == (summary["reduction_is_against"] is None)


# --- its parts


@pytest.mark.parametrize(
    ("variant", "baseline", "expected"),
    [
        ("ab", "ab", 1.0),
        ("ba", "ab", 1.0),
        ("a", "ab", 0.5),
        ("abcd", "ab", 1.0),
        ("cd", "ab", 0.0),
        ("", "ab", 0.0),
        ("aab", "aabb", 1.0),
        ("a", "", None),
        ("", "", None),
    ],
)
def test_overlap_is_over_sets_and_against_the_baseline(
    variant: str, baseline: str, expected: float | None
) -> None:
    assert overlap_vs_baseline(list(variant), list(baseline)) == expected


@pytest.mark.parametrize(
    ("tokens", "before", "expected"),
    [(40, 100, 60.0), (0, 100, 100.0), (5, 0, None), (None, 9, None), (9, None, None)],
)
def test_token_reduction(tokens: float | None, before: float | None, expected: float | None) -> None:
    assert token_reduction_pct(tokens, before) == expected


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (0.125, 2, 0.13),
        (2.675, 2, 2.68),
        (0.5, 0, 1.0),
        (-0.5, 0, -1.0),
        (0.38249, 3, 0.382),
        (0.3825, 3, 0.383),
        (1e-9, 3, 0.0),
        (None, 2, None),
    ],
)
def test_a_five_is_rounded_away_from_zero(value: float | None, decimals: int, expected: float | None) -> None:
    assert rounded(value, decimals) == expected
