"""BM25 by its formula, word by word: what the index's own is compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bib_orchestration.biblioteca.retrieval.lexical import K1, B


def plain_bm25(contents: Sequence[Sequence[str]], question: Sequence[str]) -> list[float]:
    """The formula, word by word."""
    mean = max(sum(map(len, contents)) / len(contents), 1)
    scores = []
    for content in contents:
        counts, score = Counter(content), 0.0
        for stem in question:
            holders = sum(stem in other for other in contents)
            idf = math.log(1 + (len(contents) - holders + 0.5) / (holders + 0.5))
            count = counts[stem]
            score += idf * count * (K1 + 1) / (count + K1 * (1 - B + B * len(content) / mean))
        scores.append(score)
    return scores
