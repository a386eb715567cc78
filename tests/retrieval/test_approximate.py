"""What a search by LanceDB's index promises, beside what `test_retrieve` holds of either way: nearly all of the
true neighbours, few vectors read, and a list that is filled whatever the index proposes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import DIMENSION

from bib_orchestration.biblioteca.index import approximate
from bib_orchestration.biblioteca.index.generations import Generation, IndexStore
from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.retrieval.chunk import Filters, Question, RetrievalOptions
from bib_orchestration.biblioteca.retrieval.retrieve import retrieve

from .small_indexes import OCCURRENCES, Row, index_of, question_at, unit, vector_at

CLUSTERS = 30
ROWS = 1000
HYBRID = RetrievalOptions(ranking="hybrid")


@pytest.fixture(scope="module", autouse=True)
def _on_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(approximate, "EXACT_UP_TO_ROWS", 100)
        patch.setattr(approximate, "FEW_ROWS", 20)
        yield


def clustered(count: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(CLUSTERS, DIMENSION))
    return [unit(centres[random.integers(CLUSTERS)] + random.normal(size=DIMENSION)) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clustered index; every tenth row is of the wiki."""
    rows = [
        Row(f"{number:032x}", f"Turno {number}.", vector, (OCCURRENCES[2 if number % 10 == 0 else 0],))
        for number, vector in enumerate(clustered(ROWS, seed=1))
    ]
    made = tmp_path_factory.mktemp("clustered")
    index_of(made, rows)
    return made


@pytest.fixture
def index(folder: Path) -> Snapshot:
    return snapshot(folder)


@pytest.fixture
def exact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    monkeypatch.setattr(approximate, "EXACT_UP_TO_ROWS", ROWS)
    return snapshot(folder)


def snapshot(folder: Path) -> Snapshot:
    table = IndexStore(str(folder)).open("chunks__x")
    generation = Generation(
        "chunks__x", "x", "counting", "1", DIMENSION, "1", "1", "c", table.count_rows(), table.version
    )
    return Snapshot(generation, table)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors were read, call by call."""
    counts: list[int] = []
    vectors_of = approximate.vectors_of

    def counting(stored: Any, dimension: int) -> Any:
        counts.append(len(stored))
        return vectors_of(stored, dimension)

    monkeypatch.setattr(approximate, "vectors_of", counting)
    return counts


@pytest.mark.parametrize("filters", [Filters(), Filters("wiki"), Filters("docs", slug_prefix="crearack")])
@pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
def test_finds_nearly_all_that_an_exact_search_finds(
    index: Snapshot, exact: Snapshot, options: RetrievalOptions, filters: Filters
) -> None:
    assert index.vectors is None
    assert exact.vectors is not None
    hits = 0
    for number, vector in enumerate(clustered(30, seed=2)):
        question = Question(f"turno {number}", vector)
        found, true = (
            {chunk.content_id: chunk for chunk in retrieve(question, 10, options, filters, index=each).chunks}
            for each in (index, exact)
        )
        assert len(found) == 10
        for key in found.keys() & true.keys():
            assert found[key].cosine == true[key].cosine
            hits += 1
    assert hits >= 0.98 * 300


def test_few_vectors_are_read(index: Snapshot, read: list[int]) -> None:
    retrieve(question_at(1), 5, index=index)
    assert read == [approximate.LEAST_ASKED]
    read.clear()
    retrieve(question_at(1, text="turno 7"), 5, HYBRID, index=index)
    nearest, lexical = read
    assert nearest == approximate.LEAST_ASKED
    assert lexical <= 20


def test_rows_that_pass_a_narrow_filter_are_all_scored(
    index: Snapshot, exact: Snapshot, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximate, "FEW_ROWS", ROWS // 10)
    for vector in clustered(10, seed=3):
        question = Question("turno", vector)
        found = retrieve(question, 20, filters=Filters("wiki"), index=index)
        assert read.pop() == ROWS // 10
        assert found == retrieve(question, 20, filters=Filters("wiki"), index=exact)


def test_the_same_question_gets_the_same_answer(index: Snapshot) -> None:
    for vector in clustered(5, seed=4):
        found = [retrieve(Question("turno", vector), 10, HYBRID, index=index) for _ in range(3)]
        assert found[0] == found[1] == found[2]


class TestMoreIsAskedFor:
    """The index's list may be full of copies, or of rows that tie."""

    def copies(self, folder: Path, count: int) -> Snapshot:
        rows = [
            Row(f"{number:032x}", "Copia de un turno.", vector_at(1, 1e-4 * number))
            for number in range(count)
        ]
        rows += [
            Row(f"{9000 + number:032x}", f"Otro {number}.", vector_at(1, 2 + number)) for number in range(6)
        ]
        return index_of(folder, rows)

    @pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
    def test_until_the_texts_are_enough(
        self, tmp_path: Path, read: list[int], options: RetrievalOptions
    ) -> None:
        index = self.copies(tmp_path, 300)
        assert index.vectors is None
        read.clear()
        found = retrieve(question_at(1), 5, options, index=index)
        assert len({chunk.text for chunk in found.chunks}) == 5
        assert read[:2] == [40, 160]

    def test_and_all_rows_are_scored_when_that_is_cheaper(
        self, tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(approximate, "MOST_ASKED", 100)
        index = self.copies(tmp_path, 300)
        read.clear()
        found = retrieve(question_at(1), 7, index=index)
        assert len({chunk.text for chunk in found.chunks}) == 7
        assert read == [40, 306]

    def test_ties_go_to_the_lower_id_although_the_index_proposes_others(self, tmp_path: Path) -> None:
        rows = [Row(f"{number:032x}", f"Texto {number}.", vector_at(1)) for number in range(400)]
        index = index_of(tmp_path, rows)
        assert index.vectors is None
        found = retrieve(question_at(1), 5, index=index)
        assert [chunk.content_id for chunk in found.chunks] == [row.content_id for row in rows[:5]]


@pytest.mark.parametrize("options", [RetrievalOptions(), HYBRID])
def test_rows_gone_bad_on_disk_are_passed_over(tmp_path: Path, options: RetrievalOptions) -> None:
    sound = [
        Row(f"{number:032x}", f"Turno {number}.", vector)
        for number, vector in enumerate(clustered(150, seed=5))
    ]
    bad = [
        replace(
            row, content_id=f"{number:032x}", text=f"Turno malo {number}.", vector=np.full(DIMENSION, np.inf)
        )
        for number, row in enumerate(sound[:40], start=500)
    ]
    index = index_of(tmp_path, sound + bad)
    assert index.vectors is None
    found = retrieve(question_at(1, text="turno malo"), 20, options, index=index)
    assert len(found.chunks) == 20
    assert not any("malo" in chunk.text for chunk in found.chunks)
