"""What calibration.py promises: a threshold read off a model's own cosines, without a label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bib_orchestration.biblioteca.retrieval.calibration import (
    FEWEST_QUESTIONS,
    Calibration,
    calibrate,
    drawn,
    in_context,
    is_fresh,
)

RANDOM = np.random.default_rng(7)


def unit(count: int, dimension: int = 32) -> Any:
    vectors = RANDOM.normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


CONTENTS = [unit(count) for count in (1, 3, 2, 5, 4) * 20]
QUESTIONS = unit(50)


class TestThreshold:
    def test_is_the_percentile_of_all_pairs(self) -> None:
        made = calibrate(QUESTIONS, CONTENTS, of=1000)
        assert made is not None
        alone = QUESTIONS @ np.concatenate(CONTENTS).T
        leaning = QUESTIONS @ np.concatenate([in_context(vectors) for vectors in CONTENTS]).T
        assert made.alone == pytest.approx(np.percentile(alone, 95), abs=1e-4)
        assert made.threshold == pytest.approx(np.percentile(leaning, 95), abs=1e-4)
        assert made.lowest == pytest.approx(np.median(alone), abs=1e-4)
        assert made.highest == pytest.approx(np.median(alone.max(axis=1)), abs=1e-4)
        assert (made.questions, made.sentences, made.contents) == (50, 300, 1000)

    def test_follows_the_model(self) -> None:
        """A model whose cosines all lie high has a high threshold."""
        low = calibrate(QUESTIONS, CONTENTS, of=100)
        common = np.eye(1, 32, dtype=np.float32)[0] * 2
        shifted = [_unit(vectors + common) for vectors in CONTENTS]
        high = calibrate(_unit(QUESTIONS + common), shifted, of=100)
        assert low is not None
        assert high is not None
        assert high.threshold > low.threshold + 0.3
        assert high.lowest > 0.38

    @pytest.mark.parametrize("questions", [0, FEWEST_QUESTIONS - 1])
    def test_with_too_few_questions_sentences_of_other_contents_stand_in(self, questions: int) -> None:
        # Within a content all sentences are alike, which must not count.
        contents = [np.repeat(vector[None], 3, axis=0) for vector in unit(40)]
        made = calibrate(QUESTIONS[:questions], contents, of=40)
        assert made is not None
        assert made.questions == 0
        assert made.highest < 0.9

    def test_sentences_that_stand_in_keep_more_than_they_would_by_the_same_percentile(self) -> None:
        made = calibrate(QUESTIONS[:0], CONTENTS, of=100)
        assert made is not None
        sentences = np.concatenate(CONTENTS)
        numbers = np.repeat(np.arange(len(CONTENTS)), [len(vectors) for vectors in CONTENTS])
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        cosines = sentences[first] @ sentences.T
        of_others = cosines[numbers[first][:, None] != numbers]
        assert made.alone == pytest.approx(np.percentile(of_others, 80), abs=1e-4)

    @pytest.mark.parametrize("contents", [[], [np.empty((0, 32), np.float32)]])
    def test_without_sentences_there_is_none(self, contents: list[Any]) -> None:
        assert calibrate(QUESTIONS, contents, of=0) is None

    def test_one_content_and_no_question(self) -> None:
        assert calibrate(QUESTIONS[:0], [unit(3)], of=1) is None

    def test_a_content_without_sentences_among_others(self) -> None:
        with_empty = [*CONTENTS[:50], np.empty((0, 32), np.float32), *CONTENTS[50:]]
        assert calibrate(QUESTIONS, with_empty, of=9) == calibrate(QUESTIONS, CONTENTS, of=9)
        assert calibrate(QUESTIONS[:0], with_empty, of=9) == calibrate(QUESTIONS[:0], CONTENTS, of=9)


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class TestInContext:
    def test_lengths_are_one_and_zero_stays_zero(self) -> None:
        vectors = unit(5)
        vectors[2:] = 0
        leaning = in_context(vectors)
        assert np.linalg.norm(leaning[:3], axis=1) == pytest.approx(1, abs=1e-6)
        assert (leaning[3:] == 0).all()

    @pytest.mark.parametrize("count", [0, 1])
    def test_without_neighbours_it_is_what_it_was(self, count: int) -> None:
        vectors = unit(count)
        assert in_context(vectors) == pytest.approx(vectors)
        assert in_context(vectors) is not vectors


class TestDrawn:
    def test_the_same_each_time_whatever_the_order(self) -> None:
        names = [f"c{number}" for number in range(100)]
        assert drawn(names, 10) == drawn(reversed(names), 10)
        assert len(set(drawn(names, 10))) == 10
        assert drawn(names, 10) != names[:10]
        assert set(drawn(names, 200)) == set(names)

    def test_most_of_it_stays_when_names_are_added(self) -> None:
        names = [f"c{number}" for number in range(100)]
        more = [*names, *(f"d{number}" for number in range(10))]
        assert len({*drawn(names, 50)} & {*drawn(more, 50)}) >= 40


@pytest.mark.parametrize(
    ("questions", "contents", "fresh"),
    [
        (100, 200, True),
        (110, 220, True),
        (111, 200, False),
        (89, 200, False),
        (100, 221, False),
        (100, 179, False),
    ],
)
def test_a_calibration_is_kept_while_little_has_changed(questions: int, contents: int, fresh: bool) -> None:
    made = Calibration(0.2, 0.2, 0.0, 0.5, questions=100, sentences=900, contents=200)
    assert is_fresh(made, questions, contents) is fresh
    without = replace(made, questions=0)
    assert is_fresh(without, FEWEST_QUESTIONS - 1, contents) is (abs(contents - 200) <= 20)
    assert not is_fresh(without, FEWEST_QUESTIONS, 200)
