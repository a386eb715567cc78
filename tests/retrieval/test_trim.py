"""What trim.py promises: the sentences that matter, in order, each once, with every gap marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fakes import CountingEmbedder
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.index.embedders import Vectors
from bib_orchestration.biblioteca.retrieval.chunk import Question, Retrieval, RetrievalOptions, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.sentences import split_sentences, split_spans
from bib_orchestration.biblioteca.retrieval.trim import GAP, kept_sentences, runs, text_of, trim_chunks

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


def options(threshold: float = 0.38, window: int = 0, min_sentences: int = 1) -> RetrievalOptions:
    return RetrievalOptions(
        trim=True, trim_threshold=threshold, trim_window=window, trim_min_sentences=min_sentences
    )


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
        (trimmed,) = trim_chunks(QUESTION, [chunk], options(window=window, min_sentences=least))
        kept = kept_sentences(cosines, threshold=0.38, window=window, min_sentences=least)
        # No unit (a fence, a row, an item) is torn.
        for index, (start, end) in enumerate(spans):
            inside = [a <= start and end <= b for a, b in trimmed.kept]
            outside = [end <= a or b <= start for a, b in trimmed.kept]
            assert any(inside) if index in kept else all(outside)
        assert [piece.strip() for piece in trimmed.text.split(GAP)] == [
            text[start:end].strip() for start, end in trimmed.kept
        ] or not trimmed.kept
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
