"""The rows whose vectors are nearest to a question's, exactly: all are held in memory, and all are scored.

Up to some 100,000 rows a product over all vectors costs little, needs no index to be built, and always finds
the true neighbours. `approximate` is for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.occurrences import Matching

# Decimals of a score: further ones depend on the machine's arithmetic.
SCORE_DECIMALS = 6

Scores = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the vectors say of a question.

    rows: those that may be shown, ascending.
    near: those of them among which the best by cosine are, ascending.
    cosines: by row of the snapshot, rounded; NaN of rows that were not scored.
    """

    rows: Rows
    near: Rows
    cosines: Scores


class Vectors(Protocol):
    """The vectors of a snapshot's rows."""

    def nearest(self, question: NDArray[np.float32], matching: Matching, texts: int) -> Neighbours:
        """The best rows of `matching`; `near` has as many different texts as are asked for, if there are."""
        ...

    def scored(self, question: NDArray[np.float32], rows: Rows, found: Neighbours) -> Neighbours:
        """`found`, with the cosines of some more rows. Those that cannot have one are left out of `rows`."""
        ...


class HeldVectors:
    """Vectors in memory: float32, shape (rows, dimension). All rows are near: they are all scored."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def nearest(self, question: NDArray[np.float32], matching: Matching, texts: int) -> Neighbours:
        cosines = products(self._vectors, question)
        rows = only_scored(matching.rows, cosines)
        return Neighbours(rows, rows, cosines)

    def scored(self, question: NDArray[np.float32], rows: Rows, found: Neighbours) -> Neighbours:
        return found


def products(vectors: NDArray[np.float32], question: NDArray[np.float32]) -> Scores:
    """The cosine of each vector with the question's, rounded; not finite for a vector that is not."""
    with np.errstate(invalid="ignore", over="ignore"):
        return rounded(vectors @ question)


def rounded(scores: NDArray[np.floating]) -> Scores:
    exact: Scores = np.asarray(scores, np.float64)
    return exact.round(SCORE_DECIMALS)


def only_scored(rows: Rows, cosines: Scores) -> Rows:
    """Those of `rows` with a cosine: NaN, of a row whose vector went bad on disk, has no place in an order."""
    return rows[np.isfinite(cosines[rows])]
