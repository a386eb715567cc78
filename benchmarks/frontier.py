"""What a way of trimming saves, and what it loses: over all of its settings, and held out.

Questions come from articles, and questions of one article resemble each other. So a setting is chosen on the
questions of half of the articles, for the answers it keeps there, and scored on those of the other half; and an
interval comes from drawing articles, not questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TARGETS = (0.99, 0.98, 0.95)
HALVINGS = 20
DRAWS = 2000
SEED = 20261130


@dataclass(frozen=True)
class Outcomes:
    """What became of each question under each setting of a way of trimming.

    tokens: of the context, shape (settings, questions). kept: whether the answer still stands, same shape.
    before: tokens of the whole chunks, by question. article: by question.
    """

    tokens: NDArray[np.float64]
    kept: NDArray[np.bool_]
    before: NDArray[np.float64]
    article: NDArray[np.int64]

    @property
    def reduction(self) -> NDArray[np.float64]:
        """By setting, over all questions."""
        saved: NDArray[np.float64] = 1 - self.tokens.sum(axis=1) / self.before.sum()
        return saved

    @property
    def retention(self) -> NDArray[np.float64]:
        """By setting, over all questions."""
        share: NDArray[np.float64] = self.kept.mean(axis=1)
        return share

    def at(self, setting: int) -> HeldOut:
        """One setting that was not chosen by any of these questions."""
        return _with_intervals(
            self.tokens[setting], self.kept[setting].astype(float), self.before, self.article, None
        )

    def held_out(self, target: float) -> HeldOut | None:
        """The setting that saves most at `target` of the answers on one half of the articles, scored on the other;
        the mean of many halvings, each both ways. None where no setting keeps so many."""
        random = np.random.default_rng(SEED)
        articles = np.unique(self.article)
        tokens, kept, times = (np.zeros(len(self.before)) for _ in range(3))
        chosen = []
        for _ in range(HALVINGS):
            first = np.isin(self.article, random.permutation(articles)[: len(articles) // 2])
            for half in (first, ~first):
                setting = self._best(half, target)
                if setting is None:
                    return None
                chosen.append(setting)
                tokens[~half] += self.tokens[setting, ~half]
                kept[~half] += self.kept[setting, ~half]
                times[~half] += 1
        median = int(np.median(chosen))
        return _with_intervals(tokens / times, kept / times, self.before, self.article, median)

    def _best(self, questions: NDArray[np.bool_], target: float) -> int | None:
        enough = np.flatnonzero(self.kept[:, questions].mean(axis=1) >= target)
        if not len(enough):
            return None
        return int(enough[np.argmin(self.tokens[enough][:, questions].sum(axis=1))])


@dataclass(frozen=True)
class HeldOut:
    """A share of tokens saved and of answers kept, each with its 95 % interval, and the setting (the median of those
    chosen)."""

    reduction: float
    reduction_interval: tuple[float, float]
    retention: float
    retention_interval: tuple[float, float]
    setting: int | None


def _with_intervals(
    tokens: NDArray[np.float64],
    kept: NDArray[np.float64],
    before: NDArray[np.float64],
    article: NDArray[np.int64],
    setting: int | None,
) -> HeldOut:
    numbers = np.unique(article, return_inverse=True)[1]
    count = numbers.max() + 1
    sums = np.stack(
        [np.bincount(numbers, each, count) for each in (tokens, before, kept, np.ones(len(kept)))]
    )
    drawn = np.random.default_rng(SEED).integers(0, count, (DRAWS, count))
    of_draws = sums[:, drawn].sum(axis=2)
    return HeldOut(
        float(1 - tokens.sum() / before.sum()),
        _interval(1 - of_draws[0] / of_draws[1]),
        float(kept.mean()),
        _interval(of_draws[2] / of_draws[3]),
        setting,
    )


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True)
class Sentences:
    """All candidate sentences of all questions, in the order of questions, chunks and text; arrays by sentence.

    question, chunk: their numbers, ascending. start, end: in the chunk's text. first_line, last_line: of the chunk's.
    outside: characters of the chunk before its first sentence and after its last: white space, which stays when all
    sentences do. answers: whether the answer, or a part of it, is in it.
    """

    question: NDArray[np.int64]
    chunk: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first_line: NDArray[np.int64]
    last_line: NDArray[np.int64]
    outside: NDArray[np.int64]
    answers: NDArray[np.bool_]

    def neighbours(self, kept: NDArray[np.bool_], window: int) -> NDArray[np.bool_]:
        """`kept`, and so many sentences on either side in the same chunk."""
        wider = kept.copy()
        for step in range(1, window + 1):
            same = self.chunk[step:] == self.chunk[:-step]
            wider[step:] |= same & kept[:-step]
            wider[:-step] |= same & kept[step:]
        return wider

    def best_of_chunk(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The first of the best of each chunk."""
        order = np.lexsort((np.arange(len(scores)), -scores, self.chunk))
        first = np.r_[True, np.diff(self.chunk[order]) > 0]
        best = np.zeros(len(scores), np.bool_)
        best[order[first]] = True
        return best

    def best_of_question(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """By sentence, the best score of its question."""
        best = np.full(self.question.max() + 1, -np.inf)
        np.maximum.at(best, self.question, scores)
        return best[self.question]

    def outcome(
        self, kept: NDArray[np.bool_], questions: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Tokens of the context, and whether the answer stands, by question: as `text_of` would write it."""
        begins = np.r_[True, np.diff(self.chunk) > 0]
        after_kept = np.r_[False, kept[:-1]] & ~begins
        places = np.arange(len(kept))
        chunk_begin = np.maximum.accumulate(np.where(begins, places, 0))
        last_kept = np.maximum.accumulate(np.where(kept, places, -1))
        before = np.r_[-1, last_kept[:-1]]
        resumes = kept & ~after_kept & (before >= chunk_begin)
        # Within a line a mark is 7 characters, and 9 where a line ends in the gap.
        mark = np.where(self.first_line == self.last_line[np.maximum(before, 0)], 7, 9)
        gap = np.where(after_kept, self.start - np.r_[0, self.end[:-1]], np.where(resumes, mark, 0))
        characters = np.bincount(self.chunk, np.where(kept, self.end - self.start + gap, 0))
        whole = np.bincount(self.chunk, ~kept) == 0
        of_question, outside = (np.zeros(len(characters), np.int64) for _ in range(2))
        of_question[self.chunk] = self.question
        outside[self.chunk] = self.outside
        characters += whole * outside
        tokens = np.bincount(of_question, np.ceil(characters / 4), questions)
        lost = np.bincount(self.question, self.answers & ~kept, questions) > 0
        return tokens, ~lost


def outcomes(
    sentences: Sentences,
    choices: Sequence[NDArray[np.bool_]],
    before: NDArray[np.float64],
    article: NDArray[np.int64],
) -> Outcomes:
    """Of the sentences that are kept under each setting."""
    pairs = [sentences.outcome(kept, len(before)) for kept in choices]
    return Outcomes(
        np.stack([tokens for tokens, _ in pairs]), np.stack([kept for _, kept in pairs]), before, article
    )
