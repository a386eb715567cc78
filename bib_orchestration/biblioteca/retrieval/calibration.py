"""What a model's cosines mean: how high they are between questions and sentences that have nothing to do with
each other.

Cosines of two models cannot be compared: an unrelated sentence scores .03 with one and .76 with another. So a
threshold is read off the model's own cosines, without any label: between questions that were logged and
sentences drawn at random, hardly any of which answer them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Of the cosines with random sentences, the share that the threshold is above.
THRESHOLD_PERCENTILE = 95.0
# Sentences are nearer to each other than questions are to sentences: of their cosines, a lower share. On XQuAD 86 to
# 89 % of them lie below the threshold that questions give, on two documentations 77 %; a lower threshold loses less.
STAND_IN_PERCENTILE = 80.0
# Below it, a threshold keeps more than half of what has nothing to do with a question.
LOWEST_PERCENTILE = 50.0
MOST_QUESTIONS = 200
MOST_CONTENTS = 1000
# How much of each neighbour's vector is added to a sentence's. Measured: benchmarks/README.md.
NEIGHBOUR_SHARE = 0.2
# With fewer, the sentences themselves stand in for the questions.
FEWEST_QUESTIONS = 20
# Fewer sentences say nothing of what a model's cosines mean.
FEWEST_SENTENCES = 100
# A calibration is made anew when there are so many more or fewer questions or contents than it was made from.
STALE_SHARE = 0.1
DECIMALS = 4
_SEED = "calibration"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A model's cosines on one corpus.

    threshold: the 95th percentile of those between questions and random sentences, each seen with its neighbours
        (see `in_context`): what mode "cosine-auto" trims by.
    alone: the same of sentences by themselves: what mode "cosine" might trim by.
    lowest, highest: between these a threshold of mode "cosine" tells something apart: the median of those cosines,
        and the median over the questions of the best cosine with any of the sentences.
    questions: how many logged ones it was made from; 0: sentences stood in for them.
    sentences: how many.
    contents: how many the index held.
    """

    threshold: float
    alone: float
    lowest: float
    highest: float
    questions: int
    sentences: int
    contents: int


def in_context(sentences: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors of a chunk's sentences, in their order, each leaning a little to its neighbours: who or what a
    sentence speaks of often stands in the one before.

    >>> in_context(np.array([[1, 0], [0, 1]], np.float32)).astype(float).round(2).tolist()
    [[0.98, 0.2], [0.2, 0.98]]
    """
    leaning = sentences.copy()
    leaning[1:] += NEIGHBOUR_SHARE * sentences[:-1]
    leaning[:-1] += NEIGHBOUR_SHARE * sentences[1:]
    lengths = np.linalg.norm(leaning, axis=1, keepdims=True)
    return (leaning / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def calibrate(
    questions: NDArray[np.float32], contents: Sequence[NDArray[np.float32]], *, of: int
) -> Calibration | None:
    """The calibration of questions' vectors, shape (n, dimension), with those of the sentences of some contents,
    drawn among `of`. All are of length 1. None without sentences.

    With fewer than 20 questions, sentences stand in for them: they are compared with those of other contents, and
    the percentile is the 80th.
    """
    sentences = np.concatenate(
        [vectors for vectors in contents if len(vectors)] or [np.empty((0, 0), np.float32)]
    )
    if not len(sentences):
        return None
    leaning = np.concatenate([in_context(vectors) for vectors in contents if len(vectors)])
    stand_in = len(questions) < FEWEST_QUESTIONS
    alone, with_neighbours = (
        _of_each_other(contents, each) if stand_in else questions @ each.T for each in (sentences, leaning)
    )
    if not np.isfinite(alone).any():
        return None
    percentile = STAND_IN_PERCENTILE if stand_in else THRESHOLD_PERCENTILE
    lowest, middle = np.nanpercentile(alone, [LOWEST_PERCENTILE, percentile])
    return Calibration(
        threshold=_rounded(np.nanpercentile(with_neighbours, percentile)),
        alone=_rounded(middle),
        lowest=_rounded(lowest),
        highest=_rounded(np.nanmedian(np.nanmax(alone, axis=1))),
        questions=0 if stand_in else len(questions),
        sentences=len(sentences),
        contents=of,
    )


def _of_each_other(
    contents: Sequence[NDArray[np.float32]], sentences: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Cosines between the first sentence of each content and all sentences of others; NaN within one."""
    lengths = np.array([len(vectors) for vectors in contents if len(vectors)])
    of_content = np.repeat(np.arange(len(lengths)), lengths)
    first = (np.cumsum(lengths) - lengths)[:MOST_QUESTIONS]
    cosines: NDArray[np.float32] = sentences[first] @ sentences.T
    cosines[of_content[first][:, None] == of_content] = np.nan
    # One content has no others.
    return cosines if len(lengths) > 1 else np.empty((0, len(sentences)), np.float32)


def _rounded(value: np.floating) -> float:
    return round(float(value), DECIMALS)


def is_fresh(calibration: Calibration | None, questions: int, contents: int) -> bool:
    """Whether a calibration still is of about as many questions and contents as there are now.

    >>> made = Calibration(0.17, 0.16, 0.03, 0.48, questions=100, sentences=900, contents=300)
    >>> is_fresh(made, 109, 280), is_fresh(made, 120, 300), is_fresh(made, 19, 300), is_fresh(None, 0, 0)
    (True, False, False, True)
    """
    if calibration is None:
        return contents == 0
    counted = questions if questions >= FEWEST_QUESTIONS else 0
    return all(
        abs(now - then) <= STALE_SHARE * then
        for now, then in ((counted, calibration.questions), (contents, calibration.contents))
    )


def drawn(names: Iterable[str], count: int) -> list[str]:
    """`count` of `names`, at random but the same each time: when names are added, most of the draw stays."""
    return sorted(set(names), key=_number)[:count]


def _number(name: str) -> bytes:
    return hashlib.blake2b(f"{_SEED}\0{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
