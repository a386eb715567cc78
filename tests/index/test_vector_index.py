"""What a reader promises: the live generation, whole, as it was at one moment, and a newer one soon."""

from __future__ import annotations

import shutil
import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index import stored_texts
from bib_orchestration.biblioteca.index.generations import CURRENT
from bib_orchestration.biblioteca.index.vector_index import NoIndex, Snapshot, VectorIndex, live_index
from bib_orchestration.biblioteca.retrieval.lexical import stems
from bib_orchestration.biblioteca.retrieval.sentences import split_spans

from .homes import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    for number in range(12):
        made.write(f"wiki/{number}.md", f"# Nota {number}\n\nCosa número {number}. Y nada más.\n")
    made.sync()
    return made


def shown(index: Snapshot) -> list[str]:
    """All that a snapshot gives out."""
    rows = range(len(index))
    assert index.vectors.shape == (len(index), 64)
    assert len(index.lexical.scores(["cos"])) == len(index)
    return [stored.text for stored in index.texts(rows)]


class TestSnapshot:
    def test_rows_stand_in_the_order_of_their_ids_with_all_that_is_stored(self, home: Home) -> None:
        index = home.snapshot()
        rows = home.rows()
        assert index.columns["content_id"].to_pylist() == [row["content_id"] for row in rows]
        assert np.array_equal(index.vectors, np.array([row["vector"] for row in rows], np.float32))
        for name in ("title", "heading_path", "text_hash", "language", "paths", "sources", "slugs"):
            assert index.columns[name].to_pylist() == [row[name] for row in rows]
        assert index.languages == ["es"]

    def test_texts_come_in_the_order_asked_for(self, home: Home) -> None:
        index = home.snapshot()
        rows = [7, 0, 11, 7, 3]
        texts = index.texts(rows)
        assert [stored.text for stored in texts] == [home.rows()[row]["text"] for row in rows]
        for stored in texts:
            assert stored.spans == split_spans(stored.text)
            sentences = [stored.text[start:end] for start, end in stored.spans]
            expected = CountingEmbedder().embed_texts(sentences)
            assert np.allclose(stored.sentence_vectors, expected, atol=1e-3)
        assert index.texts([]) == []

    def test_texts_are_fetched_once_and_then_held(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        index = home.snapshot()
        rows = [7, 0, 11, 7, 3]
        fetched = index.texts(rows)
        monkeypatch.setattr(stored_texts.StoredTexts, "_fetched", None)
        for held, first in zip(index.texts(rows), fetched, strict=True):
            assert (held.text, held.spans) == (first.text, first.spans)
            assert np.array_equal(held.sentence_vectors, first.sentence_vectors)

    @pytest.mark.parametrize("limit", [12 * 64 * 2 - 1, 12 * 64 * 2 + 1])
    def test_texts_that_are_too_large_are_fetched_each_time(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, limit: int
    ) -> None:
        """Whether the number of rows says so, or what is read of them."""
        monkeypatch.setattr(stored_texts, "MOST_HELD_BYTES", limit)
        index = home.snapshot()
        expected = [home.rows()[3]["text"]]
        for _ in range(3):
            assert [stored.text for stored in index.texts([3])] == expected

    def test_lexical_index_is_of_the_same_rows(self, home: Home) -> None:
        index = home.snapshot()
        scores = index.lexical.scores(stems("11", "es"))
        assert [index.columns["title"][row].as_py() for row in np.flatnonzero(scores)] == ["Nota 11"]

    def test_an_emptied_index_has_no_rows(self, home: Home) -> None:
        home.corpus.files.clear()
        home.write("wiki/x.md", "---\ntitle: Nada\n---\n")
        home.sync()
        assert shown(home.snapshot()) == [row["text"] for row in home.rows()]


class TestFollowing:
    def test_nothing_indexed_is_no_index_until_something_is(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        reader = VectorIndex(home.store, poll_s=3600)
        with pytest.raises(NoIndex, match=r"nothing is indexed yet in .*; run `bib index` first"):
            reader.snapshot()
        home.write("wiki/a.md", "Uno.\n")
        home.sync()
        assert shown(reader.snapshot()) == ["Uno."]

    def test_a_change_is_seen_after_poll_s_and_not_looked_for_before(self, home: Home) -> None:
        now, later = VectorIndex(home.store, poll_s=0.2), VectorIndex(home.store, poll_s=3600)
        first = now.snapshot(), later.snapshot()
        home.write("wiki/0.md", "# Nota 0\n\nOtra cosa.\n")
        home.sync()
        time.sleep(0.25)
        assert "Otra cosa." in shown(now.snapshot())
        assert later.snapshot() is first[1]

    def test_nothing_changed_keeps_the_snapshot(self, home: Home) -> None:
        reader = VectorIndex(home.store, poll_s=0)
        index = reader.snapshot()
        home.sync()
        home.sync(full=True)
        assert reader.snapshot() is index

    def test_a_snapshot_outlives_deletes_compaction_and_a_switch(self, home: Home) -> None:
        index = VectorIndex(home.store).snapshot()
        before = [row["text"] for row in home.rows()]
        for number in range(6):
            home.delete(f"wiki/{number}.md")
            home.sync()
        home.table().optimize()
        home.sync(CountingEmbedder(name="other"))
        assert shown(index) == before

    def test_switch_of_generations_is_followed(self, home: Home) -> None:
        reader = VectorIndex(home.store, poll_s=0)
        for name in ("counting", "second", "third", "second"):
            home.sync(CountingEmbedder(name=name))
            assert reader.snapshot().generation.model == name
            assert len(shown(reader.snapshot())) == 12

    def test_a_generation_dropped_under_a_sleeping_reader(self, home: Home) -> None:
        reader = VectorIndex(home.store, poll_s=0)
        reader.snapshot()
        for name in ("second", "third"):
            home.sync(CountingEmbedder(name=name))
        assert reader.snapshot().generation.model == "third"

    def test_a_generation_dropped_between_two_looks(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = home.store.current()
        for name in ("second", "third"):
            home.sync(CountingEmbedder(name=name))
        answers = iter([old])
        current = home.store.current
        monkeypatch.setattr(home.store, "current", lambda: next(answers, None) or current())
        assert VectorIndex(home.store).snapshot().generation.model == "third"

    @pytest.mark.parametrize("changed", [True, False])
    def test_an_index_removed_and_built_anew_is_followed(self, home: Home, changed: bool) -> None:
        """Its version numbers may be those of the old one."""
        reader = VectorIndex(home.store, poll_s=0)
        reader.snapshot()
        shutil.rmtree(home.folder / "index")
        with pytest.raises(NoIndex):
            reader.snapshot()
        if changed:
            home.delete("wiki/0.md")
        Home(home.folder, home.embedder, home.corpus).sync()
        assert shown(reader.snapshot()) == [row["text"] for row in home.rows()]

    def test_an_empty_pointer_is_no_index(self, home: Home) -> None:
        home.store.open(CURRENT).delete("true")
        with pytest.raises(NoIndex, match="no generation is live"):
            home.snapshot()

    def test_a_version_tidied_away_by_another_program_gives_the_newest(self, home: Home) -> None:
        home.table().optimize(cleanup_older_than=timedelta(milliseconds=1))
        assert len(shown(home.snapshot())) == 12

    def test_readers_in_many_threads_while_the_index_is_written(self, home: Home) -> None:
        """Each snapshot is of one moment: texts and vectors belong together."""
        reader, stop = VectorIndex(home.store, poll_s=0), threading.Event()
        embedder, wrong = CountingEmbedder(), []

        def read() -> None:
            while not stop.is_set():
                index = reader.snapshot()
                for row, stored in enumerate(index.texts(range(len(index)))):
                    expected = embedder.embed_question(f"{index.columns['title'][row]}\n\n{stored.text}")
                    if not np.array_equal(expected, index.vectors[row]):
                        wrong.append(stored.text)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(10):
            home.write(f"wiki/{number}.md", f"# Nota {number}\n\nEscrita de nuevo {number}.\n")
            home.sync()
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert "Escrita de nuevo 9." in shown(reader.snapshot())

    def test_one_reader_a_process_and_address(self, home: Home) -> None:
        assert live_index(home.store.address) is live_index(home.store.address)
