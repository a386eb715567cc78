"""The gate: each verdict from the summaries that deserve it. What was not measured is never met."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bib_orchestration.biblioteca.evaluation.gate import (
    ANSWERS_UNMEASURED,
    OVERLAP_PROVES_NOTHING,
    Gate,
    gate,
)


def judged(
    reduction: int | None,
    overlap: float | None,
    answers: bool | None = None,
    *,
    min_sentences: int = 1,
    **changes: Any,
) -> Gate:
    summary = {"token_reduction_pct": reduction, "avg_overlap_vs_baseline": overlap}
    required = {"min_token_reduction_pct": 20, "min_overlap_pct": 70} | changes
    return gate(summary, min_sentences=min_sentences, answers_as_good=answers, **required)


@pytest.mark.parametrize(
    ("reduction", "overlap", "answers", "verdict"),
    [
        (45, 1.0, True, "go"),
        (21, 0.71, True, "go"),
        (45, 1.0, None, "cannot conclude"),
        (45, 1.0, False, "no-go"),
        (20, 1.0, True, "no-go"),
        (45, 0.7, True, "no-go"),
        (-5, 1.0, True, "no-go"),
        (0, 1.0, None, "no-go"),
        (45, 0.0, None, "no-go"),
        (None, None, None, "cannot conclude"),
        (None, 1.0, True, "cannot conclude"),
        (45, None, True, "cannot conclude"),
        (10, None, True, "no-go"),
    ],
)
def test_verdict(reduction: int | None, overlap: float | None, answers: bool | None, verdict: str) -> None:
    assert judged(reduction, overlap, answers).verdict == verdict


def test_it_is_go_only_when_every_condition_was_measured_and_met() -> None:
    for reduction, overlap, answers in itertools.product(
        (None, 5, 45), (None, 0.1, 1.0), (None, False, True)
    ):
        found = judged(reduction, overlap, answers)
        assert (found.verdict == "go") == ((reduction, overlap, answers) == (45, 1.0, True))
        for condition in found.conditions[:2]:
            assert (condition.met is None) == (condition.measured is None)
            assert (condition.note == "no data") == (condition.measured is None)


def test_a_threshold_must_be_exceeded_at_every_overlap_of_two_decimals() -> None:
    # 0.55 * 100 is 55.00000000000001, which would exceed 55.
    for per_cent in range(101):
        condition = judged(45, per_cent / 100, min_overlap_pct=per_cent).condition("overlap")
        assert (condition.measured, condition.met) == (per_cent, False)


def test_the_contracts_two_traps_are_stated() -> None:
    found = judged(45, 1.0)
    assert found.condition("overlap").note == OVERLAP_PROVES_NOTHING
    assert "min_sentences >= 1" in OVERLAP_PROVES_NOTHING
    assert "1 by construction" in OVERLAP_PROVES_NOTHING
    answers = found.condition("answers_as_good")
    assert answers.met is None
    assert answers.note == ANSWERS_UNMEASURED
    assert "41 % fewer tokens, 6.3 % of the answers gone" in ANSWERS_UNMEASURED


def test_the_traps_are_not_stated_where_they_do_not_hold() -> None:
    found = judged(45, 0.9, True, min_sentences=0)
    assert found.condition("overlap").note == ""
    assert found.condition("answers_as_good").note == ""
