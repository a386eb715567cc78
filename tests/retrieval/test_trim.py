"""What trim.py promises: the sentences that matter, in order, each once, with every gap marked."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fakes import CountingEmbedder
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.index.embedders import Vectors
from bib_orchestration.biblioteca.retrieval import trim
from bib_orchestration.biblioteca.retrieval.calibration import Calibration
from bib_orchestration.biblioteca.retrieval.chunk import Question, Retrieval, RetrievalOptions, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.lexical import Bm25, stems
from bib_orchestration.biblioteca.retrieval.sentences import split_sentences, split_spans
from bib_orchestration.biblioteca.retrieval.trim import (
    GAP,
    kept_sentences,
    runs,
    text_of,
    trim_chunks,
    trim_retrieval,
)
from bib_orchestration.biblioteca.retrieval.wholes import wholes_of
from bib_orchestration.biblioteca.settings import TRIM_MODES, TrimMode

CASES_FILE = Path(__file__).parent.parent / "cases" / "upkeep.jsonl"
H09 = next(
    case
    for line in CASES_FILE.read_text(encoding="utf-8").splitlines()
    if line and (case := json.loads(line))["id"] == "H09-trim"
)
QUESTION = Question("¿?", np.array([1, 0], np.float32))


def vectors_at(cosines: Sequence[float]) -> Vectors:
    """Vectors of length 1 that have these cosines with QUESTION's."""
    values = np.asarray(cosines, np.float64)
    return np.stack([values, np.sqrt(1 - values**2)], axis=1).astype(np.float32)


def chunk_of(text: str, cosines: Sequence[float] | None = None, content_id: str = "c") -> RetrievedChunk:
    return RetrievedChunk(
        content_id,
        text,
        score=0.5,
        cosine=0.4,
        source="wiki",
        path="a.md",
        tokens_before=-(-len(text) // 4),
        spans=tuple(split_spans(text)) if cosines is not None else (),
        kept=((0, len(text)),),
        sentence_vectors=vectors_at(cosines) if cosines is not None else None,
    )


def options(
    threshold: float = 0.38,
    window: int = 0,
    min_sentences: int = 1,
    mode: TrimMode = "cosine",
    margin: float = 6.0,
) -> RetrievalOptions:
    return RetrievalOptions(
        trim=True,
        trim_mode=mode,
        trim_threshold=threshold,
        trim_margin=margin,
        trim_window=window,
        trim_min_sentences=min_sentences,
    )


@dataclass
class Index:
    """What trimming asks of an index."""

    lexical: Bm25
    languages: list[str] = field(default_factory=lambda: ["es"])
    calibration: Calibration | None = None


CALIBRATED = Calibration(
    threshold=0.17, alone=0.16, lowest=0.03, highest=0.47, questions=50, sentences=900, contents=300
)


def of_index(
    chunks: Sequence[RetrievedChunk], calibration: Calibration | None = None
) -> list[RetrievedChunk]:
    """The chunks as if they were found in an index that holds them and a few others."""
    lines = [
        ("", *(" ".join(stems(chunk.text[start:end], "es")) for start, end in chunk.spans))
        for chunk in chunks
    ]
    others = [["otro", str(number)] for number in range(20)]
    index = Index(Bm25([*(" ".join(each).split() for each in lines), *others]), calibration=calibration)
    return [replace(chunk, stems=each, origin=index) for chunk, each in zip(chunks, lines, strict=True)]


@pytest.mark.parametrize("number", range(len(H09["input"]["cases"])))
def test_settled_case(number: int) -> None:
    case, expected = H09["input"]["cases"][number], H09["expected"]
    threshold, sentences = H09["input"]["threshold"], H09["input"]["sentences"]
    kept = kept_sentences(case["scores"], threshold=threshold, window=case["window"], min_sentences=1)
    assert kept == expected["kept_sentence_indices"][number]
    text = " ".join(sentences)
    (trimmed,) = trim_chunks(QUESTION, [chunk_of(text, case["scores"])], options(threshold, case["window"]))
    assert [text for text in split_sentences(trimmed.text.replace(GAP, "\n\n")) if text] == [
        sentences[index] for index in kept
    ]
    assert trimmed.text.count(GAP) == expected["gap_marks_between_kept_blocks"][number]
    if number == len(H09["input"]["cases"]) - 1:
        assert trimmed.text == text


class TestWhichSentencesStay:
    SCORES = st.lists(st.floats(-1, 1, width=32), max_size=12)

    @given(SCORES, st.floats(-1, 1), st.integers(0, 3), st.integers(0, 4))
    def test_by_the_rule(self, scores: list[float], threshold: float, window: int, least: int) -> None:
        kept = kept_sentences(scores, threshold=threshold, window=window, min_sentences=least)
        assert kept == sorted(set(kept))
        assert set(kept) <= set(range(len(scores)))
        assert len(kept) >= min(least, len(scores))

        def near(hits: list[int]) -> set[int]:
            return {index for index in range(len(scores)) if any(abs(index - hit) <= window for hit in hits)}

        best = sorted(range(len(scores)), key=lambda index: (-np.float32(scores[index]), index))
        hits = [index for index in best if np.float32(scores[index]) >= np.float32(threshold)]
        # The best of the others fill up with their neighbours, one by one, the earlier of two equals.
        while len(near(hits)) < min(least, len(scores)):
            hits.append(best[len(hits)])
        assert set(kept) == near(hits)

    @given(SCORES, st.integers(0, 3))
    def test_a_higher_threshold_or_a_smaller_window_keeps_no_more(
        self, scores: list[float], window: int
    ) -> None:
        loose = kept_sentences(scores, threshold=0.2, window=window + 1, min_sentences=0)
        assert set(kept_sentences(scores, threshold=0.4, window=window, min_sentences=0)) <= set(loose)

    def test_the_earlier_of_two_equals_is_the_one_that_stays(self) -> None:
        assert kept_sentences([0.1, 0.3, 0.3], threshold=0.38, window=0, min_sentences=1) == [1]

    @pytest.mark.parametrize("scores", [[], np.empty(0, np.float32)])
    def test_no_sentences(self, scores: Sequence[float]) -> None:
        assert kept_sentences(scores, threshold=0.38, window=1, min_sentences=1) == []


TEXTS = st.sampled_from(
    [
        "Uno. Dos. Tres.",
        "Uno.\n\nDos. Tres.\n\nCuatro.",
        "Intro.\n\n- a\n- b\n- c\n\nFin. Y ya.",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nFin.",
        "Antes.\n\n```py\nx = 1\n\ny = 2. Z\n```\n\nDespués. Y más.",
        "> Cita. Larga.\n\nUno.\nDos.",
        "1. Primero\n2. Segundo\n\n~~~\nA. B.\n~~~",
        "Sola",
    ]
)


class TestTrimmedText:
    @given(text=TEXTS, data=st.data())
    def test_is_made_of_the_kept_units_whole_in_order(self, text: str, data: st.DataObject) -> None:
        spans = split_spans(text)
        cosines = data.draw(st.lists(st.sampled_from([0.0, 0.5]), min_size=len(spans), max_size=len(spans)))
        window, least = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 2))
        chunk = chunk_of(text, cosines)
        wholes = wholes_of(text, spans)
        by_rule = kept_sentences(
            cosines, threshold=0.38, window=window, min_sentences=least, candidates=wholes.speaks
        )
        kept = wholes.completed(by_rule)
        chunks = trim_chunks(QUESTION, [chunk], options(window=window, min_sentences=least))
        if not kept:
            assert least == 0
            assert chunks == []
            return
        (trimmed,) = chunks
        assert set(by_rule) <= set(kept)
        # No unit (a fence, a row, an item) is torn.
        for index, (start, end) in enumerate(spans):
            inside = [a <= start and end <= b for a, b in trimmed.kept]
            outside = [end <= a or b <= start for a, b in trimmed.kept]
            assert any(inside) if index in kept else all(outside)
        assert [piece.strip() for piece in trimmed.text.split(GAP)] == [
            text[start:end].strip() for start, end in trimmed.kept
        ]
        assert trimmed.text.count(GAP) == max(len(trimmed.kept) - 1, 0)
        assert all(a_end < b_start for (_, a_end), (b_start, _) in pairwise(trimmed.kept))
        if len(kept) == len(spans):
            assert trimmed.text == text
            assert trimmed.kept == ((0, len(text)),)

    def test_everything_but_the_content_stays(self) -> None:
        chunk = chunk_of("Uno. Dos. Tres.", [0.0, 0.9, 0.0])
        (trimmed,) = trim_chunks(QUESTION, [chunk], options())
        assert trimmed.text == "Dos."
        assert trimmed.trimmed
        assert trimmed.tokens == 1
        for name in ("content_id", "score", "cosine", "source", "path", "tokens_before", "spans"):
            assert getattr(trimmed, name) == getattr(chunk, name)
        assert Retrieval((trimmed,)).tokens_before == Retrieval((chunk,)).tokens_in_context

    @pytest.mark.parametrize(
        ("text", "kept", "expected"),
        [
            ("Uno. Dos. Tres.", [0, 2], "Uno. [...] Tres."),
            ("Uno.\n\nDos.\n\nTres.", [0, 2], "Uno.\n\n[...]\n\nTres."),
            ("- a\n- b\n- c", [0, 2], "- a\n\n[...]\n\n- c"),
            ("Uno. Dos.\n\nTres. Cuatro.", [1, 2], "Dos.\n\nTres."),
            ("Uno. Dos.", [], ""),
        ],
    )
    def test_gap_marks_stand_where_the_gap_is(self, text: str, kept: list[int], expected: str) -> None:
        assert text_of(text, split_spans(text), kept) == expected

    def test_neighbours_are_one_run(self) -> None:
        assert runs([(0, 4), (5, 9), (10, 15), (16, 20)], [0, 1, 3]) == [(0, 9), (16, 20)]


class TestSentenceVectors:
    def test_stored_ones_cost_no_embedding(self) -> None:
        embedder = CountingEmbedder()
        trim_chunks(QUESTION, [chunk_of("Uno. Dos.", [0.5, 0.1])], options(), embed=embedder.embed_texts)
        assert embedder.texts == []

    def test_missing_ones_are_embedded_in_one_batch(self) -> None:
        embedder, batches = CountingEmbedder(), []
        embedder.fail = lambda texts: batches.append(list(texts))
        question = Question("dos", embedder.embed_question("dos"))
        stored = embedder.embed_texts(["uno", "dos"])
        batches.clear()
        chunks = [
            chunk_of("Uno. Dos.", content_id="a"),
            RetrievedChunk("b", "Uno. Dos.", 0, 0, spans=((0, 4), (5, 9)), sentence_vectors=stored),
            chunk_of("Dos. Tres.", content_id="c"),
            chunk_of("", content_id="d"),
        ]
        trimmed = trim_chunks(question, chunks, options(), embed=embedder.embed_texts)
        assert batches == [["Uno.", "Dos.", "Dos.", "Tres."]]
        assert [(chunk.content_id, chunk.text) for chunk in trimmed] == [
            *(("a", "Dos."), ("b", "Dos."), ("c", "Dos."), ("d", "")),
        ]

    def test_missing_ones_without_a_way_to_make_them(self) -> None:
        with pytest.raises(ValueError, match="2 chunks come without sentence vectors"):
            trim_chunks(QUESTION, [chunk_of("Uno."), chunk_of("Dos.")], options())

    def test_a_chunk_without_any_sentence_is_no_reason_to_call_a_model(self) -> None:
        embedder = CountingEmbedder()
        assert trim_chunks(QUESTION, [chunk_of("")], options(), embed=embedder.embed_texts)[0].text == ""
        assert embedder.texts == []

    def test_what_is_trimmed_already_is_refused(self) -> None:
        """Its spans are of the whole text, and would cut the rest at random places."""
        once = trim_chunks(QUESTION, [chunk_of("Uno. Dos. Tres.", [0.0, 0.9, 0.0])], options())
        with pytest.raises(ValueError, match="already trimmed, and only whole chunks can be: c"):
            trim_chunks(QUESTION, once, options())

    def test_no_chunks(self) -> None:
        assert trim_chunks(QUESTION, [], options()) == []


class TestWhatStaysTogether:
    @pytest.mark.parametrize("mode", TRIM_MODES)
    @pytest.mark.parametrize(
        ("text", "cosines", "expected"),
        [
            # The heading of a joined section is what the question is nearest to.
            ("Nada.\n\n## Turnos\n\nDe 8 a 3. Otro.", [0, 0.9, 0.5, 0], "## Turnos\n\nDe 8 a 3."),
            ("<Nota>\n\nDe 8 a 3. Otro.\n\n</Nota>", [0.9, 0.5, 0, 0.9], "De 8 a 3."),
            ("A ver.\n\n| a | b |\n|---|---|\n| 1 | 2 |", [0, 0, 0, 0.9], "| a | b |\n|---|---|\n| 1 | 2 |"),
            ("A ver.\n\n- uno\n- dos\n\nFin.", [0, 0, 0.9, 0], "- uno\n- dos"),
        ],
    )
    def test_in_each_mode(self, mode: TrimMode, text: str, cosines: list[float], expected: str) -> None:
        chunk = chunk_of(text, cosines)
        (trimmed,) = trim_chunks(QUESTION, [chunk], options(0.4, mode=mode, margin=1.0))
        assert trimmed.text == expected

    @pytest.mark.parametrize("mode", TRIM_MODES)
    def test_a_chunk_that_is_all_code_stays_whole_or_goes_whole(self, mode: TrimMode) -> None:
        code = "```py\nx = 1. A\n\ny = 2\n```"
        chunks = [chunk_of("Sí.", [0.9], "a"), chunk_of(code, [-0.9], "b")]
        both = trim_chunks(QUESTION, chunks, options(mode=mode, margin=0.5))
        assert [chunk.text for chunk in both] == ["Sí.", code]
        found = Retrieval(tuple(chunks))
        best = trim_retrieval(QUESTION, found, options(mode=mode, margin=0.5, min_sentences=0))
        assert [chunk.text for chunk in best.chunks] == ["Sí."]
        assert [chunk.content_id for chunk in best.let_go] == ["b"]
        assert best.tokens_before == found.tokens_before


class TestThreshold:
    CHUNKS = (chunk_of("Uno. Dos. Tres.", [0.9, 0.1, 0.17]),)

    def test_auto_is_the_calibrated_one_with_each_sentence_seen_with_its_neighbours(self) -> None:
        """0.1 is lifted over 0.17 by what stands before it, and 0.17 drawn down by the 0.1."""
        chunks = of_index(self.CHUNKS, CALIBRATED)
        (trimmed,) = trim_chunks(QUESTION, chunks, options(0.99, mode="cosine-auto"))
        assert trimmed.text == "Uno. Dos."
        (trimmed,) = trim_chunks(QUESTION, chunks, options(0.16))
        assert trimmed.text == "Uno. [...] Tres."

    @pytest.mark.parametrize("calibrated", [True, False])
    def test_auto_without_a_calibration_says_so_and_takes_the_given_one(
        self, calibrated: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        trim._warn.cache_clear()
        chunks = of_index(self.CHUNKS, CALIBRATED if calibrated else None)
        for _ in range(2):
            (trimmed,) = trim_chunks(QUESTION, chunks, options(0.8, mode="cosine-auto"))
        if calibrated:
            assert not caplog.messages
        else:
            assert trimmed.text == "Uno."
            assert caplog.messages == [
                "trim_mode is cosine-auto, and the index is not calibrated: the threshold is 0.8; "
                "`bib index` calibrates it"
            ]

    @pytest.mark.parametrize(
        ("threshold", "said"),
        [
            (0.02, "more than half of all sentences reach it, whatever is asked (their median is 0.03)"),
            (0.48, "for most questions no sentence reaches it (their best have 0.47)"),
            (0.03, ""),
            (0.38, ""),
            (0.47, ""),
        ],
    )
    def test_one_that_means_nothing_to_the_model_is_said_once_with_the_calibrated_one(
        self, threshold: float, said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        trim._warn.cache_clear()
        for _ in range(3):
            trim_chunks(QUESTION, of_index(self.CHUNKS, CALIBRATED), options(threshold))
        assert len(caplog.messages) == bool(said)
        assert all(said in message and "it is 0.16" in message for message in caplog.messages)

    def test_a_few_sentences_say_nothing_of_a_model(self, caplog: pytest.LogCaptureFixture) -> None:
        trim._warn.cache_clear()
        trim_chunks(QUESTION, of_index(self.CHUNKS, replace(CALIBRATED, sentences=99)), options(0.99))
        assert not caplog.messages

    def test_only_the_mode_that_has_a_threshold_warns_of_it(self, caplog: pytest.LogCaptureFixture) -> None:
        trim._warn.cache_clear()
        with caplog.at_level(logging.WARNING):
            trim_chunks(QUESTION, of_index(self.CHUNKS, CALIBRATED), options(0.99, mode="margin"))
        assert not caplog.messages


class TestMargin:
    def test_is_taken_from_the_best_sentence_of_all_chunks(self) -> None:
        chunks = [chunk_of("Uno. Dos.", [0.9, 0.0], "a"), chunk_of("Tres. Cuatro.", [0.1, 0.0], "b")]
        found = trim_chunks(QUESTION, chunks, options(mode="margin", margin=2.0, min_sentences=0))
        assert [(chunk.content_id, chunk.text) for chunk in found] == [("a", "Uno.")]

    def test_min_sentences_keeps_the_best_of_each_chunk(self) -> None:
        chunks = [chunk_of("Uno. Dos.", [0.9, 0.0], "a"), chunk_of("Tres. Cuatro.", [0.1, 0.0], "b")]
        found = trim_chunks(QUESTION, chunks, options(mode="margin", margin=2.0))
        assert [chunk.text for chunk in found] == ["Uno.", "Tres."]

    def test_words_count_as_the_vectors_do(self) -> None:
        question = replace(QUESTION, text="¿Qué abre el cerrojo?")
        text = "La llave abre el cerrojo. El resto no importa. Otra frase más."
        chunk = chunk_of(text, [0.1, 0.3, 0.1])
        (by_vectors,) = trim_chunks(question, [chunk], options(mode="margin", margin=1.0))
        assert by_vectors.text == "El resto no importa."
        (by_both,) = trim_chunks(question, of_index([chunk]), options(mode="margin", margin=1.0))
        assert by_both.text.startswith("La llave abre el cerrojo.")

    def test_stems_that_are_not_stored_are_made(self) -> None:
        question = replace(QUESTION, text="¿Qué abre el cerrojo?")
        (stored,) = of_index([chunk_of("La llave abre el cerrojo. El resto no. Más.", [0.1, 0.3, 0.1])])
        asked = options(mode="margin", margin=1.0)
        assert (
            trim_chunks(question, [replace(stored, stems=())], asked)[0].text
            == trim_chunks(question, [stored], asked)[0].text
        )

    def test_a_larger_margin_keeps_no_less(self) -> None:
        chunk = chunk_of("Uno. Dos. Tres. Cuatro.", [0.9, 0.2, 0.4, 0.1])
        sizes = [
            len(trim_chunks(QUESTION, [chunk], options(mode="margin", margin=margin))[0].text)
            for margin in (0, 1, 2, 4, 8, 99)
        ]
        assert sizes == sorted(sizes)
        assert sizes[-1] == len(chunk.text)


@pytest.mark.parametrize("mode", TRIM_MODES)
class TestBadInput:
    @pytest.mark.parametrize("text", ["", "¿?", "¿Qué hay?"])
    def test_a_zero_vector_and_an_empty_question(self, mode: TrimMode, text: str) -> None:
        """Nothing is nearer than anything else: by a cosine the first sentence stays, against the best all do."""
        question = Question(text, np.zeros(2, np.float32))
        chunks = of_index([chunk_of("Uno. Dos.", [0.5, 0.1])], CALIBRATED)
        (trimmed,) = trim_chunks(question, chunks, options(mode=mode))
        assert trimmed.text == ("Uno. Dos." if mode == "margin" else "Uno.")

    @pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
    def test_a_sentence_whose_vector_is_no_direction(self, mode: TrimMode, bad: float) -> None:
        chunk = chunk_of("Uno. Dos. Tres.", [0.5, 0.1, 0.9])
        assert chunk.sentence_vectors is not None
        chunk.sentence_vectors[0] = bad
        (trimmed,) = trim_chunks(QUESTION, [chunk], options(mode=mode, margin=0.5))
        assert trimmed.text.endswith("Tres.")
        assert "Uno." not in trimmed.text

    def test_no_chunk_no_sentence(self, mode: TrimMode) -> None:
        assert trim_chunks(QUESTION, [], options(mode=mode)) == []
        empty = replace(chunk_of(""), sentence_vectors=np.empty((0, 2), np.float32))
        assert [chunk.text for chunk in trim_chunks(QUESTION, [empty], options(mode=mode))] == [""]
        assert trim_chunks(QUESTION, [empty], options(mode=mode, min_sentences=0)) == []

    def test_a_chunk_without_sentences_among_others(self, mode: TrimMode) -> None:
        empty = replace(chunk_of("", content_id="b"), sentence_vectors=np.empty((0, 2), np.float32))
        chunks = of_index(
            [chunk_of("Uno. Dos.", [0.9, 0.0], "a"), empty, chunk_of("Tres.", [0.9], "c")], CALIBRATED
        )
        trimmed = trim_chunks(QUESTION, chunks, options(mode=mode, margin=1.0))
        assert [chunk.content_id for chunk in trimmed] == ["a", "b", "c"]

    def test_only_headings_or_tags(self, mode: TrimMode) -> None:
        """Nothing in it can answer, and something must stay: the first."""
        chunk = chunk_of("## Uno\n\n<br>\n\n## Dos", [0.5, 0.9, 0.1])
        (trimmed,) = trim_chunks(QUESTION, [chunk], options(mode=mode))
        assert trimmed.text == "## Uno"
