"""What the index promises of its calibration: made when it is built, by the log's questions, and kept with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index import sync
from bib_orchestration.biblioteca.index.generations import Generation
from bib_orchestration.biblioteca.retrieval.calibration import FEWEST_QUESTIONS, MOST_QUESTIONS, Calibration
from bib_orchestration.biblioteca.warehouse.connection import insert_rows

from .homes import Home, versions


class QuestionCounter(CountingEmbedder):
    """Counts the questions too."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    def embed_question(self, text: str):  # type: ignore[no-untyped-def]
        self.questions.append(text)
        return super().embed_question(text)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", QuestionCounter())
    for number in range(30):
        made.write(
            f"wiki/{number}.md", f"# Página {number}\n\nEl turno {number} empieza. La nave {number} abre.\n"
        )
    return made


def log_questions(home: Home, count: int, first: int = 0) -> None:
    rows = [
        {"query_id": f"q{number}", "question": f" ¿Cuándo abre la nave {number}? ", "ts": datetime.now(UTC)}
        for number in range(first, first + count)
    ]
    with home.corpus.read() as connection:
        insert_rows(connection, "oraculo_queries", rows)


def asked(home: Home) -> list[str]:
    assert isinstance(home.embedder, QuestionCounter)
    questions, home.embedder.questions = home.embedder.questions, []
    return questions


def calibration(home: Home) -> Calibration:
    generation = home.store.current()
    assert generation is not None
    assert generation.calibration is not None
    assert home.snapshot().calibration == generation.calibration
    return generation.calibration


def test_is_made_by_the_logs_questions_each_once(home: Home) -> None:
    log_questions(home, 25)
    log_questions(home, 25)
    home.sync()
    assert sorted(asked(home)) == sorted(f"¿Cuándo abre la nave {number}?" for number in range(25))
    made = calibration(home)
    assert (made.questions, made.contents, made.sentences) == (25, 30, 60)
    assert 0 < made.lowest < made.threshold < made.highest


def test_many_questions_are_drawn_from(home: Home) -> None:
    log_questions(home, MOST_QUESTIONS + 50)
    home.sync()
    assert len(asked(home)) == MOST_QUESTIONS


def test_without_questions_sentences_stand_in_and_nothing_is_embedded_for_it(home: Home) -> None:
    log_questions(home, FEWEST_QUESTIONS - 1)
    home.sync()
    assert asked(home) == []
    assert calibration(home).questions == 0


def test_nothing_changed_calibrates_and_writes_nothing(home: Home) -> None:
    log_questions(home, 25)
    home.sync()
    asked(home)
    before = versions(home.store)
    home.sync()
    log_questions(home, 2, first=25)
    home.sync()
    assert asked(home) == []
    assert versions(home.store) == before


def test_small_changes_keep_it(home: Home) -> None:
    log_questions(home, 25)
    home.sync()
    made = calibration(home)
    asked(home)
    home.write("wiki/0.md", "# Otra\n\nAlgo nuevo. Y más.\n")
    home.sync()
    assert asked(home) == []
    assert calibration(home) == made


def test_many_new_questions_or_contents_renew_it_and_embed_no_content(home: Home) -> None:
    home.sync()
    log_questions(home, 25)
    with home.embedding():
        report = home.sync()
    assert (report.added, report.updated, report.deleted) == (0, 0, 0)
    assert (len(asked(home)), calibration(home).questions) == (25, 25)
    for number in range(30, 40):
        home.write(f"wiki/{number}.md", f"# Página {number}\n\nTexto {number}. Otro {number}.\n")
    home.sync()
    assert (len(asked(home)), calibration(home).contents) == (25, 40)


def test_full_renews_it(home: Home) -> None:
    log_questions(home, 25)
    home.sync()
    asked(home)
    home.sync(full=True)
    assert len(asked(home)) == 25


def test_other_sentences_renew_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    log_questions(home, 25)
    home.sync()
    asked(home)
    monkeypatch.setattr(sync, "SPLITTER_VERSION", "another")
    monkeypatch.setattr("bib_orchestration.biblioteca.index.stored_rows.SPLITTER_VERSION", "another")
    home.sync()
    assert len(asked(home)) == 25


def test_it_is_what_an_index_built_anew_has(home: Home, tmp_path: Path) -> None:
    log_questions(home, 25)
    home.sync()
    made = calibration(home)
    fresh = home.built_anew(tmp_path / "fresh")
    assert calibration(fresh) == made


def test_an_index_of_before_it_was_kept_gets_one(home: Home) -> None:
    home.sync()
    current = home.store.current()
    assert isinstance(current, Generation)
    home.store.go_live(replace(current, calibration=None))
    with home.embedding():
        home.sync()
    assert home.store.current() == current
