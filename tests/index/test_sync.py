"""What `sync_index` promises: nothing is embedded twice, nothing is written for nothing, and the index is the
one that would be built anew."""

from __future__ import annotations

import gc
import json
import unicodedata
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import CountingEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus.chunks import embedded_text
from bib_orchestration.biblioteca.index import sync
from bib_orchestration.biblioteca.index.generations import SPARE_PREFIX
from bib_orchestration.biblioteca.index.sync import IndexReport, NothingToIndex
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.retrieval.sentences import split_sentences
from bib_orchestration.biblioteca.settings import load_settings
from bib_orchestration.biblioteca.warehouse import sql_tables
from bib_orchestration.biblioteca.warehouse.connection import Warehouse

from .homes import Home, live_rows, versions

SHIFTS = "# Turnos\n\nSe publican cada lunes. Quien no pueda avisa a la jefa.\n"
LEAVE = "# Permisos\n\nHay tres permisos. El de lactancia se pide por escrito.\n"
OFFICE = "# Sede\n\nAbre a las nueve.\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.write("wiki/turnos.md", SHIFTS)
    made.write("docs/permisos.md", LEAVE)
    made.sync()
    return made


def assert_like_built_anew(home: Home, folder: Path) -> None:
    assert home.rows() == home.built_anew(folder).rows()


class TestEmbedsOnce:
    def test_each_content_and_each_sentence_of_a_batch_is_embedded_once(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        home.write("wiki/a.md", SHIFTS)
        home.write("wiki/copy.md", SHIFTS)
        home.write("docs/b.md", "# Otros turnos\n\nSe publican cada lunes.\n")
        with home.embedding(*home.wanted_texts()):
            report = home.sync()
        assert len(home.embedder.texts) == len(set(home.embedder.texts)) == 4
        assert report == IndexReport(report.generation, 2, added=2, embedded=2, texts=4, went_live=True)

    @pytest.mark.parametrize("full", [False, True])
    def test_nothing_changed_embeds_nothing_and_writes_nothing(self, home: Home, full: bool) -> None:
        before = versions(home.store)
        again = Home(home.folder, home.embedder, home.corpus)
        with home.embedding():
            reports = [home.sync(full=full), again.sync(full=full)]
        assert versions(home.store) == before
        assert reports == [IndexReport(reports[0].generation, 2)] * 2
        assert not reports[0].wrote

    def test_new_text_embeds_itself_alone(self, home: Home) -> None:
        home.write("wiki/sede.md", OFFICE)
        with home.embedding("Sede\n\nAbre a las nueve.", "Abre a las nueve."):
            report = home.sync()
        assert report == IndexReport(report.generation, 3, added=1, embedded=1, texts=2)

    def test_edit_embeds_the_chunk_that_changed_and_its_new_sentence(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        parts = [
            f"## Parte {number}\n\n{'Frase larga de relleno. ' * 12}Final {number}.\n" for number in range(5)
        ]
        home.write("wiki/largo.md", "# Largo\n\n" + "\n".join(parts))
        assert home.sync().contents == 5
        parts[2] = parts[2].replace("Final 2", "Otro final")
        home.write("wiki/largo.md", "# Largo\n\n" + "\n".join(parts))
        body = f"{'Frase larga de relleno. ' * 12}Otro final."
        with home.embedding(f"Largo > Parte 2\n\n{body}", "Otro final."):
            report = home.sync()
        assert (report.added, report.deleted, report.updated) == (1, 1, 0)

    def test_another_heading_embeds_no_sentence(self, home: Home, tmp_path: Path) -> None:
        home.write("wiki/turnos.md", SHIFTS.replace("# Turnos", "# Los turnos"))
        with home.embedding("Los turnos\n\nSe publican cada lunes. Quien no pueda avisa a la jefa."):
            report = home.sync()
        assert (report.added, report.embedded, report.texts, report.deleted) == (1, 1, 1, 1)
        assert_like_built_anew(home, tmp_path / "fresh")

    @pytest.mark.parametrize(
        "other", [SHIFTS.replace("\n", "\r\n"), unicodedata.normalize("NFD", SHIFTS), "\ufeff" + SHIFTS]
    )
    def test_another_way_to_save_a_file_embeds_nothing(self, home: Home, other: str) -> None:
        before = home.rows()
        home.write("wiki/turnos.md", other)
        with home.embedding():
            home.sync()
        assert home.rows() == before

    def test_move_copy_and_rename_embed_nothing_and_keep_the_vectors(self, home: Home) -> None:
        before = {row["content_id"]: row for row in home.rows()}
        home.write("docs/otro sitio/turnos nuevos.md", home.delete("wiki/turnos.md"))
        home.write("wiki/copia.md", LEAVE)
        with home.embedding():
            report = home.sync()
        assert report == IndexReport(report.generation, 2, updated=2)
        assert home.paths() == ["copia.md", "otro sitio/turnos nuevos.md", "permisos.md"]
        for row in home.rows():
            old = before[row["content_id"]]
            assert {name for name in row if row[name] != old[name]} <= {
                *("sources", "source_types", "apps", "slugs", "paths")
            }

    def test_content_stays_until_its_last_occurrence_goes(self, home: Home) -> None:
        home.write("docs/copia.md", SHIFTS)
        home.sync()
        home.delete("wiki/turnos.md")
        with home.embedding():
            assert home.sync().deleted == 0
        assert home.paths() == ["copia.md", "permisos.md"]
        home.delete("docs/copia.md")
        with home.embedding():
            assert home.sync().deleted == 1
        assert home.paths() == ["permisos.md"]

    def test_edit_undone_embeds_nothing_however_often(self, home: Home) -> None:
        edited = SHIFTS.replace("lunes", "martes")
        home.write("wiki/turnos.md", edited)
        with home.embedding(*(set(home.wanted_texts()) - set(home.embedder.texts))):
            home.sync()
        before = home.rows()
        with home.embedding():
            for text in (SHIFTS, edited) * 3:
                home.write("wiki/turnos.md", text)
                report = home.sync()
                assert (report.added, report.embedded, report.deleted) == (1, 0, 1)
        assert home.rows() == before

    def test_deleted_file_restored_embeds_nothing(self, home: Home) -> None:
        before = home.rows()
        with home.embedding():
            for _ in range(3):
                text = home.delete("docs/permisos.md")
                assert home.sync().deleted == 1
                home.write("docs/permisos.md", text)
                assert home.sync().added == 1
        assert home.rows() == before

    def test_what_is_in_the_index_is_not_kept_as_spare_too(self, home: Home) -> None:
        home.write("wiki/turnos.md", OFFICE)
        home.sync()
        home.write("wiki/turnos.md", SHIFTS)
        home.sync()
        spare = home.store.open(SPARE_PREFIX + home.store.current().fingerprint)
        kept = spare.to_arrow()["content_id"].to_pylist()
        assert len(kept) == 1
        assert not {row["content_id"] for row in home.rows()} & set(kept)

    def test_spare_vectors_last_thirty_days(self, home: Home) -> None:
        home.delete("wiki/turnos.md")
        home.sync()
        spare = home.store.open(SPARE_PREFIX + home.store.current().fingerprint)
        for age, left in ((timedelta(days=29), 1), (timedelta(days=31), 0)):
            since = datetime.now(UTC) - age
            spare.update(values={"since": since})
            home.write("wiki/sede.md", OFFICE if left else OFFICE + "Y cierra a las dos.\n")
            home.sync()
            assert spare.count_rows(f"content_id NOT IN ('{home.rows()[0]['content_id']}')") >= left
            assert spare.count_rows(f"since = timestamp '{since:%Y-%m-%d %H:%M:%S.%f}'") == left

    def test_contents_in_any_number_of_batches(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sync, "BATCH", 2)
        told: list[tuple[int, int]] = []
        for number in range(5):
            home.write(f"wiki/{number}.md", f"# Nota\n\nCosa número {number}.\n")
        report = home.sync(progress=lambda done, total: told.append((done, total)))
        assert report.embedded == 5
        assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
        assert_like_built_anew(home, home.folder / "fresh")


class TestWhatHasNoVectorOfItsOwn:
    """Occurrences, stems, headings: they change without the embedded text changing."""

    @pytest.mark.parametrize("change", [{"app": "otra"}, {"source_type": "manual"}, {"language": "en"}])
    def test_a_source_set_otherwise_rewrites_its_rows(
        self, home: Home, change: dict[str, str], tmp_path: Path
    ) -> None:
        wiki = home.corpus.sources["wiki"]
        home.corpus.sources["wiki"] = wiki.model_copy(update=change)
        with home.embedding():
            assert home.sync().updated == 1
        assert_like_built_anew(home, tmp_path / "fresh")

    @pytest.mark.parametrize(
        "texts",
        [
            ("# Sede\n\nAbre a las nueve.\n", "Sede\n\nAbre a las nueve.\n"),
            ("# Sede\n\nAbre a las nueve.\n", "---\ntitle: Sede\n---\n\nAbre a las nueve.\n"),
            (
                "---\ntitle: Sede\n---\n\nAbre a las nueve.\n",
                "---\ntitle: Sede\n---\n\n# Sede\n\nAbre a las nueve.\n",
            ),
        ],
    )
    def test_heading_made_text_or_title(self, tmp_path: Path, texts: tuple[str, str]) -> None:
        home = Home(tmp_path / "home")
        for text in (*texts, *texts):
            home.write("wiki/sede.md", text)
            home.sync()
            assert_like_built_anew(home, tmp_path / f"fresh{len(list(tmp_path.iterdir()))}")
        assert home.embedder.texts.count("Sede\n\nAbre a las nueve.") == 1

    def test_lexical_version_makes_stems_anew_and_embeds_nothing(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (sync, sync.stored_rows):
            monkeypatch.setattr(module, "LEXICAL_VERSION", "another")
        monkeypatch.setattr(sync.stored_rows, "stems", lambda text, language: ["raíz"])
        with home.embedding():
            assert home.sync() == IndexReport(home.store.current().table, 2, updated=2)
        assert [row["stems"] for row in home.rows()] == ["raíz\nraíz\nraíz"] * 2
        assert home.store.current().lexical == "another"

    @pytest.fixture
    def other_splitter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another version of a splitter, by which each text is one sentence."""
        from bib_orchestration.biblioteca.index import sentence_vectors, stored_rows

        for module in (sync, stored_rows):
            monkeypatch.setattr(module, "SPLITTER_VERSION", "another")
        for module in (sentence_vectors, stored_rows):
            monkeypatch.setattr(module, "split_spans", lambda text: [(0, len(text))])

    def test_splitter_version_makes_sentences_anew_and_nothing_else(
        self, home: Home, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        request.getfixturevalue("other_splitter")
        before = {row["content_id"]: row["vector"] for row in home.rows()}
        with home.embedding(*(row["text"] for row in home.rows())):
            report = home.sync()
        assert report == IndexReport(report.generation, 2, updated=2, texts=2)
        assert {row["content_id"]: row["vector"] for row in home.rows()} == before
        assert home.store.current().splitter == "another"
        assert_like_built_anew(home, tmp_path / "fresh")

    def test_splitter_version_goes_on_where_a_failure_stopped_it(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        monkeypatch.setattr(sync, "BATCH", 1)
        home.write("wiki/sede.md", OFFICE)
        home.sync()
        before = home.rows()
        request.getfixturevalue("other_splitter")
        home.embedder.fail = lambda texts: _refuse(len(home.embedder.texts) >= given + 2)
        given = len(home.embedder.texts)
        with pytest.raises(OSError, match="no"):
            home.sync()
        assert home.rows() == before
        home.embedder.fail = lambda texts: None
        home.sync()
        assert sorted(home.embedder.texts[given:]) == sorted(row["text"] for row in home.rows())


def _refuse(when: bool) -> None:
    if when:
        raise OSError("no")


# What may happen to a row on disk: its vectors cannot be right, or something else is not what is wanted.
BROKEN: dict[str, Callable[[dict[str, Any]], None]] = {
    "infinity": lambda row: row.update(vector=[float("inf"), *row["vector"][1:]]),
    "zero": lambda row: row.update(vector=[0.0] * len(row["vector"])),
    "none": lambda row: row.update(vector=None),
    "odd bytes": lambda row: row.update(sentence_vectors=b"abc"),
    "a sentence short": lambda row: row.update(sentence_vectors=row["sentence_vectors"][:128]),
    "sentence NaN": lambda row: row.update(sentence_vectors=b"\xff\xff" + row["sentence_vectors"][2:]),
    "an end short": lambda row: row.update(sentence_ends=row["sentence_ends"][:-1]),
    "spans elsewhere": lambda row: row.update(
        sentence_starts=[start + 1 for start in row["sentence_starts"]]
    ),
}
WRONG: dict[str, dict[str, Any]] = {
    "text": {"text": "Otro."},
    "title": {"title": "Otro"},
    "tokens": {"tokens": 7},
    "stems": {"stems": "otro"},
    "lists": {"paths": ["otro.md"]},
    "a list's length": {"apps": []},
}


class TestFull:
    """`full` reads and verifies every row, and mends those that went bad on disk."""

    def _damage(self, home: Home, change: Callable[[dict[str, Any]], None]) -> str:
        """Change the row of SHIFTS on disk, by other means than ours; returns its id."""
        import pyarrow as pa

        table = home.table()
        rows = table.to_arrow().to_pylist()
        row = next(row for row in rows if row["title"] == "Turnos")
        change(row)
        table.delete(f"content_id = '{row['content_id']}'")
        data = pa.Table.from_pylist([row], schema=table.schema)
        table.add(data)
        generation = home.store.current()
        home.store.go_live(type(generation)(**{**_fields(generation), "version": table.version}))
        return row["content_id"]

    @pytest.mark.parametrize("kind", BROKEN)
    def test_broken_vectors_are_embedded_again_and_no_others(self, home: Home, kind: str) -> None:
        before = home.rows()
        reader = home.snapshot()
        self._damage(home, BROKEN[kind])
        with home.embedding():
            assert not home.sync().wrote
        with home.embedding("Turnos\n\n" + before_text(before), *split_sentences(before_text(before))):
            report = home.sync(full=True)
        assert (report.embedded, report.added, report.updated) == (1, 1, 0)
        assert home.rows() == before
        assert np.array_equal(home.snapshot().vectors, reader.vectors)

    @pytest.mark.parametrize("kind", WRONG)
    def test_anything_else_wrong_is_written_anew_without_embedding(self, home: Home, kind: str) -> None:
        before = home.rows()
        self._damage(home, lambda row: row.update(WRONG[kind]))
        with home.embedding():
            report = home.sync(full=True)
        assert (report.added, report.updated) == (0, 1)
        assert home.rows() == before

    def test_broken_row_that_moves_is_embedded_again_without_full(self, home: Home, tmp_path: Path) -> None:
        self._damage(home, BROKEN["odd bytes"])
        home.write("wiki/otro.md", home.delete("wiki/turnos.md"))
        assert home.sync().embedded == 1
        assert_like_built_anew(home, tmp_path / "fresh")

    def test_broken_row_that_goes_leaves_no_spare_vectors(self, home: Home) -> None:
        self._damage(home, BROKEN["zero"])
        text = home.delete("wiki/turnos.md")
        home.sync()
        home.write("wiki/turnos.md", text)
        assert home.sync().embedded == 1


def before_text(rows: list[dict[str, Any]]) -> str:
    return next(row["text"] for row in rows if row["title"] == "Turnos")


def _fields(generation: Any) -> dict[str, Any]:
    return {name: getattr(generation, name) for name in generation.__slots__}


class TestEmptyAndStrange:
    def test_nothing_at_all_is_no_index_and_no_error(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        assert home.sync() == IndexReport("", 0)
        assert home.store.tables() == []

    def test_an_index_is_not_emptied_when_no_document_is_known(self, home: Home) -> None:
        before = home.rows()
        home.corpus.files.clear()
        with pytest.raises(NothingToIndex, match="holds 2 contents; they are kept"):
            home.sync()
        assert home.rows() == before

    def test_documents_without_content_do_empty_it(self, home: Home) -> None:
        home.corpus.files.clear()
        home.write("wiki/vacio.md", "---\ntitle: Nada\n---\n")
        assert home.sync().deleted == 2
        assert home.rows() == []
        assert len(home.snapshot()) == 0

    def test_same_section_twice_in_a_document_is_one_row(self, tmp_path: Path) -> None:
        """H04: LanceDB inserts a key that comes twice in a batch twice, and fails on the next merge."""
        home = Home(tmp_path / "home")
        faq = "# FAQ\n\n" + "## Soporte\n\nEscriba a soporte.\n\n" * 2
        for text in (faq, faq + "Nueva línea.\n", faq * 2):
            home.write("docs/faq.md", text)
            home.sync()
            home.sync(full=True)
            ids = [row["content_id"] for row in home.rows()]
            assert len(ids) == len(set(ids))
        assert_like_built_anew(home, tmp_path / "fresh")

    NAMES = (
        "l'hospitalet d'alumnes.md",
        "x' OR 1=1 --.md",
        'di"jo.md',
        "salto\nde línea.md",
        "ñandú/acción é.md",
        "back\\slash.md",
        "%_{}$1;DROP TABLE current;.md",
        "🦆.md",
        "`tick`.md",
    )

    def test_no_path_breaks_or_widens_a_write(self, home: Home) -> None:
        """H05: quotes in a path must not reach a filter."""
        for number, name in enumerate(self.NAMES):
            home.write(f"wiki/{name}", f"# Nombre {number}\n\nTexto número {number}.\n")
        home.sync()
        left = [*self.NAMES, "turnos.md", "permisos.md"]
        assert home.paths() == sorted(left)
        for name in self.NAMES:
            home.delete(f"wiki/{name}")
            left.remove(name)
            assert home.sync().deleted == 1
            assert home.paths() == sorted(left)

    def test_texts_of_any_kind_are_stored_and_verified(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        texts = [
            "NUL \0 dentro.",
            "🦆🦆🦆",
            "a" * 20_000,
            "de la y el",
            "```\ncódigo\n```",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "'; --",
            "\u2028línea\x85otra",
        ]
        for number, text in enumerate(texts):
            home.write(f"wiki/{number}.md", text + "\n")
        home.sync()
        before = versions(home.store)
        with home.embedding():
            assert not home.sync(full=True).wrote
        assert versions(home.store) == before


# --- incremental and built anew are the same

PARAGRAPHS = (
    "Los turnos se publican cada lunes. Quien no pueda avisa.",
    "Hay tres permisos.",
    "Abre a las nueve. Cierra a las dos.",
    "Sede",
)
PATHS = ("wiki/a.md", "wiki/b.md", "docs/a.md", "docs/l'altre.md")

documents = st.builds(
    lambda title, body: title + "\n\n".join(body) + "\n",
    st.sampled_from(["", "# Sede\n\n", "---\ntitle: Sede\n---\n\n", "# Sede\n\n## Horario\n\n"]),
    st.lists(st.sampled_from(PARAGRAPHS), min_size=1, max_size=2),
)
changes = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATHS), documents),
    st.tuples(st.sampled_from(["move", "copy"]), st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.tuples(st.just("delete"), st.sampled_from(PATHS)),
)
steps = changes | st.tuples(st.sampled_from(["sync", "full"]))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=st.lists(steps, min_size=3, max_size=14))
def test_any_sequence_of_changes_gives_the_index_built_anew(
    tmp_path_factory: pytest.TempPathFactory, sequence: list[tuple[str, ...]]
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    embedded: set[str] = set()
    home.write("wiki/fijo.md", "# Fijo\n\nSiempre está.\n")
    for action, *arguments in [*sequence, ("sync",)]:
        if action in ("sync", "full"):
            home.sync(full=action == "full")
            embedded |= _contents(home)
        elif action == "write":
            home.write(*arguments)
        elif (source := arguments[0]) in {f"{name}/{path}" for name, path in home.corpus.files}:
            text = home.delete(source)
            if action != "delete":
                home.write(arguments[1], text)
            if action == "copy":
                home.write(source, text)
    assert home.rows() == home.built_anew(tmp_path_factory.mktemp("fresh")).rows()
    # Whatever came and went and came again, each content was embedded once. (A text may be both a content
    # and a sentence.)
    whole = [text for text in home.embedder.texts if text in embedded]
    assert all(whole.count(text) == 1 for text in embedded if "\n\n" in text)


def _contents(home: Home) -> set[str]:
    with home.corpus.read() as connection:
        rows = connection.sql("SELECT title, heading_path, text FROM unique_chunks").fetchall()
    return {embedded_text(*row) for row in rows}


# --- the same through every floor below the command line


class TestThroughFiles:
    """`index_all`, with files on disk and the warehouse in its own."""

    def test_from_first_run_to_last_file(
        self, library: Library, embedder: CountingEmbedder, write: Callable[[str, str], Path], tmp_path: Path
    ) -> None:
        write("wiki/turnos.md", SHIFTS)
        permisos = write("docs/permisos.md", LEAVE)
        assert index_all(library).index.embedded == 2
        before, texts = versions(library.store), len(embedder.texts)
        assert not index_all(library).index.wrote
        assert versions(library.store) == before
        permisos.rename(tmp_path / "wiki" / "x' OR 1=1 --.md")
        write("docs/otro.md", OFFICE)
        assert index_all(library).index == IndexReport(
            library.store.current().table, 3, added=1, updated=1, embedded=1, texts=2
        )
        assert len(embedder.texts) == texts + 2

    def test_a_move_is_one_transaction_a_step_and_compares_no_rows(
        self,
        library: Library,
        write: Callable[[str, str], Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        write("wiki/turnos.md", SHIFTS)
        write("docs/permisos.md", LEAVE)
        index_all(library)
        begun = []
        transaction = Warehouse.transaction

        def counted(warehouse: Warehouse) -> AbstractContextManager[Any]:
            begun.append(warehouse)
            return transaction(warehouse)

        monkeypatch.setattr(Warehouse, "transaction", counted)
        monkeypatch.setattr(sql_tables, "_differ", lambda *_: pytest.fail("the hashes had told"))
        index_all(library)
        assert not begun
        (tmp_path / "wiki/turnos.md").rename(tmp_path / "wiki/calendario.md")
        assert index_all(library).index.updated == 1
        # Documents with the source's state, chunks, contents, and what is noted of the index.
        assert len(begun) == 4

    def test_garbage_is_collected_as_before_when_it_ends(self, library: Library) -> None:
        assert gc.get_freeze_count() == 0
        index_all(library)
        assert gc.get_freeze_count() == 0

    def test_a_source_that_is_missing_or_empty_keeps_its_rows(
        self, library: Library, write: Callable[[str, str], Path], tmp_path: Path
    ) -> None:
        write("wiki/turnos.md", SHIFTS)
        permisos = write("docs/permisos.md", LEAVE)
        index_all(library)
        before, rows = versions(library.store), live_rows(library.store)
        permisos.unlink()
        empty = index_all(library)
        (tmp_path / "docs").rmdir()
        missing = index_all(library)
        for report in (empty, missing):
            assert len(report.errors) == 1
            assert "docs" in report.errors[0]
            assert not report.index.wrote
        assert versions(library.store) == before
        assert live_rows(library.store) == rows

    def test_a_source_taken_out_of_bib_toml_goes(
        self,
        library: Library,
        embedder: CountingEmbedder,
        write: Callable[[str, str], Path],
        make_settings: Callable[..., Any],
    ) -> None:
        write("wiki/turnos.md", SHIFTS)
        write("docs/permisos.md", LEAVE)
        index_all(library)
        smaller = Library(make_settings('[[sources]]\nname = "wiki"\npath = "wiki"\nsource_type = "wiki"\n'))
        smaller.embedder = embedder
        report = index_all(smaller)
        assert report.removed_sources == ("docs",)
        assert report.index.deleted == 1
        assert [row["paths"] for row in live_rows(library.store)] == [["turnos.md"]]

    def test_a_warehouse_that_was_lost_does_not_empty_the_index(
        self, library: Library, write: Callable[[str, str], Path], tmp_path: Path
    ) -> None:
        turnos = write("wiki/turnos.md", SHIFTS)
        index_all(library)
        for file in (tmp_path / "home").glob("warehouse*"):
            file.unlink()
        turnos.unlink()
        again = Library(library.settings)
        again.embedder = library.embedder
        with pytest.raises(NothingToIndex):
            index_all(again)
        assert len(live_rows(library.store)) == 1

    @settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_any_sequence_of_changes_gives_the_index_built_anew(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        folder = tmp_path_factory.mktemp("files")
        config = folder / "bib.toml"
        config.write_text(
            "".join(f'[[sources]]\nname = "{name}"\npath = "{name}"\n' for name in ("wiki", "docs")),
            encoding="utf-8",
        )
        for source in ("wiki", "docs"):
            (folder / source).mkdir()
            (folder / source / "fijo.md").write_text(f"# Fijo\n\n{json.dumps(source)}\n", encoding="utf-8")

        def made(home: str) -> Library:
            settings_of = load_settings(config, environ={"BIB_HOME": str(folder / home)})
            library = Library(settings_of)
            library.embedder = CountingEmbedder()
            return library

        library = made("home")
        for _ in range(2):
            for action, path, *rest in data.draw(st.lists(changes, min_size=2, max_size=5)):
                file = folder / path
                if action == "write":
                    file.write_text(rest[0], encoding="utf-8")
                elif file.exists():
                    text = file.read_text(encoding="utf-8")
                    if action != "copy":
                        file.unlink()
                    if action != "delete":
                        (folder / rest[0]).write_text(text, encoding="utf-8")
            index_all(library)
        fresh = made("fresh")
        index_all(fresh)
        assert live_rows(library.store) == live_rows(fresh.store)
