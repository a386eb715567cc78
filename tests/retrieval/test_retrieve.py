"""What `retrieve` promises: the true neighbours, in an order that never changes, each text once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import DIMENSION
from hypothesis import given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.index import approximate
from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.retrieval.chunk import Filters, Question, RetrievalOptions, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.lexical import stems
from bib_orchestration.biblioteca.retrieval.retrieve import HYBRID_CANDIDATES, OVER_FETCH, retrieve
from bib_orchestration.biblioteca.retrieval.trim import trim_chunks

from .plain_bm25 import plain_bm25
from .small_indexes import EMBEDDER, OCCURRENCES, Row, index_of, question_at, unit, vector_at

HYBRID = RetrievalOptions(ranking="hybrid")
WORDS = "turno permiso lactancia sede horario factura pedido almacén guardia lunes martes jefa".split()


@pytest.fixture(scope="module", params=["vectors in memory", "vectors on disk"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """All holds of either way to search."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "vectors on disk":
            patch.setattr(approximate, "EXACT_UP_TO_ROWS", 0)
            patch.setattr(approximate, "FEW_ROWS", 0)
        yield request.param


def random_rows(count: int, seed: int = 0) -> list[Row]:
    """Texts of a few words; each third text stands under several headings, each fifth vector comes twice."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for number in range(count):
        copied = rows[int(random.integers(len(rows)))] if number % 3 == 2 else None
        text = copied.text if copied else " ".join(random.choice(WORDS, 4)) + f" n{number}."
        vector = rows[-1].vector if number % 5 == 4 else unit(random.normal(size=DIMENSION))
        chosen = sorted(random.choice(len(OCCURRENCES), random.integers(1, 4), replace=False))
        rows.append(
            Row(f"{int(random.integers(10**9)):032x}", text, vector, tuple(OCCURRENCES[n] for n in chosen))
        )
    return sorted(rows, key=lambda row: row.content_id)


ROWS = random_rows(90)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, way: str) -> Snapshot:
    return index_of(tmp_path_factory.mktemp("index"), ROWS)


def test_both_ways_are_tested(index: Snapshot, way: str) -> None:
    assert (index.vectors is None) == (way == "vectors on disk")


# --- the plain search


def passes(occurrence: tuple[str, ...], filters: Filters) -> bool:
    _, source_type, app, slug, _ = occurrence
    return (
        (filters.source_type is None or source_type == filters.source_type)
        and (filters.app is None or app == filters.app)
        and (filters.slug_prefix is None or slug.startswith(filters.slug_prefix))
    )


def top_texts(rows: list[Row], score: dict[str, float], count: int) -> list[Row]:
    """The best rows of `count` different texts."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (-score[row.content_id], row.content_id)):
        found.setdefault(row.text, row)
    return list(found.values())[:count]


def plain_search(question: Question, top_k: int, ranking: str, filters: Filters) -> list[tuple[str, float]]:
    rows = [row for row in ROWS if any(passes(occurrence, filters) for occurrence in row.occurrences)]
    cosine = {row.content_id: round(float(np.dot(row.vector, question.vector)), 6) for row in ROWS}
    if ranking == "vector" or not rows:
        return [(row.content_id, cosine[row.content_id]) for row in top_texts(rows, cosine, top_k)]
    asked = sorted(set(stems(question.text, "es")))
    bm25 = plain_bm25([stems(row.text, "es") for row in ROWS], asked)
    lexical = {row.content_id: round(score, 6) for row, score in zip(ROWS, bm25, strict=True)}
    count = max(OVER_FETCH * top_k, HYBRID_CANDIDATES)
    union = {row.content_id: row for leg in (cosine, lexical) for row in top_texts(rows, leg, count)}
    total = dict.fromkeys(union, 0.0)
    for leg in (cosine, lexical):
        low, high = min(leg[key] for key in union), max(leg[key] for key in union)
        for key in union:
            total[key] += (leg[key] - low) / (high - low) if high > low else 0
    total = {key: round(score, 6) for key, score in total.items()}
    return [(row.content_id, total[row.content_id]) for row in top_texts(list(union.values()), total, top_k)]


questions = st.builds(
    lambda words, seed: Question(" ".join(words), unit(np.random.default_rng(seed).normal(size=DIMENSION))),
    st.lists(st.sampled_from([*WORDS, "n7", "de", "la", "zzz", "🦆"]), max_size=4),
    st.integers(0, 99),
)
all_filters = st.builds(
    Filters,
    st.sampled_from([None, "docs", "wiki", "session"]),
    st.sampled_from([None, "crearack", "otra", ""]),
    st.sampled_from([None, "crearack--", "otra", "", "no"]),
)


@settings(max_examples=150)
@given(
    question=questions,
    top_k=st.integers(1, 120),
    ranking=st.sampled_from(["vector", "hybrid"]),
    filters=all_filters,
)
def test_finds_what_a_plain_search_finds(
    index: Snapshot, question: Question, top_k: int, ranking: str, filters: Filters
) -> None:
    found = retrieve(question, top_k, RetrievalOptions(ranking=ranking), filters, index=index)  # type: ignore[arg-type]
    expected = plain_search(question, top_k, ranking, filters)
    assert [chunk.content_id for chunk in found.chunks] == [key for key, _ in expected]
    assert [chunk.score for chunk in found.chunks] == pytest.approx(
        [score for _, score in expected], abs=3e-6
    )
    by_id = {row.content_id: row for row in ROWS}
    for chunk in found.chunks:
        row = by_id[chunk.content_id]
        first = next(occurrence for occurrence in row.occurrences if passes(occurrence, filters))
        assert (chunk.source, chunk.source_type, chunk.app, chunk.slug, chunk.path) == first
        assert chunk.text == row.text
        assert chunk.cosine == pytest.approx(np.dot(row.vector, question.vector), abs=2e-6)
    assert found.top_score == max((chunk.cosine for chunk in found.chunks), default=None)
    again = retrieve(question, top_k, RetrievalOptions(ranking=ranking), filters, index=index)  # type: ignore[arg-type]
    assert again == found


class TestOrder:
    def test_ties_go_to_the_lower_id_wherever_the_list_is_cut(self, tmp_path: Path) -> None:
        rows = [Row(f"{number:032x}", f"Texto {number}.", vector_at(1)) for number in range(40)]
        index = index_of(tmp_path, rows)
        for top_k in (1, 2, 7, 20, 40, 41):
            found = retrieve(question_at(1), top_k, index=index)
            assert [chunk.content_id for chunk in found.chunks] == [row.content_id for row in rows[:top_k]]

    def test_differences_beyond_six_decimals_are_ties(self, tmp_path: Path) -> None:
        rows = [
            Row("a" * 32, "Uno.", vector_at(1, 1e-4)),
            Row("b" * 32, "Dos.", vector_at(1)),
        ]
        found = retrieve(question_at(1), 2, index=index_of(tmp_path, rows))
        assert [chunk.content_id[0] for chunk in found.chunks] == ["a", "b"]
        assert [chunk.score for chunk in found.chunks] == [1, 1]

    def test_same_index_written_otherwise_gives_the_same(self, tmp_path: Path, index: Snapshot) -> None:
        other = index_of(tmp_path, ROWS[::-1])
        for options in (RetrievalOptions(), HYBRID, RetrievalOptions(trim=True)):
            question = question_at(1, 2, 3, text="permiso de lactancia")
            assert retrieve(question, 20, options, index=other) == retrieve(
                question, 20, options, index=index
            )


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory, way: str) -> Snapshot:
    rows = [Row(f"{number:032x}", "Copia de un turno.", vector_at(1)) for number in range(200)]
    rows += [Row(f"{1000 + number:032x}", f"Otro {number}.", vector_at(1, number + 1)) for number in range(6)]
    return index_of(tmp_path_factory.mktemp("copies"), rows)


class TestCopies:
    """The same text under many headings: one chunk, and never fewer than asked for while others exist."""

    @pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
    @pytest.mark.parametrize("top_k", [1, 3, 7, 20])
    def test_texts_are_shown_once_and_fill_the_list(
        self, copies: Snapshot, top_k: int, options: RetrievalOptions
    ) -> None:
        found = retrieve(question_at(1, text="otro turno"), top_k, options, index=copies)
        texts = [chunk.text for chunk in found.chunks]
        assert len(texts) == len(set(texts)) == min(top_k, 7)
        assert "Copia de un turno." in texts or top_k == 1

    def test_the_copy_shown_is_the_best_and_the_first_of_equals(self, copies: Snapshot) -> None:
        assert retrieve(question_at(1), 1, index=copies).chunks[0].content_id == f"{0:032x}"


class TestFilters:
    def test_one_occurrence_must_meet_them_all(self, tmp_path: Path) -> None:
        both = (("docs", "docs", "otra", "a", "a.md"), ("wiki", "wiki", "crearack", "b", "b.md"))
        index = index_of(tmp_path, [Row("a" * 32, "Uno.", vector_at(1), both)])
        found = {
            filters: len(retrieve(question_at(1), 5, filters=filters, index=index).chunks)
            for filters in (
                Filters("docs", "otra"),
                Filters("wiki", "crearack"),
                Filters("docs", "crearack"),
                Filters("wiki", "crearack", "a"),
            )
        }
        assert list(found.values()) == [1, 1, 0, 0]

    def test_k_are_found_although_a_thousand_better_ones_do_not_pass(self, tmp_path: Path) -> None:
        rows = [Row(f"{number:032x}", f"Cerca {number}.", vector_at(1)) for number in range(1000)]
        rows += [
            Row(f"{5000 + number:032x}", f"Lejos {number}.", vector_at(-1, number), (OCCURRENCES[2],))
            for number in range(5)
        ]
        index = index_of(tmp_path, rows)
        for options in (RetrievalOptions(), HYBRID):
            found = retrieve(question_at(1, text="cerca"), 5, options, Filters("wiki"), index=index)
            assert sorted(chunk.text for chunk in found.chunks) == [f"Lejos {number}." for number in range(5)]


class TestHybrid:
    @pytest.mark.parametrize("text", ["", "de la y el", "🦆🦆", "¿?", "zzzz xxxx"])
    def test_a_question_without_known_words_is_ranked_by_cosine(self, index: Snapshot, text: str) -> None:
        question = Question(text, question_at(3, 1, 4).vector)
        hybrid = retrieve(question, 10, HYBRID, index=index)
        assert [chunk.content_id for chunk in hybrid.chunks] == [
            chunk.content_id for chunk in retrieve(question, 10, index=index).chunks
        ]

    def test_a_word_finds_what_the_vectors_miss(self, tmp_path: Path) -> None:
        rows = [
            Row(f"{number:032x}", f"Relleno {number}.", vector_at(1, number / 50)) for number in range(60)
        ]
        rows.append(Row("f" * 32, "Error E1042 del almacén.", vector_at(0, 0, 1)))
        index = index_of(tmp_path, rows)
        question = question_at(1, text="¿Qué es E1042 del almacén?")
        assert "E1042" not in " ".join(chunk.text for chunk in retrieve(question, 5, index=index).chunks)
        found = retrieve(question, 5, HYBRID, index=index)
        assert "E1042" in " ".join(chunk.text for chunk in found.chunks)
        assert found.top_score == 1

    def test_equal_cosines_do_not_divide_by_zero(self, tmp_path: Path) -> None:
        rows = [Row(f"{number:032x}", f"Turno {number}.", vector_at(1)) for number in range(3)]
        found = retrieve(question_at(1), 3, HYBRID, index=index_of(tmp_path, rows))
        assert [chunk.score for chunk in found.chunks] == [0, 0, 0]


class TestEdges:
    def test_an_empty_index_has_nothing(self, tmp_path: Path) -> None:
        index = index_of(tmp_path, [])
        for options in (RetrievalOptions(), HYBRID, RetrievalOptions(trim=True)):
            found = retrieve(question_at(1), 5, options, index=index)
            assert found.chunks == ()
            assert (found.top_score, found.tokens_in_context, found.tokens_before) == (None, 0, 0)

    @pytest.mark.parametrize("top_k", [0, -1])
    def test_top_k_is_at_least_one(self, index: Snapshot, top_k: int) -> None:
        with pytest.raises(ValueError, match=f"top_k is {top_k}; at least 1 is needed"):
            retrieve(question_at(1), top_k, index=index)

    @pytest.mark.parametrize("shape", [(63,), (65,), (1, 64), (0,), ()])
    def test_another_models_vector_is_refused(self, index: Snapshot, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"made by counting and takes \(64,\)"):
            retrieve(Question("x", np.zeros(shape, np.float32)), 5, index=index)

    @pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_vector_of_no_numbers_is_refused(
        self, index: Snapshot, value: float, options: RetrievalOptions
    ) -> None:
        """It would tie with nothing, and the search would go on for ever."""
        with pytest.raises(ValueError, match="NaN or infinity"):
            retrieve(Question("x", np.full(DIMENSION, value, np.float32)), 5, options, index=index)

    @pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
    def test_rows_gone_bad_on_disk_are_passed_over(self, tmp_path: Path, options: RetrievalOptions) -> None:
        rows = [Row(f"{number:032x}", f"Turno {number}.", vector_at(1)) for number in range(9)]
        bad = [replace(row, vector=np.full(DIMENSION, np.inf)) for row in rows[2:]]
        index = index_of(tmp_path, rows[:2] + bad)
        found = retrieve(question_at(1), 5, options, index=index)
        assert [chunk.text for chunk in found.chunks] == ["Turno 0.", "Turno 1."]

    def test_a_zero_vector_ranks_by_id(self, index: Snapshot) -> None:
        found = retrieve(Question("x", np.zeros(DIMENSION, np.float32)), 3, index=index)
        assert found.top_score == 0
        assert len(found.chunks) == 3


class TestTrimming:
    def test_is_off_unless_asked(self, index: Snapshot) -> None:
        found = retrieve(question_at(1, 2), 5, index=index)
        assert not any(chunk.trimmed for chunk in found.chunks)
        assert found.tokens_in_context == found.tokens_before

    def test_trims_what_a_search_without_it_finds(self, tmp_path: Path) -> None:
        text = "Los turnos salen el lunes. La sede abre a las nueve. El permiso de lactancia se pide por escrito."
        rows = [
            Row(content_id * 32, f"{text} Fin {content_id}.", vector_at(1, number))
            for number, content_id in enumerate("abc")
        ]
        index = index_of(tmp_path, rows)
        question = Question("permiso de lactancia", EMBEDDER.embed_question("permiso de lactancia"))
        options = RetrievalOptions(trim=True)
        whole, trimmed = retrieve(question, 3, index=index), retrieve(question, 3, options, index=index)
        assert trimmed.chunks == tuple(trim_chunks(question, whole.chunks, options))
        assert trimmed.tokens_before == whole.tokens_in_context
        assert 0 < trimmed.tokens_in_context < trimmed.tokens_before
        for chunk in trimmed.chunks:
            assert "permiso de lactancia" in chunk.text
            assert "sede" not in chunk.text

    def test_what_is_found_carries_its_sentences(self, index: Snapshot) -> None:
        for chunk in retrieve(question_at(1), 5, index=index).chunks:
            assert isinstance(chunk, RetrievedChunk)
            assert chunk.has_sentences
            assert chunk.kept == ((0, len(chunk.text)),)
            sentences = [chunk.text[start:end] for start, end in chunk.spans]
            assert np.allclose(chunk.sentence_vectors, EMBEDDER.embed_texts(sentences), atol=1e-3)
