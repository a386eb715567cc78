"""Evaluating: an A/B run from its questions to its files and rows. For assets, the job and the command line."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from bib_orchestration.biblioteca.evaluation.ab_test import AbRun, AbSettings, EvaluationError, run_ab
from bib_orchestration.biblioteca.evaluation.gate import Gate
from bib_orchestration.biblioteca.evaluation.golden_set import golden_set, newest_questions, today
from bib_orchestration.biblioteca.evaluation.runs import StoredRun, load_runs, output_with_gate, write_run
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse import query_log

log = logging.getLogger(__name__)

GOLDEN_SET = "golden_set"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An A/B run that was made and stored."""

    run: AbRun
    gate: Gate
    stored: StoredRun

    @property
    def output(self) -> dict[str, Any]:
        """The contract's output, with the gate beside it."""
        return output_with_gate(self.run, self.gate)


def ab_settings(settings: Settings, **changes: Any) -> AbSettings:
    """The A/B settings of bib.toml; `changes` that are not None replace them. Raises EvaluationError."""
    asked = AbSettings(
        top_k=settings.evaluation.top_k,
        trim_mode=settings.evaluation.trim_mode,
        trim_threshold=settings.evaluation.trim_threshold,
        trim_window=settings.evaluation.trim_window,
        trim_min_sentences=settings.retrieval.trim_min_sentences,
        ranking=settings.retrieval.ranking,
    )
    return replace(asked, **{name: value for name, value in changes.items() if value is not None})


def evaluate_day(library: Library, day: date, settings: AbSettings) -> Evaluation:
    """Evaluate the golden set of a day: the one that was extracted, or else the one that would be now.

    A day without rows may have no questions, or may never have been extracted; only the first is an A/B run
    of 0 questions. Raises NoIndex, EmbeddingError.
    """
    golden = golden_set(library.warehouse, day)
    if not golden.questions:
        golden = newest_questions(
            library.warehouse,
            library.models[GOLDEN_SET],
            day,
            questions=library.settings.evaluation.questions,
            timezone=library.settings.schedules.timezone,
        )
        if golden.questions:
            log.warning(
                "the golden set of %s is not in the table; its %d questions were asked for now. "
                "`bib backfill --days %s --assets golden_set` extracts it",
                day,
                len(golden.questions),
                day,
            )
    return _evaluate(library, golden.questions, settings, day, golden.golden_hash)


def evaluate_now(
    library: Library,
    settings: AbSettings,
    questions: Sequence[str] | None = None,
    *,
    day: date | None = None,
    last: int | None = None,
) -> Evaluation:
    """Evaluate `questions`, or else the golden set of `day` (today so far by default), `last` questions long.

    Raises NoIndex, EmbeddingError, EvaluationError.
    """
    if questions is not None:
        return _evaluate(library, questions, settings, None, None)
    if last is not None and last < 1:
        raise EvaluationError(f"the golden set is to have {last} questions; at least 1 is right")
    query_log.load(library.warehouse, library.settings.query_log)
    timezone = library.settings.schedules.timezone
    until = day or today(timezone)
    golden = newest_questions(
        library.warehouse,
        library.models[GOLDEN_SET],
        until,
        questions=last or library.settings.evaluation.questions,
        timezone=timezone,
    )
    return _evaluate(library, golden.questions, settings, day, golden.golden_hash)


def _evaluate(
    library: Library,
    questions: Sequence[str],
    settings: AbSettings,
    day: date | None,
    golden_hash: str | None,
) -> Evaluation:
    index = library.index.snapshot()
    run = run_ab(
        questions, settings, index=index, embed_question=lambda text: library.question(text, index).vector
    )
    verdict = run.gate(library.settings.evaluation)
    stored = write_run(
        library.settings.runs, run, verdict, index.generation, day=day, golden_hash=golden_hash
    )
    for unreadable in load_runs(library.warehouse, library.settings.runs).unreadable:
        log.warning("an A/B run was left out: %s", unreadable)
    return Evaluation(run, verdict, stored)
