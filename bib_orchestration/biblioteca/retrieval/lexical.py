"""Words to stems, and BM25 over them: one engine for chunks and for sentences.

Stems are made when a content is indexed, by the language of its source, and stored with it; the inverted
index is laid out in memory when a generation is opened. So statistics follow the contents exactly, equal
inputs give equal scores, and any content can be scored on any question.

BM25 as in Robertson & Zaragoza (2009), "The Probabilistic Relevance Framework: BM25 and Beyond", with
idf = ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.settings import STEMMERS

if TYPE_CHECKING:
    from Stemmer import Stemmer

# Rises when the same text would give other stems: they are then made anew, without embedding anything.
LEXICAL_VERSION = "1"
K1 = 1.2
B = 0.75

_WORD = re.compile(r"[^\W_]+")
# Folded: the accents that people leave out. A tilde is none of them: "año" is not "ano".
_ACCENTS = {ord(mark): None for mark in "\u0300\u0301\u0302\u0308"}

# Function words, accents folded. A language without a list keeps all its words: idf weighs them down.
STOP_WORDS: dict[str, frozenset[str]] = {
    "es": frozenset(
        """a al algo algun alguna algunas alguno algunos ante asi aun aunque cada como con cual cuales cualquier
        cuando cuanto cuanta cuantos cuantas de del desde donde dos e el ella ellas ello ellos en entre era eran
        eres es esa esas ese eso esos esta estaba estan estar estas este esto estos estoy fue fueron ha habia han
        has hasta hay he la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros nuestra nuestro o os
        otra otras otro otros para pero poco por porque puede pueden puedo pues que quien quienes se sea sean ser
        si sido siempre sin sobre son soy su sus tal tambien tampoco tan tanto te tengo tiene tienen toda todas
        todo todos tu tus un una unas uno unos usted ustedes va y ya yo""".split()
    ),
    "en": frozenset(
        """a about after all also am an and any are as at be because been before being but by can could did do
        does doing for from had has have having he her here hers him his how i if in into is it its just me more
        most my no nor not of on once only or other our out over own same she should so some such than that the
        their them then there these they this those through to too under until up very was we were what when
        where which while who whom why will with would you your""".split()
    ),
}


def stems(text: str, language: str) -> list[str]:
    """The stems of a text's words in order, accents folded and stop words out.

    >>> stems("¿Cómo se instalan las estanterías?", "es")
    ['instal', 'estanteri']
    """
    stop = STOP_WORDS.get(language, frozenset())
    words = [word for word in words_of(text) if word not in stop]
    return [str(stem) for stem in _stemmer(language).stemWords(words)]


def words_of(text: str) -> list[str]:
    """Words in lower case, accents folded.

    >>> words_of("Año_1: pingüino")
    ['año', '1', 'pinguino']
    """
    return _WORD.findall(unicodedata.normalize("NFC", _fold(text.lower())))


def question_stems(text: str, languages: Iterable[str]) -> list[str]:
    """The stems that a question's words have in any of `languages`, each once, sorted.

    The language of a question is not known; a content's stems are those of its own language, so a stem made
    by another language's rules seldom finds anything.
    """
    return sorted({stem for language in languages for stem in stems(text, language)})


class Bm25:
    """BM25 over contents given as lists of stems; scores have the contents' order.

    size: how many contents there are. mean_length: of their lists of stems, 1 at the least.
    """

    def __init__(self, contents: Iterable[Sequence[str]]) -> None:
        self._numbers: dict[str, int] = {}
        # Arrays of C's, and not lists: those would take three times the memory of what is kept in the end.
        rows, terms, counts, lengths = (array("i") for _ in range(4))
        numbers = self._numbers
        for row, content in enumerate(contents):
            lengths.append(len(content))
            for stem, count in Counter(content).items():
                rows.append(row)
                terms.append(numbers.setdefault(stem, len(numbers)))
                counts.append(count)
        self.size = len(lengths)
        self._lay_out(
            np.array(rows, np.int32),
            np.array(terms, np.int32),
            np.array(counts, np.float64),
            np.array(lengths, np.float64),
        )

    def _lay_out(
        self,
        rows: NDArray[np.int32],
        terms: NDArray[np.int32],
        counts: NDArray[np.float64],
        lengths: NDArray[np.float64],
    ) -> None:
        """Postings sorted by term, each with the weight that it adds to its content's score."""
        order = np.argsort(terms, kind="stable")
        self._rows = rows[order]
        frequencies = np.bincount(terms, minlength=len(self._numbers)).astype(np.float64)
        self._starts = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
        self.mean_length = max(float(lengths.mean()), 1.0) if self.size else 1.0
        weights = _idf(self.size, frequencies)[terms] * saturated(counts, lengths[rows], self.mean_length)
        self._weights = weights[order]

    def scores(self, question: Iterable[str]) -> NDArray[np.float64]:
        """Scores of all contents for the stems of a question, shape (contents,); 0 where none matches."""
        scores = np.zeros(self.size)
        for stem in question:
            number = self._numbers.get(stem)
            if number is not None:
                postings = slice(self._starts[number], self._starts[number + 1])
                scores[self._rows[postings]] += self._weights[postings]
        return scores

    def knows(self, stem: str) -> bool:
        """Whether any content has it."""
        return stem in self._numbers

    def idf(self, stem: str) -> float:
        """How rare a stem is; highest for one that no content has."""
        number = self._numbers.get(stem)
        holders = 0 if number is None else self._starts[number + 1] - self._starts[number]
        return float(_idf(self.size, np.float64(holders)))


def _idf(size: int, holders: Any) -> Any:
    return np.log1p((size - holders + 0.5) / (holders + 0.5))


def saturated(counts: Any, lengths: Any, mean_length: float) -> Any:
    """BM25's factor for how often a stem stands in texts of some lengths: numbers, or arrays of one shape."""
    return counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean_length))


@cache
def _stemmer(language: str) -> Stemmer:
    import Stemmer

    return Stemmer.Stemmer(STEMMERS[language])


def _fold(text: str) -> str:
    return unicodedata.normalize("NFD", text).translate(_ACCENTS)
