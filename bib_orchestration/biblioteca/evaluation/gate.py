"""The gate: may a change to retrieval go live? By the contract: token reduction, overlap, answers as good.

A condition that was not measured is never met. So without labels and without synthesis, which alone can
tell whether answers are as good, the verdict is "cannot conclude" at best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bib_orchestration.biblioteca.evaluation.metrics import OVERLAP_DECIMALS, rounded

Verdict = Literal["go", "no-go", "cannot conclude"]

OVERLAP_PROVES_NOTHING = (
    "proves nothing: with min_sentences >= 1 trimming never drops a chunk, so overlap is 1 by construction"
)
ANSWERS_UNMEASURED = (
    "unmeasured: tokens can fall and overlap stay at 1 while answers are lost (on XQuAD-es with the offline "
    "model at threshold 0.38 and window 1: 41 % fewer tokens, 6.3 % of the answers gone); labels or synthesis "
    "are needed to tell"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the gate.

    name: what is asked for.
    measured: the value found; None when there is none.
    required: the value that must be exceeded; None where no number says it.
    met: whether it holds; None when it was not measured.
    note: what a reader must know of it.
    """

    name: str
    measured: float | None
    required: float | None
    met: bool | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """The conditions and what follows from them."""

    conditions: tuple[Condition, ...]

    @property
    def verdict(self) -> Verdict:
        met = [condition.met for condition in self.conditions]
        if False in met:
            return "no-go"
        return "cannot conclude" if None in met else "go"

    def condition(self, name: str) -> Condition:
        """The condition of that name."""
        return next(condition for condition in self.conditions if condition.name == name)


def gate(
    summary: Mapping[str, Any],
    *,
    min_sentences: int,
    min_token_reduction_pct: float,
    min_overlap_pct: float,
    answers_as_good: bool | None = None,
) -> Gate:
    """The gate for a summary (see `metrics.summarise`).

    >>> summary = {"token_reduction_pct": 45, "avg_overlap_vs_baseline": 1.0}
    >>> gate(summary, min_sentences=1, min_token_reduction_pct=20, min_overlap_pct=70).verdict
    'cannot conclude'
    """
    reduction = rounded(summary["token_reduction_pct"], OVERLAP_DECIMALS)
    overlap = summary["avg_overlap_vs_baseline"]
    # Rounded, or 0.55 would be 55.00000000000001 per cent, and exceed 55.
    overlap_pct = None if overlap is None else rounded(overlap * 100, OVERLAP_DECIMALS)
    return Gate(
        (
            Condition(
                "token_reduction",
                reduction,
                min_token_reduction_pct,
                None if reduction is None else reduction > min_token_reduction_pct,
                "no data" if reduction is None else "",
            ),
            Condition(
                "overlap",
                overlap_pct,
                min_overlap_pct,
                None if overlap_pct is None else overlap_pct > min_overlap_pct,
                "no data" if overlap is None else (OVERLAP_PROVES_NOTHING if min_sentences >= 1 else ""),
            ),
            Condition(
                "answers_as_good",
                None,
                None,
                answers_as_good,
                ANSWERS_UNMEASURED if answers_as_good is None else "",
            ),
        )
    )
