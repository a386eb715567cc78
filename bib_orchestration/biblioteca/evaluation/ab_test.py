"""The A/B run: the same questions under each variant, compared with the first.

A question is embedded and searched once; the variants differ in what is made of the chunks that were found.
Equal questions, index and settings give equal results, to the byte: timings are kept apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.evaluation.gate import Gate, gate
from bib_orchestration.biblioteca.evaluation.metrics import (
    BASELINE,
    OVERLAP_DECIMALS,
    SCORE_DECIMALS,
    TRIM,
    figures,
    overlap_vs_baseline,
    rounded,
    summarise,
)
from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.retrieval.chunk import (
    MAX_TOP_K,
    Filters,
    Question,
    Retrieval,
    RetrievalOptions,
)
from bib_orchestration.biblioteca.retrieval.retrieve import search
from bib_orchestration.biblioteca.retrieval.trim import trim_retrieval
from bib_orchestration.biblioteca.settings import TRIM_MODES, EvaluationSettings, TrimMode

VARIANTS = (BASELINE, TRIM)

EmbedQuestion = Callable[[str], NDArray[np.float32]]


class EvaluationError(ValueError):
    """An A/B run was asked for what cannot be; the message says what can."""


@dataclass(frozen=True, slots=True)
class AbSettings:
    """What an A/B run is asked for; the names and defaults are the contract's.

    variants: any of "baseline" and "trim", in the order of the results.
    top_k: chunks a question, 1 to 20.
    trim_mode, trim_threshold, trim_window, trim_min_sentences: of the trimmed variant.
    ranking: how chunks are ranked, for both.
    source_type, app: what chunks must belong to.
    synthesize: whether answers are made and judged, which needs a language model.
    """

    variants: tuple[str, ...] = VARIANTS
    top_k: int = 5
    trim_mode: TrimMode = "cosine"
    trim_threshold: float = 0.38
    trim_window: int = 1
    trim_min_sentences: int = 1
    ranking: str = "vector"
    source_type: str | None = None
    app: str | None = None
    synthesize: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOP_K:
            raise EvaluationError(f"top_k is {self.top_k}; 1 to {MAX_TOP_K} is right")
        unknown = [name for name in self.variants if name not in VARIANTS]
        if unknown or not self.variants or len(set(self.variants)) < len(self.variants):
            raise EvaluationError(
                f"variants are {', '.join(map(repr, self.variants)) or 'none'}; "
                f"any of {', '.join(map(repr, VARIANTS))} is right, each once"
            )
        if self.trim_mode not in TRIM_MODES:
            raise EvaluationError(f"trim_mode is {self.trim_mode!r}; {', '.join(TRIM_MODES)} are right")
        if self.trim_min_sentences < 0:
            raise EvaluationError(
                f"trim_min_sentences is {self.trim_min_sentences}; a number from 0 up is right"
            )
        if self.trim_window < 0 or not -1 <= self.trim_threshold <= 1:
            raise EvaluationError(
                f"trim_threshold is {self.trim_threshold} and trim_window {self.trim_window}; "
                "a cosine from -1 to 1 and a number from 0 up are right"
            )
        if self.synthesize:
            raise EvaluationError("synthesize: answers are not built yet; leave it false")

    @property
    def options(self) -> RetrievalOptions:
        """How the trimmed variant retrieves."""
        return RetrievalOptions(
            ranking="hybrid" if self.ranking == "hybrid" else "vector",
            trim=True,
            trim_mode=self.trim_mode,
            trim_threshold=self.trim_threshold,
            trim_min_sentences=self.trim_min_sentences,
            trim_window=self.trim_window,
        )


@dataclass(frozen=True, slots=True)
class AbResult:
    """A question under a variant: a row of `ab_results`. Scores and overlap are rounded by the contract."""

    rank: int
    question: str
    variant: str
    chunk_ids: tuple[str, ...]
    top_score: float | None
    tokens: int
    tokens_before: int
    overlap_vs_baseline: float | None


@dataclass(frozen=True, slots=True)
class AbRun:
    """An A/B run: its results in the order of the questions, and how long each question took (ms)."""

    settings: AbSettings
    results: tuple[AbResult, ...]
    latencies_ms: tuple[float, ...]

    @property
    def _rows(self) -> list[dict[str, Any]]:
        return [{name: getattr(result, name) for name in AbResult.__slots__} for result in self.results]

    @property
    def summary(self) -> dict[str, Any]:
        """The contract's summary."""
        return summarise(
            self._rows,
            top_k=self.settings.top_k,
            trim_threshold=self.settings.trim_threshold,
            trim_window=self.settings.trim_window,
        )

    def gate(self, settings: EvaluationSettings) -> Gate:
        """The gate that bib.toml sets, on this run's figures as they are before rounding."""
        return gate(
            figures(self._rows),
            min_sentences=self.settings.trim_min_sentences,
            min_token_reduction_pct=settings.min_token_reduction_pct,
            min_overlap_pct=settings.min_overlap_pct,
        )

    @property
    def output(self) -> dict[str, Any]:
        """The contract's output: `summary` and `results`."""
        questions: dict[str, dict[str, Any]] = {}
        for result in self.results:
            shown: dict[str, Any] = {
                "chunk_ids": list(result.chunk_ids),
                "top_score": result.top_score,
                "tokens": result.tokens,
                "tokens_before": result.tokens_before,
            }
            if result.variant != BASELINE:
                shown["overlap_vs_baseline"] = result.overlap_vs_baseline
            questions.setdefault(result.question, {})[result.variant] = shown
        return {
            "summary": self.summary,
            "results": [
                {"question": question, "variants": variants} for question, variants in questions.items()
            ],
        }


def run_ab(
    questions: Iterable[str], settings: AbSettings, *, index: Snapshot, embed_question: EmbedQuestion
) -> AbRun:
    """Run each distinct question that is not blank under each variant."""
    results: list[AbResult] = []
    latencies: list[float] = []
    for rank, text in enumerate(distinct(questions), start=1):
        started = time.perf_counter()
        question = Question(text, embed_question(text))
        results += _results(rank, question, settings, index)
        latencies.append((time.perf_counter() - started) * 1000)
    return AbRun(settings, tuple(results), tuple(latencies))


def distinct(questions: Iterable[str]) -> list[str]:
    """The questions without white space around them, each once, blank ones left out."""
    return list(dict.fromkeys(text for question in questions if (text := question.strip())))


def _results(rank: int, question: Question, settings: AbSettings, index: Snapshot) -> list[AbResult]:
    filters = Filters(source_type=settings.source_type, app=settings.app)
    whole = Retrieval(tuple(search(question, settings.top_k, settings.options, filters, index=index)))
    made = {BASELINE: whole}
    if TRIM in settings.variants:
        made[TRIM] = trim_retrieval(question, whole, settings.options)
    baseline_ids = _ids(whole) if BASELINE in settings.variants else ()
    return [_result(rank, question, variant, made[variant], baseline_ids) for variant in settings.variants]


def _result(
    rank: int, question: Question, variant: str, retrieval: Retrieval, baseline_ids: Sequence[str]
) -> AbResult:
    overlap = None if variant == BASELINE else overlap_vs_baseline(_ids(retrieval), baseline_ids)
    return AbResult(
        rank=rank,
        question=question.text,
        variant=variant,
        chunk_ids=_ids(retrieval),
        top_score=rounded(retrieval.top_score, SCORE_DECIMALS),
        tokens=retrieval.tokens_in_context,
        tokens_before=retrieval.tokens_before,
        overlap_vs_baseline=rounded(overlap, OVERLAP_DECIMALS),
    )


def _ids(retrieval: Retrieval) -> tuple[str, ...]:
    return tuple(chunk.content_id for chunk in retrieval.chunks)
