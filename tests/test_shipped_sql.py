"""What the models and tests of dbt_like_sql promise, on a small knowledge base that is indexed for real.

Each test is shown to find what it is there to find: data that break its promise, and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_now
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import TESTS_FOLDER, Library
from bib_orchestration.biblioteca.settings import load_settings
from bib_orchestration.biblioteca.warehouse.query_log import load
from bib_orchestration.biblioteca.warehouse.sql_models import read_models, read_tests
from bib_orchestration.biblioteca.warehouse.sql_tables import materialise, query, run_test

BIB_TOML = """\
[[sources]]
name = "wiki"
path = "wiki"
source_type = "wiki"

[[sources]]
name = "docs"
path = "docs"

[[sources]]
name = "notas"
path = "notas"
source_type = "session"
"""
COPY = "# Garantía\n\nLa garantía cubre la estructura durante diez años.\n"
PAGES = {
    "wiki/garantia.md": COPY,
    "wiki/vacaciones.md": "# Vacaciones\n\nLas vacaciones se piden en el portal.\n",
    "docs/garantia.md": COPY,
    "docs/garantia-2.md": COPY.replace("# Garantía", "# Cobertura"),
    "docs/vpn.md": "---\ntitle: VPN\n---\n# VPN\n\nEl acceso remoto exige VPN.\n",
    "notas/briefing.md": "# Sesión\n\nSe decidió exportar el plano en DXF.\n",
}
QUESTIONS = [
    ("q1", "2026-10-01T07:00:00Z", "¿cómo pido vacaciones?", True, 900),
    ("q2", "2026-10-01T08:00:00Z", "¿cómo pido vacaciones?", True, 1100),
    ("q3", "2026-10-01T22:30:00Z", "hay que usar la VPN", None, None),
    ("q4", "2026-10-02T09:00:00Z", "qué cubre la garantía", False, 500),
]
TESTS = read_tests(TESTS_FOLDER)

Row = dict[str, Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Indexed, with questions and two A/B runs, and every model made."""
    folder = tmp_path_factory.mktemp("shipped")
    for path, text in PAGES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "bib.toml").write_text(BIB_TOML)
    made = Library(load_settings(folder / "bib.toml", environ={"BIB_HOME": str(folder / "home")}))
    made.embedder = CountingEmbedder()
    made.settings.query_log.mkdir(parents=True)
    (made.settings.query_log / "2026-10-02.1.jsonl").write_text(
        "".join(
            json.dumps({"query_id": id_, "ts": ts, "question": text, "answered": answered, "latency_ms": ms})
            + "\n"
            for id_, ts, text, answered, ms in QUESTIONS
        )
    )
    index_all(made)
    load(made.warehouse, made.settings.query_log)
    day = datetime(2026, 10, 2, tzinfo=UTC).date()
    settings = ab_settings(made.settings)
    evaluate_now(made, settings, day=day)
    evaluate_now(made, settings, day=day)
    for model in made.models.values():
        materialise(made.warehouse, model, day=day if model.by_day else None, values=made.sql_values)
    return made


@pytest.fixture
def table(library: Library) -> Callable[..., list[Row]]:
    """Rows of a table, as dicts."""

    def rows(select: str) -> list[Row]:
        with library.warehouse.read() as connection:
            relation = connection.sql(select)
            return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]

    return rows


@pytest.fixture
def broken(library: Library) -> Iterator[Callable[[str], None]]:
    """Break data by a statement; afterwards all is as it was."""
    file = Path(library.settings.warehouse_address)
    before = file.read_bytes()

    def run(statement: str) -> None:
        with library.warehouse.lock(), library.warehouse.transaction() as connection:
            assert connection.execute(statement).fetchall()[0][0] > 0, "the statement changed nothing"

    yield run
    file.write_bytes(before)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


# --- models


def test_duplicates_saved_counts_copies_within_a_source_and_over_all(table) -> None:
    rows = {row["source"]: row for row in table("FROM duplicates_saved")}
    assert set(rows) == {"(all)", "wiki", "docs", "notas"}
    everything = rows["(all)"]
    # The page in wiki and in docs is one content; under another heading it is another, of the same text.
    assert (everything["occurrences"], everything["contents"], everything["texts"]) == (6, 5, 4)
    assert everything["embeddings_saved"] == 1
    assert everything["tokens_saved"] > 0
    assert everything["saved_pct"] == 16.7
    assert rows["wiki"]["embeddings_saved"] == rows["wiki"]["tokens_saved"] == 0


def test_corpus_health_has_a_row_a_source(table) -> None:
    rows = {row["source"]: row for row in table("FROM corpus_health")}
    assert {name: (row["documents"], row["chunks"]) for name, row in rows.items()} == {
        "docs": (3, 3),
        "notas": (1, 1),
        "wiki": (2, 2),
    }
    for row in rows.values():
        assert row["documents_without_chunks"] == row["stale_documents"] == row["skipped_files"] == 0
        assert row["error"] is None
        assert row["median_chunk_tokens"] <= row["longest_chunk_tokens"]


def test_a_source_that_cannot_be_read_is_in_corpus_health_with_its_reason(library, table, broken) -> None:
    broken("UPDATE bib_sources SET error = 'gone', read_at = now() WHERE source = 'wiki'")
    broken("UPDATE bib_docs SET stale = true WHERE source = 'wiki'")
    materialise(library.warehouse, library.models["corpus_health"])
    (row,) = table("FROM corpus_health WHERE error IS NOT NULL")
    assert (row["source"], row["error"], row["stale_documents"]) == ("wiki", "gone", 2)


def test_index_age_says_which_sources_changed_since_the_index_was_level(library, table, broken) -> None:
    assert [row["is_behind"] for row in table("FROM index_age")] == [False] * 3
    broken("UPDATE bib_sources SET read_at = now() WHERE source = 'docs'")
    materialise(library.warehouse, library.models["index_age"])
    assert [row["source"] for row in table("FROM index_age WHERE is_behind")] == ["docs"]


def test_without_an_index_every_source_is_behind(library, table, broken) -> None:
    broken("DELETE FROM bib_index")
    materialise(library.warehouse, library.models["index_age"])
    assert [row["is_behind"] for row in table("FROM index_age")] == [True] * 3


def test_questions_by_day_are_of_the_day_in_madrid_and_unknown_is_not_unanswered(table) -> None:
    first, second = table("FROM questions_by_day ORDER BY day")
    assert (str(first["day"]), first["questions"], first["different_questions"]) == ("2026-10-01", 2, 1)
    assert (first["answered"], first["unanswered"], first["answered_pct"]) == (2, 0, 100.0)
    assert first["median_latency_ms"] == 1000
    # 22:30 in UTC is the next day in Madrid.
    assert (str(second["day"]), second["questions"]) == ("2026-10-02", 2)
    assert (second["answered"], second["unanswered"], second["answered_pct"]) == (0, 1, 0.0)


def test_ab_history_compares_a_run_with_the_one_before_it(table) -> None:
    newest, oldest = table("FROM ab_history")
    assert newest["ran_at"] >= oldest["ran_at"]
    assert oldest["reduction_change"] is None
    assert newest["reduction_change"] == 0
    assert (newest["other_questions"], newest["other_corpus"]) == (False, False)
    assert newest["verdict"] == oldest["verdict"] is not None


def test_indexing_again_notes_nothing_and_makes_no_model_anew(library) -> None:
    before = Path(library.settings.warehouse_address).stat().st_mtime_ns
    index_all(library)
    assert Path(library.settings.warehouse_address).stat().st_mtime_ns == before


def test_the_model_that_readme_shows_works_as_it_stands(library, table, tmp_path: Path) -> None:
    shown = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (tmp_path / "nobody.sql").write_text(shown.partition("```sql\n")[2].partition("```")[0])
    model = read_models(tmp_path)["nobody"]
    assert model.description
    assert model.column_notes
    assert len(query(library.warehouse, model)) == len(PAGES)


# --- tests


@pytest.mark.parametrize("name", TESTS)
def test_a_sound_knowledge_base_passes(library, name: str) -> None:
    report = run_test(library.warehouse, TESTS[name], most=5, values=library.sql_values)
    assert (report.bad_rows, report.first) == (0, ())
    assert TESTS[name].description


BREAKS = {
    "ab_results_are_unique": "INSERT INTO ab_results SELECT * FROM ab_results WHERE rank = 1",
    "ab_results_have_a_run": "DELETE FROM ab_results WHERE rank = 1 AND variant = 'trim'",
    "chunks_are_slices": "UPDATE bib_chunks SET start = start + 1 WHERE source = 'wiki'",
    "chunks_are_unique": "INSERT INTO bib_chunks SELECT * FROM bib_chunks WHERE source = 'notas'",
    "chunks_have_a_document": "DELETE FROM bib_docs WHERE source = 'notas'",
    "contents_are_those_of_chunks": "DELETE FROM unique_chunks WHERE list_contains(sources, 'notas')",
    "contents_are_unique": "INSERT INTO unique_chunks SELECT * FROM unique_chunks WHERE list_contains(sources, 'wiki')",
    "documents_are_current": "UPDATE bib_docs SET stale = true WHERE source = 'wiki'",
    "documents_are_unique": "INSERT INTO bib_docs SELECT * FROM bib_docs WHERE source = 'wiki'",
    "documents_have_chunks": "DELETE FROM bib_chunks WHERE source = 'wiki'",
    "golden_sets_are_sets": "UPDATE golden_set SET rank = 1",
    "no_archived_documents": "UPDATE bib_docs SET path = '_archive/viejo.md' WHERE source = 'notas'",
    "occurrences_are_aligned": "UPDATE unique_chunks SET paths = list_append(paths, 'x')",
    "questions_are_loaded_once": "INSERT INTO oraculo_queries SELECT * FROM oraculo_queries",
}
# A break may be one of another promise too.
ALSO = {
    "ab_results_are_unique": {"ab_results_have_a_run"},
    "chunks_have_a_document": {"chunks_are_unique"},
    "documents_have_chunks": {"contents_are_those_of_chunks"},
}


def test_each_test_has_a_break_that_it_finds() -> None:
    assert BREAKS.keys() == TESTS.keys()


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_promise_is_found(library, broken, name: str) -> None:
    broken(BREAKS[name])
    found = {
        other
        for other, test in TESTS.items()
        if run_test(library.warehouse, test, most=5, values=library.sql_values).bad_rows
    }
    assert name in found
    assert found - {name} <= ALSO.get(name, set())


@pytest.mark.parametrize("path", ["LOG.md", "reports/x.md", "_archive/x.md", "2026/reports/x.md", "a/LOG.md"])
def test_what_is_archived_is_told_by_its_path(library, broken, path: str) -> None:
    broken(f"UPDATE bib_docs SET path = '{path}' WHERE source = 'notas'")
    test = TESTS["no_archived_documents"]
    assert run_test(library.warehouse, test, most=5).bad_rows == 1
    # Of other types of source it is a page like any other.
    broken("UPDATE bib_docs SET source_type = 'wiki' WHERE source = 'notas'")
    assert run_test(library.warehouse, test, most=5).bad_rows == 0
