"""What margin.py promises: the score of its docstring, sentence by sentence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bib_orchestration.biblioteca.retrieval.chunk import Question, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.lexical import Bm25, stems
from bib_orchestration.biblioteca.retrieval.margin import margin_scores, word_weight
from bib_orchestration.biblioteca.retrieval.sentences import split_spans

from .plain_bm25 import plain_bm25

TEXTS = [
    "La estantería soporta 300 kg. Se monta en una hora. El color es gris.",
    "El almacén abre a las ocho. La estantería se guarda en el almacén.",
    "Los viernes se cierra antes.",
]
QUESTION = "¿Cuántos kg soporta la estantería?"
COSINES = [0.6, 0.3, 0.1, 0.2, 0.4, 0.05]
CHUNK_COSINES = [0.5, 0.3, 0.1]


@dataclass
class Index:
    lexical: Bm25
    languages: list[str] = field(default_factory=lambda: ["es"])
    calibration: None = None


def lines_of(text: str) -> tuple[str, ...]:
    return ("", *(" ".join(stems(text[start:end], "es")) for start, end in split_spans(text)))


LINES = [lines_of(text) for text in TEXTS]
CONTENTS = [" ".join(lines).split() for lines in LINES]
INDEX = Index(Bm25(CONTENTS))


def chunks(index: Index | None = INDEX) -> list[RetrievedChunk]:
    return [
        RetrievedChunk(
            str(number), text, 1, cosine, spans=tuple(split_spans(text)), stems=LINES[number], origin=index
        )
        for number, (text, cosine) in enumerate(zip(TEXTS, CHUNK_COSINES, strict=True))
    ]


def scores(text: str = QUESTION, index: Index | None = INDEX, mute: Sequence[int] = ()) -> Any:
    candidates = np.array([number not in mute for number in range(len(COSINES))])
    return margin_scores(Question(text, np.ones(1, np.float32)), chunks(index), np.array(COSINES), candidates)


def z(values: Sequence[float]) -> list[float]:
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    return [(value - mean) / deviation for value in values]


def expected(weight: float, question: Sequence[str]) -> list[float]:
    """The formula, word by word."""
    of_chunk = [0, 0, 0, 1, 1, 2]
    bm25 = plain_bm25(CONTENTS, question)
    sentences = [line.split() for lines in LINES for line in lines[1:]]
    mean = statistics.fmean(map(len, sentences))
    of_sentence = [
        sum(
            INDEX.lexical.idf(stem)
            * sentence.count(stem)
            * 2.2
            / (sentence.count(stem) + 1.2 * (0.25 + 0.75 * len(sentence) / mean))
            for stem in question
        )
        for sentence in sentences
    ]
    parts = zip(
        z(COSINES),
        z(of_sentence),
        z([CHUNK_COSINES[n] for n in of_chunk]),
        z([bm25[n] for n in of_chunk]),
        strict=True,
    )
    own = [3 * (a + weight * b + c / 2 + weight * d) / (1.5 + 2 * weight) for a, b, c, d in parts]
    beside = [[1], [0, 2], [1], [4], [3], []]
    return [
        score + 0.5 * max((own[other] for other in others), default=0)
        for score, others in zip(own, beside, strict=True)
    ]


def test_the_formula() -> None:
    question = sorted(set(stems(QUESTION, "es")))
    assert all(INDEX.lexical.knows(stem) for stem in question)
    assert scores() == pytest.approx(expected(1.0, question))
    assert int(np.argmax(scores())) == 0


def test_without_an_index_and_without_known_words_vectors_decide_alone() -> None:
    by_vectors = scores(index=None)
    for text in ("", "¿?", "quantum chromodynamics"):
        assert scores(text) == pytest.approx(by_vectors)


def test_those_that_are_no_candidates_count_nowhere() -> None:
    """Neither in means nor as neighbours."""
    found = scores(mute=[0, 5])
    assert found[[0, 5]].tolist() == [-np.inf, -np.inf]
    assert np.isfinite(found[1:5]).all()
    assert not np.isfinite(scores(mute=range(6))).any()


def test_equal_values_say_nothing() -> None:
    same = margin_scores(
        Question("", np.ones(1, np.float32)), chunks(None)[:1], np.full(3, 0.3), np.ones(3, bool)
    )
    assert same.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("known", "weight"), [(1.0, 1.0), (0.8, 1.0), (0.4, 0.25), (0.0, 0.0)])
def test_words_weigh_less_the_fewer_the_corpus_knows(known: float, weight: float) -> None:
    lexical = Bm25([["uno"], ["dos"]])
    assert word_weight({"uno": known, "otro": 1 - known}, lexical) == pytest.approx(weight)
    assert word_weight({}, lexical) == 0
