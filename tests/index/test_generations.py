"""What generations promise: a new model is built beside the live one and switched to in one write; going back
costs nothing; what nobody reads is dropped."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index import generations
from bib_orchestration.biblioteca.index.embedders import EmbeddingError, UseMultilingual, fingerprint_of
from bib_orchestration.biblioteca.index.generations import (
    CURRENT,
    Generation,
    IndexStore,
    in_list,
    tidy,
)
from bib_orchestration.biblioteca.index.vector_index import NoIndex, VectorIndex
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings

from .homes import Home, raising, versions

FIRST, SECOND, THIRD = (CountingEmbedder(name=name) for name in ("first", "second", "third"))


def table_of(embedder: CountingEmbedder) -> str:
    return f"chunks__{fingerprint_of(embedder.card)}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for embedder in (FIRST, SECOND, THIRD):
        embedder.texts.clear()
        embedder.fail = lambda texts: None
    made = Home(tmp_path / "home", FIRST)
    made.write("wiki/a.md", "# Uno\n\nTexto uno.\n")
    made.write("wiki/b.md", "# Dos\n\nTexto dos.\n")
    made.sync()
    return made


class TestChangeOfModel:
    def test_all_is_embedded_beside_the_live_one_which_serves_until_the_switch(self, home: Home) -> None:
        before = home.rows()
        seen: list[tuple[str, Any]] = []

        def look(_: Any) -> None:
            index = home.snapshot()
            seen.append((index.generation.model, index.texts([0, 1])))

        SECOND.fail = look
        report = home.sync(SECOND)
        assert [model for model, _ in seen] == ["first", "first"]
        assert report.went_live
        assert report.embedded == 2
        assert home.snapshot().generation.model == "second"
        assert home.rows() != before
        assert home.store.tables() == sorted([CURRENT, table_of(FIRST), table_of(SECOND)])

    @pytest.mark.parametrize("calls", [0, 1])
    def test_a_failure_while_building_leaves_the_old_one(self, home: Home, calls: int) -> None:
        before, current = home.rows(), home.store.current()
        SECOND.fail = raising(calls, ConnectionError("gone"))
        with pytest.raises(ConnectionError):
            home.sync(SECOND)
        assert home.rows() == before
        assert home.store.current() == current
        with home.embedding():
            assert not home.sync(FIRST).wrote

    def test_going_back_embeds_nothing(self, home: Home) -> None:
        home.sync(SECOND)
        for embedder in (FIRST, SECOND) * 2:
            given = len(embedder.texts)
            report = home.sync(embedder)
            assert report.went_live
            assert len(embedder.texts) == given
            assert home.snapshot().generation.model == embedder.name

    def test_going_back_embeds_only_what_came_meanwhile(self, home: Home, tmp_path: Path) -> None:
        home.sync(SECOND)
        home.write("wiki/c.md", "# Tres\n\nTexto tres.\n")
        home.delete("wiki/a.md")
        home.sync(SECOND)
        with home.embedding("Tres\n\nTexto tres.", "Texto tres."):
            home.sync(FIRST)
        assert home.rows() == home.built_anew(tmp_path / "fresh").rows()

    def test_a_third_model_drops_the_oldest_alone(self, home: Home) -> None:
        home.write("wiki/a.md", "# Uno\n\nOtro texto.\n")
        home.sync(FIRST)
        home.sync(SECOND)
        home.sync(THIRD)
        assert home.store.tables() == sorted([CURRENT, table_of(SECOND), table_of(THIRD)])

    def test_the_last_live_one_is_kept_although_another_was_written_later(self, home: Home) -> None:
        """Going back to FIRST wrote nothing into it, so by the time of writing SECOND is newer."""
        home.sync(SECOND)
        home.sync(FIRST)
        home.sync(THIRD)
        assert home.store.tables() == sorted([CURRENT, table_of(FIRST), table_of(THIRD)])
        with home.embedding():
            home.sync(FIRST)

    def test_one_that_was_never_finished_does_not_push_out_the_live_one(self, home: Home) -> None:
        SECOND.fail = raising(1, ConnectionError("gone"))
        with pytest.raises(ConnectionError):
            home.sync(SECOND)
        home.sync(THIRD)
        assert home.store.tables() == sorted([CURRENT, table_of(FIRST), table_of(THIRD)])

    @pytest.mark.parametrize(
        "other", [CountingEmbedder(name="first", revision="2"), CountingEmbedder(name="x")]
    )
    def test_another_revision_is_another_model(self, home: Home, other: CountingEmbedder) -> None:
        other.texts.clear()
        assert home.sync(other).embedded == 2

    def test_a_live_table_that_was_lost_is_built_again(self, home: Home) -> None:
        rows = home.rows()
        home.store.db.drop_table(table_of(FIRST))
        with pytest.raises(NoIndex, match="is not there; run `bib index`"):
            home.snapshot()
        home.sync()
        assert home.rows() == rows


class TestQuestionsByTheLiveModel:
    @pytest.fixture
    def library(self, home: Home, settings: Settings) -> Library:
        """Of a bib.toml that names another model than `home` is about to be indexed by."""
        return Library(settings.model_copy(update={"index": home.store.address}))

    def test_the_former_model_embeds_questions_until_the_switch(self, home: Home, library: Library) -> None:
        home.sync(UseMultilingual())
        library.embedder = SECOND
        question = library.question("¿Qué texto hay?")
        assert question.vector.shape == (512,)
        assert library.question("¿Qué texto hay?").vector.tolist() == question.vector.tolist()
        home.sync(SECOND)
        time.sleep(1.1)
        assert library.question("¿Qué texto hay?").vector.shape == (64,)

    def test_a_former_model_that_is_gone_is_named(self, home: Home, library: Library) -> None:
        home.sync(CountingEmbedder(name="./gone"))
        with pytest.raises(
            EmbeddingError, match=r"made by \./gone \(1\).*bib.toml names use-multilingual.*`bib index`"
        ):
            library.question("¿Qué texto hay?")


class TestStore:
    GENERATION = Generation("chunks__x", "x", "m", "1", 4, "1", "1", "c", 3, version=2)

    def test_current_is_one_row(self, tmp_path: Path) -> None:
        store = IndexStore(str(tmp_path / "not" / "there yet"))
        assert store.current() is None
        for contents in (3, 4):
            store.go_live(replace(self.GENERATION, contents=contents))
            assert store.current() == replace(self.GENERATION, contents=contents)
        assert store.open(CURRENT).count_rows() == 1

    def test_a_pointer_written_before_versions_were_named_is_read(self, home: Home) -> None:
        import pyarrow as pa

        old = {
            name: getattr(home.store.current(), name)
            for name in Generation.__slots__
            if name not in ("version", "calibration")
        }
        home.store.open(CURRENT).add(pa.Table.from_pylist([old]), mode="overwrite")
        rows = home.table().count_rows()
        assert len(home.snapshot()) == rows
        with home.embedding():
            home.sync()
        assert home.store.current().version == home.table().version

    def test_current_does_not_grow_for_ever(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generations, "MANY_VERSIONS", 3)
        monkeypatch.setattr(generations, "OLD_VERSIONS_KEPT", timedelta(milliseconds=1))
        store = IndexStore(str(tmp_path))
        for contents in range(20):
            store.go_live(replace(self.GENERATION, contents=contents))
        assert len(store.open(CURRENT).list_versions()) <= 5
        assert store.current() == replace(self.GENERATION, contents=19)

    def test_more_than_ten_tables_are_all_listed(self, tmp_path: Path) -> None:
        import pyarrow as pa

        store = IndexStore(str(tmp_path))
        names = [f"chunks__{number:02}" for number in range(23)]
        for name in names:
            store.db.create_table(name, pa.table({"content_id": ["a"]}))
        assert store.tables() == names
        assert store.drop_all_but({"03", "17"}) == [name for name in names if name[-2:] not in ("03", "17")]
        assert store.tables() == ["chunks__03", "chunks__17"]

    def test_spare_vectors_go_with_their_generation(self, home: Home) -> None:
        home.write("wiki/a.md", "# Uno\n\nOtro texto.\n")
        home.sync()
        assert f"spare__{fingerprint_of(FIRST.card)}" in home.store.tables()
        home.sync(SECOND)
        assert f"spare__{fingerprint_of(FIRST.card)}" in home.store.tables()
        home.sync(THIRD)
        assert [name for name in home.store.tables() if name.startswith("spare__")] == []

    @pytest.mark.parametrize(
        "value", ["l'hospitalet", "x' OR 1=1 --", 'di"jo', "a\nb", "ñ", "\\", "%_", "''", ""]
    )
    def test_in_list_finds_exactly_its_values(self, tmp_path: Path, value: str) -> None:
        import pyarrow as pa

        table = IndexStore(str(tmp_path)).db.create_table(
            "names", pa.table({"name": [value, value + "x", "x" + value, "other"]})
        )
        assert table.search().where(in_list("name", [value])).to_arrow()["name"].to_pylist() == [value]
        table.delete(in_list("name", [value, "other"]))
        assert table.count_rows() == 2


class TestTidying:
    @pytest.fixture(autouse=True)
    def everything_is_old(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generations, "MANY_VERSIONS", 0)
        monkeypatch.setattr(generations, "OLD_VERSIONS_KEPT", timedelta(milliseconds=1))

    def test_old_versions_go_and_the_rows_stay(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(6):
            home.write("wiki/c.md", f"# Tres\n\nTexto número {number}.\n")
            home.sync()
        # What the live version was when the run began, the merge, and what compaction adds.
        assert len(versions(home.store)[table_of(FIRST)]) <= 5
        assert [row["text"] for row in sorted(home.rows(), key=lambda row: row["title"])] == [
            *("Texto dos.", "Texto número 5.", "Texto uno."),
        ]
        written = versions(home.store)
        assert not home.sync().wrote
        assert versions(home.store) == written

    def test_what_readers_hold_stays_however_old_it_is(self, home: Home) -> None:
        """A run a day: the version that is being read is older than any limit when its successor is written."""
        reader = VectorIndex(home.store, poll_s=3600)
        index = reader.snapshot()
        before = [stored.text for stored in index.texts([0, 1])]
        time.sleep(0.2)
        # Every row is written anew, so that nothing of the old version's files is in the new one.
        home.corpus.sources["wiki"] = home.corpus.sources["wiki"].model_copy(update={"app": "otra"})
        home.sync()
        assert reader.snapshot() is index
        assert [stored.text for stored in index.texts([0, 1])] == before
        assert index.lexical.scores(["text"]).all()
        assert VectorIndex(home.store).snapshot().columns["apps"].to_pylist() == [["otra"], ["otra"]]

    def test_tidying_nothing_writes_nothing(self, home: Home) -> None:
        tidy(home.table())
        written = versions(home.store)
        tidy(home.table())
        assert versions(home.store)[table_of(FIRST)][-1] == written[table_of(FIRST)][-1]
