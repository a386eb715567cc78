"""What lexical.py promises: stems that find each other, and BM25 by its formula."""

from __future__ import annotations

import threading
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.retrieval.lexical import (
    STOP_WORDS,
    Bm25,
    question_stems,
    stems,
    words_of,
)
from bib_orchestration.biblioteca.settings import STEMMERS

from .plain_bm25 import plain_bm25


class TestWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("ÁÉÍÓÚ àèìòù âêîôû üï", ["aeiou", "aeiou", "aeiou", "ui"]),
            ("AÑO año ano", ["año", "año", "ano"]),
            ("Ñandú ÑANDÚ", ["ñandu", "ñandu"]),
            ("Barça ação", ["barça", "ação"]),
            ("snake_case camelCase v1.2.3", ["snake", "case", "camelcase", "v1", "2", "3"]),
            ("¿Qué? (sí) «no»", ["que", "si", "no"]),
            ("🦆 — … ''", []),
            ("uno\x00dos\ud83dtres", ["uno", "dos", "tres"]),
            ("", []),
        ],
    )
    def test_lower_case_accents_folded_tildes_kept(self, text: str, words: list[str]) -> None:
        assert words_of(text) == words

    @given(st.text())
    def test_how_a_text_is_composed_makes_no_difference(self, text: str) -> None:
        assert words_of(unicodedata.normalize("NFD", text)) == words_of(unicodedata.normalize("NFC", text))

    @given(st.text(), st.sampled_from(sorted(STEMMERS)))
    def test_stems_are_words_that_can_be_stored_between_spaces(self, text: str, language: str) -> None:
        found = stems(text, language)
        assert " ".join(found).split() == found


class TestStems:
    @pytest.mark.parametrize(
        ("language", "one", "other"),
        [
            ("es", "instalación", "INSTALACIONES"),
            ("es", "permiso de lactancia", "los permisos para la lactancia"),
            ("es", "¿Cuándo se publican los turnos?", "publicar turno"),
            ("es", "instalación automática", "instalacion automatica"),
            ("en", "installing packages", "they installed the package"),
        ],
    )
    def test_forms_of_a_word_meet(self, language: str, one: str, other: str) -> None:
        assert stems(one, language) == stems(other, language)

    @pytest.mark.parametrize(("one", "other"), [("año", "ano"), ("caña", "cana"), ("peña", "pena")])
    def test_a_tilde_makes_another_word(self, one: str, other: str) -> None:
        assert stems(one, "es") != stems(other, "es")

    @pytest.mark.parametrize("language", STOP_WORDS)
    def test_stop_words_are_written_as_words_are_compared(self, language: str) -> None:
        for word in STOP_WORDS[language]:
            assert words_of(word) == [word]
            assert stems(word.upper(), language) == []

    @pytest.mark.parametrize("language", STEMMERS)
    def test_every_language_that_a_source_may_have_has_a_stemmer(self, language: str) -> None:
        assert stems("documentos documentation 2026", language)[-1] == "2026"

    @pytest.mark.parametrize("text", ["", "de la y el", "¿?", "🦆"])
    def test_nothing_to_find_has_no_stems(self, text: str) -> None:
        assert stems(text, "es") == []
        assert question_stems(text, ["es"]) == []

    def test_an_unknown_language_raises(self) -> None:
        """Settings refuse it long before."""
        with pytest.raises(KeyError):
            stems("hola", "xx")

    def test_a_question_is_stemmed_by_every_language_of_the_contents(self) -> None:
        assert question_stems("instalaciones installations", ["es", "en"]) == sorted(
            {*stems("instalaciones installations", "es"), *stems("instalaciones installations", "en")}
        )
        assert question_stems("turnos turnos turno", ["es"]) == ["turn"]
        assert question_stems("turnos", []) == []

    def test_threads_share_a_stemmer(self) -> None:
        texts = [f"instalaciones número {number} de los documentos publicados" for number in range(300)]
        expected = [stems(text, "es") for text in texts]
        wrong: list[str] = []

        def run() -> None:
            wrong.extend(
                text for text, right in zip(texts, expected, strict=True) if stems(text, "es") != right
            )

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


# --- BM25

STEM = st.sampled_from("abcdefg")
CONTENTS = st.lists(st.lists(STEM, max_size=12), min_size=1, max_size=12)


class TestBm25:
    @given(CONTENTS, st.lists(st.sampled_from("abcdefgz"), max_size=5, unique=True))
    def test_is_the_formula(self, contents: list[list[str]], question: list[str]) -> None:
        assert Bm25(contents).scores(question) == pytest.approx(plain_bm25(contents, question))

    @given(CONTENTS, st.lists(STEM, unique=True))
    def test_is_never_negative_and_zero_where_nothing_matches(
        self, contents: list[list[str]], question: list[str]
    ) -> None:
        scores = Bm25(contents).scores(question)
        assert [score > 0 for score in scores] == [bool(set(content) & set(question)) for content in contents]

    @given(CONTENTS, st.lists(STEM, unique=True))
    def test_equal_inputs_give_equal_bits(self, contents: list[list[str]], question: list[str]) -> None:
        assert np.array_equal(Bm25(contents).scores(question), Bm25(contents).scores(question))

    def test_rare_words_and_short_contents_count_for_more(self) -> None:
        index = Bm25([["común", "raro"], ["común", "x"], ["común", "raro", *"abcdef"]])
        rare, common = index.scores(["raro"]), index.scores(["común"])
        assert rare[0] > rare[2] > rare[1] == 0
        assert rare[0] > common[0]

    @pytest.mark.parametrize("contents", [[], [[]], [[], []]])
    def test_no_contents_or_empty_ones(self, contents: list[list[str]]) -> None:
        scores = Bm25(contents).scores(["a"])
        assert scores.shape == (len(contents),)
        assert not scores.any()

    def test_twenty_thousand_contents_are_laid_out_and_scored_in_time(self) -> None:
        random = np.random.default_rng(0)
        words = [f"w{number}" for number in range(5_000)]
        contents = [[words[int(n)] for n in row] for row in random.zipf(1.5, (20_000, 20)) % len(words)]
        index = Bm25(contents)
        assert index.scores(["w1", "w2", "w77"]).shape == (20_000,)
