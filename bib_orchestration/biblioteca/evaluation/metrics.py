"""The A/B run's metrics, by the contract: tokens, reduction, overlap. Nothing that was not measured is a
number: it is None, which JSON shows as null and people as "no data"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from bib_orchestration.biblioteca.corpus.sizes import TOKEN_COUNTER

BASELINE = "baseline"
TRIM = "trim"
SCORE_DECIMALS = 3
OVERLAP_DECIMALS = 2


def overlap_vs_baseline(variant_ids: Collection[str], baseline_ids: Collection[str]) -> float | None:
    """|variant ∩ baseline| / |baseline|, over sets; None when the baseline is empty.

    >>> overlap_vs_baseline(["a", "c"], ["a", "b"])
    0.5
    >>> overlap_vs_baseline(["a"], []) is None
    True
    """
    baseline = set(baseline_ids)
    if not baseline:
        return None
    return len(baseline & set(variant_ids)) / len(baseline)


def token_reduction_pct(tokens: float | None, tokens_before: float | None) -> float | None:
    """(1 - tokens / tokens_before) x 100; None when there is nothing to divide by.

    >>> token_reduction_pct(40, 100), token_reduction_pct(0, 0)
    (60.0, None)
    """
    if tokens is None or not tokens_before:
        return None
    return (1 - tokens / tokens_before) * 100


def figures(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of rows {question, variant, chunk_ids, top_score, tokens, tokens_before}, not rounded.

    The reduction is that of the averages. Without a baseline it is taken against `tokens_before` of the
    trimmed variant, and `reduction_is_against` says so.
    """
    of_variant: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in results:
        of_variant.setdefault(row["variant"], {})[row["question"]] = row
    baseline, trim = of_variant.get(BASELINE, {}), of_variant.get(TRIM, {})
    against = baseline or trim
    before = _mean([row["tokens" if baseline else "tokens_before"] for row in against.values()])
    reduction = token_reduction_pct(_mean_tokens(trim), before)
    overlaps = [
        overlap_vs_baseline(row["chunk_ids"], baseline[question]["chunk_ids"])
        for question, row in trim.items()
        if question in baseline
    ]
    return {
        "questions": len({row["question"] for row in results}),
        "avg_tokens_baseline": _mean_tokens(baseline),
        "avg_tokens_trim": _mean_tokens(trim),
        "token_reduction_pct": reduction,
        "reduction_is_against": None if reduction is None else (BASELINE if baseline else "tokens_before"),
        "avg_overlap_vs_baseline": _mean([value for value in overlaps if value is not None]),
    }


def summarise(
    results: Sequence[Mapping[str, Any]],
    *,
    top_k: int | None = None,
    trim_threshold: float | None = None,
    trim_window: int | None = None,
) -> dict[str, Any]:
    """The contract's summary of rows (see `figures`): tokens and per cent are integers, overlap has two
    decimals."""
    exact = figures(results)
    return {
        "questions": exact["questions"],
        "top_k": top_k,
        "trim_threshold": trim_threshold,
        "trim_window": trim_window,
        "avg_tokens_baseline": _integer(exact["avg_tokens_baseline"]),
        "avg_tokens_trim": _integer(exact["avg_tokens_trim"]),
        "token_reduction_pct": _integer(exact["token_reduction_pct"]),
        "reduction_is_against": exact["reduction_is_against"],
        "avg_overlap_vs_baseline": rounded(exact["avg_overlap_vs_baseline"], OVERLAP_DECIMALS),
        "token_counter": TOKEN_COUNTER,
    }


def rounded(value: float | None, decimals: int) -> float | None:
    """`value` with so many decimals, a five rounded away from zero as people do; None stays None.

    >>> rounded(0.125, 2), rounded(None, 2)
    (0.13, None)
    """
    if value is None:
        return None
    return float(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))


def _integer(value: float | None) -> int | None:
    return None if value is None else int(rounded(value, 0) or 0)


def _mean_tokens(rows: Mapping[str, Mapping[str, Any]]) -> float | None:
    return _mean([row["tokens"] for row in rows.values()])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
