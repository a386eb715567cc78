"""What writers promise of the index of a large table's vectors: it is there, follows the rows at little cost, and
readers find rows that are not in it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bib_orchestration.biblioteca.index import approximate, generations
from bib_orchestration.biblioteca.index.approximate import keep_indexed
from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.retrieval.chunk import Filters, Question
from bib_orchestration.biblioteca.retrieval.retrieve import NO_FILTERS, retrieve

from .homes import Home, raising

PAGES = 12


@pytest.fixture(autouse=True)
def _low_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "EXACT_UP_TO_ROWS", 8)
    monkeypatch.setattr(approximate, "FEW_ROWS", 0)
    monkeypatch.setattr(approximate, "MOST_UNINDEXED", 3)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    for number in range(PAGES):
        write(made, number)
    made.sync()
    return made


def write(home: Home, number: int, more: str = "") -> None:
    home.write(f"wiki/{number}.md", f"# Nota {number}\n\nCosa número {number}. Y nada más.{more}\n")


def state(home: Home) -> tuple[int, int, int]:
    """Rows in the index of the live version, rows not in it, and its parts."""
    stats = statistics(home)
    return stats.num_indexed_rows, stats.num_unindexed_rows, stats.num_indices


def statistics(home: Home) -> Any:
    table = home.table()
    table.checkout(home.store.current().version)
    return table.index_stats("vector_idx")


def best(home: Home, text: str, filters: Filters = NO_FILTERS, index: Snapshot | None = None) -> str:
    """The path of the page that a text finds first."""
    index = index or home.snapshot()
    assert index.vectors is None
    question = Question(text, home.embedder.embed_question(text))
    return retrieve(question, 1, filters=filters, index=index).chunks[0].path


def page(number: int, more: str = "") -> str:
    """The text that is embedded of a page."""
    return f"Nota {number}\n\nCosa número {number}. Y nada más.{more}"


class TestWriting:
    def test_few_rows_are_not_indexed(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        for number in range(8):
            write(home, number)
        home.sync()
        assert statistics(home) is None
        assert home.snapshot().vectors.shape == (8, 64)

    def test_the_first_run_indexes_all_and_the_live_version_has_it(self, home: Home) -> None:
        assert state(home) == (PAGES, 0, 1)
        assert statistics(home).index_type == "IVF_RQ"
        assert statistics(home).distance_type == "cosine"

    def test_growing_past_the_limit_indexes_all(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        for number in range(8):
            write(home, number)
        home.sync()
        write(home, 8)
        home.sync()
        assert state(home) == (9, 0, 1)

    def test_nothing_changed_writes_nothing(self, home: Home) -> None:
        version = home.table().version
        home.sync()
        home.sync(full=True)
        assert home.table().version == version

    def test_a_few_new_rows_are_left_out_and_many_taken_in(self, home: Home) -> None:
        for number in range(3):
            write(home, 100 + number)
        home.sync()
        assert state(home) == (PAGES, 3, 1)
        write(home, 103)
        home.sync()
        assert state(home) == (PAGES + 4, 0, 2)

    def test_an_index_in_many_parts_is_made_anew(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(approximate, "MOST_PARTS", 2)
        seen = []
        for start in (100, 200, 300):
            for number in range(4):
                write(home, start + number)
            home.sync()
            seen.append(state(home))
        assert seen == [(PAGES + 4, 0, 2), (PAGES + 8, 0, 1), (PAGES + 12, 0, 2)]

    def test_parts_that_compactions_made_count_too(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(approximate, "MOST_PARTS", 2)
        for number in range(2):
            write(home, 100 + number)
            home.sync()
            generations.compact(home.table())
        home.sync(full=True)
        assert state(home) == (PAGES + 2, 0, 1)

    def test_a_run_that_ended_before_it_was_made_is_mended(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        for number in range(4):
            write(home, 100 + number)
        with monkeypatch.context() as patch:
            patch.setattr(approximate, "compact", killed)
            with pytest.raises(KeyboardInterrupt):
                home.sync()
        assert state(home) == (PAGES, 0, 1)
        with home.embedding():
            home.sync()
        assert state(home) == (PAGES + 4, 0, 2)

    def test_dimensions_that_cannot_be_indexed_are_named(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = IndexStore(str(tmp_path)).db.create_table(
            "odd", [{"vector": row} for row in np.eye(12, dtype=np.float32)]
        )
        with caplog.at_level(logging.WARNING):
            keep_indexed(table, dimension=12)
        assert "odd: vectors of 12 dimensions cannot be indexed, only of a multiple of 8" in caplog.text
        assert table.index_stats("vector_idx") is None


class TestReading:
    def test_vectors_are_not_loaded(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Snapshot, "_read_vectors", raising(0, AssertionError("loaded")))
        assert home.snapshot().vectors is None

    def test_a_large_table_without_an_index_is_held_in_memory(self, home: Home) -> None:
        table = home.table()
        table.drop_index("vector_idx")
        home.store.go_live(replace(home.store.current(), version=table.version))
        assert home.snapshot().vectors.shape == (PAGES, 64)

    def test_new_rows_are_found_before_they_are_in_the_index(self, home: Home) -> None:
        write(home, 100)
        home.sync()
        assert state(home)[1] == 1
        assert best(home, page(100)) == "100.md"

    def test_edits_moves_and_deletes_are_followed(self, home: Home) -> None:
        write(home, 0, " Y algo más.")
        home.write("docs/movida.md", home.delete("wiki/1.md"))
        home.delete("wiki/2.md")
        home.sync()
        assert state(home)[1] > 0
        for again in range(2):
            assert best(home, page(0, " Y algo más.")) == "0.md"
            assert best(home, page(1)) == "movida.md"
            assert best(home, page(1), Filters("docs")) == "movida.md"
            assert best(home, page(1), Filters("wiki")) != "1.md"
            assert best(home, page(2)) != "2.md"
            question = Question("x", home.embedder.embed_question("x"))
            assert len(retrieve(question, 20, index=home.snapshot()).chunks) == PAGES - 1
            if not again:
                # Compaction moves rows and brings the index level.
                generations.compact(home.table())
                home.sync(full=True)
                assert state(home)[1] == 0

    def test_it_outlives_compaction(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generations, "MANY_VERSIONS", 3)
        for number in range(5):
            write(home, number, " Otra vez.")
            home.sync()
        for number in range(PAGES):
            more = " Otra vez." if number < 5 else ""
            assert best(home, page(number, more)) == f"{number}.md"

    def test_a_reader_keeps_to_its_version(self, home: Home) -> None:
        index = home.snapshot()
        for number in range(PAGES):
            write(home, number, " Todo es nuevo.")
        home.sync()
        assert best(home, page(7), index=index) == "7.md"
        assert index.texts([0]) != home.snapshot().texts([0])

    def test_a_filter_with_an_apostrophe_or_nothing_that_passes(self, home: Home) -> None:
        question = Question("x", home.embedder.embed_question("x"))
        for filters in (Filters("l'altre"), Filters(slug_prefix="l'h\n%"), Filters(app="' OR true OR '")):
            assert retrieve(question, 5, filters=filters, index=home.snapshot()).chunks == ()
