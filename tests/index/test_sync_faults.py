"""What `sync_index` promises when it fails, is lied to, is killed, or meets another: the old index serves, and
nothing that was embedded is embedded again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index import sync
from bib_orchestration.biblioteca.index.embedders import EmbeddingError
from bib_orchestration.biblioteca.index.generations import CURRENT, IndexStore
from bib_orchestration.biblioteca.index.vector_index import NoIndex, VectorIndex
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.retrieval.retrieve import Question, retrieve
from bib_orchestration.biblioteca.settings import load_settings
from bib_orchestration.biblioteca.warehouse import locks

from .homes import Home, live_rows, raising, versions
from .indexing_child import KILLED

CHILD = Path(__file__).with_name("indexing_child.py")


@pytest.fixture(autouse=True)
def one_content_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "BATCH", 1)


@pytest.fixture(params=["first build", "live"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """With three contents that are not embedded yet, beside one that is if there is a live index."""
    made = Home(tmp_path / "home")
    if request.param == "live":
        made.write("wiki/antes.md", "# Antes\n\nYa estaba.\n")
        made.sync()
        made.embedder.texts.clear()
    for number in range(3):
        made.write(f"wiki/{number}.md", f"# Nota {number}\n\nCosa número {number}.\n")
    return made


def assert_serves_as_before(home: Home, rows: list[dict[str, Any]], reader: VectorIndex) -> None:
    assert home.rows() == rows
    if not rows:
        with pytest.raises(NoIndex):
            reader.snapshot()
        return
    question = Question("Ya estaba", home.embedder.embed_question("Ya estaba"))
    for index in (reader.snapshot(), home.snapshot()):
        assert [chunk.text for chunk in retrieve(question, 5, index=index).chunks] == ["Ya estaba."]


@contextmanager
def failing_to_go_live(error: BaseException) -> Iterator[None]:
    def go_live(*_: Any) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(IndexStore, "go_live", go_live)
        yield


class TestFailure:
    # In the first, a middle and the last batch, before and after its contents were embedded.
    @pytest.mark.parametrize("calls", [0, 3, 4, 5])
    def test_raises_serves_and_goes_on_where_it_stopped(self, home: Home, calls: int, tmp_path: Path) -> None:
        before, reader = home.rows(), VectorIndex(home.store, poll_s=0)
        home.embedder.fail = raising(calls, ConnectionError("model gone"))
        with pytest.raises(ConnectionError, match="model gone"):
            home.sync()
        assert_serves_as_before(home, before, reader)
        home.embedder.fail = lambda texts: None
        given = len(home.embedder.texts)
        report = home.sync()
        # A batch is two calls, and counts when both went well.
        assert report.embedded == 3 - calls // 2
        assert len(home.embedder.texts) - given == 2 * report.embedded
        assert report.contents == 3 + len(before)
        assert home.rows() == home.built_anew(tmp_path / "fresh").rows()

    @pytest.mark.parametrize(
        ("spoil", "said"),
        [
            (lambda vectors: vectors[:-1], "wrong shape"),
            (lambda vectors: np.concatenate([vectors, vectors[:1]]), "wrong shape"),
            (lambda vectors: vectors[:, :-1], "wrong shape"),
            (lambda vectors: np.full_like(vectors, np.nan), "NaN"),
            (lambda vectors: np.zeros_like(vectors), "zero vector"),
            (lambda vectors: vectors * 2, "length is not 1"),
            (lambda vectors: None, "wrong shape|no matrix"),
        ],
    )
    @pytest.mark.parametrize("home", ["live"], indirect=True)
    def test_what_a_model_must_not_give_is_refused(
        self, home: Home, spoil: Callable[[Any], Any], said: str
    ) -> None:
        before, reader = home.rows(), VectorIndex(home.store, poll_s=0)
        home.embedder.spoil = spoil
        with pytest.raises(EmbeddingError, match=said):
            home.sync()
        assert_serves_as_before(home, before, reader)
        home.embedder.spoil = lambda vectors: vectors
        assert home.sync().embedded == 3

    def test_a_failed_write_leaves_the_index_and_what_was_embedded(self, home: Home) -> None:
        before, reader = home.rows(), VectorIndex(home.store, poll_s=0)
        with failing_to_go_live(OSError("disk full")), pytest.raises(OSError, match="disk full"):
            home.sync()
        assert_serves_as_before(home, before, reader)
        with home.embedding():
            assert home.sync().contents == 3 + len(before)

    def test_nothing_is_left_locked(self, home: Home) -> None:
        home.embedder.fail = raising(0, ValueError("no"))
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                home.sync(lock_timeout_s=0)


@pytest.mark.parametrize("kind", [CURRENT, "chunks", "spare"])
def test_a_table_whose_making_was_killed_is_made_again(kind: str, tmp_path: Path) -> None:
    """What a kill leaves: a folder with a data file that no version names."""
    home = Home(tmp_path / "home")
    fingerprint = sync.fingerprint_of(home.embedder.card)
    name = kind if kind == CURRENT else f"{kind}__{fingerprint}"
    left = tmp_path / "home" / "index" / f"{name}.lance" / "data"
    left.mkdir(parents=True)
    (left / "torn.lance").write_bytes(b"torn")
    with pytest.raises(NoIndex):
        VectorIndex(home.store).snapshot()
    for text in ("Uno.", "Dos."):
        home.write("wiki/a.md", f"# A\n\n{text}\n")
        home.sync()
        assert home.rows() == home.built_anew(tmp_path / text).rows()


def test_a_merge_that_was_not_ended_is_undone_with_the_edit(tmp_path: Path) -> None:
    """The corpus is as `current` says, but the table has rows of another: equal hashes must not hide it."""
    home = Home(tmp_path)
    home.write("wiki/a.md", "# Uno\n\nAntes.\n")
    home.sync()
    before, reader = home.rows(), VectorIndex(home.store, poll_s=0)
    reader.snapshot()
    home.write("wiki/a.md", "# Uno\n\nDespués.\n")
    with failing_to_go_live(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        home.sync()
    home.write("wiki/a.md", "# Uno\n\nAntes.\n")
    with home.embedding():
        home.sync()
    assert home.rows() == before
    assert home.table().to_arrow().num_rows == 1
    for index in (reader.snapshot(), home.snapshot()):
        assert index.texts([0])[0].text == "Antes."
    written = versions(home.store)
    assert not home.sync().wrote
    assert versions(home.store) == written


# --- killed for real

KILLS = [
    ("embedding", True),
    ("embedding", False),
    ("before go_live", False),
]
NEW = 4


class Files:
    """A knowledge base on disk, of which another process has indexed a part."""

    def __init__(self, folder: Path, *, live: bool) -> None:
        self.folder = folder
        self.live = live
        (folder / "wiki").mkdir(parents=True)
        self.config = folder / "bib.toml"
        self.config.write_text('[[sources]]\nname = "wiki"\npath = "wiki"\n', encoding="utf-8")
        self.before: list[dict[str, Any]] = []
        if live:
            self.write("antes", "Ya estaba.")
            index_all(self.library())
            self.before = live_rows(self.store)
        for number in range(NEW):
            self.write(f"nuevo{number}", f"Cosa número {number}.")

    def write(self, name: str, text: str) -> None:
        (self.folder / "wiki" / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")

    def library(self, home: str = "home") -> Library:
        library = Library(load_settings(self.config, environ={"BIB_HOME": str(self.folder / home)}))
        library.embedder = CountingEmbedder()
        return library

    @property
    def store(self) -> IndexStore:
        return IndexStore(str(self.folder / "home" / "index"))

    def start(self, where: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, CHILD, self.config, self.folder / "home", where, self.folder],
            stderr=subprocess.PIPE,
        )

    def wait_for_signal(self, child: subprocess.Popen[bytes]) -> None:
        give_up = time.monotonic() + 120
        while not (self.folder / "reached").exists():
            assert child.poll() is None, child.stderr.read().decode() if child.stderr else ""
            assert time.monotonic() < give_up
            time.sleep(0.02)

    def texts_of_child(self) -> list[str]:
        file = self.folder / "texts"
        return (
            [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            if file.exists()
            else []
        )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Files]:
    """A knowledge base for each moment of a kill, all killed at once since most of it is waiting for imports."""
    made = {key: Files(tmp_path_factory.mktemp("killed"), live=key[1]) for key in KILLS}
    children = {key: files.start(key[0]) for key, files in made.items()}
    for (where, live), child in children.items():
        if where == "embedding":
            made[where, live].wait_for_signal(child)
            os.kill(child.pid, signal.SIGKILL)
    for (where, _), child in children.items():
        _, error = child.communicate(timeout=120)
        assert child.returncode == (-signal.SIGKILL if where == "embedding" else KILLED), error.decode()
    return made


@pytest.mark.parametrize(("where", "live"), KILLS)
def test_killed_run(killed: dict[tuple[str, bool], Files], where: str, live: bool) -> None:
    files = killed[where, live]
    assert live_rows(files.store) == files.before
    if live:
        question = Question("Ya estaba", CountingEmbedder().embed_question("Ya estaba"))
        index = VectorIndex(files.store).snapshot()
        assert retrieve(question, 1, index=index).chunks[0].text == "Ya estaba."
    # The lock is free: its holder is dead.
    with locks.hold(files.folder / "home" / "locks" / "index.lock", timeout_s=0):
        pass
    done = files.texts_of_child()
    library = files.library()
    index_all(library)
    again = library.embedder.texts
    if where == "embedding":
        assert len(done) == 4
        assert len(again) == 4
    else:
        assert (len(done), again) == (2 * NEW, [])
    assert sorted([*done, *again]) == sorted(set(done) | set(again))
    fresh = files.library("fresh")
    index_all(fresh)
    assert live_rows(files.store) == live_rows(fresh.store)


def test_who_waits_is_told_for_whom_and_embeds_only_what_is_left(tmp_path: Path) -> None:
    files = Files(tmp_path, live=False)
    child = files.start("embedding")
    files.wait_for_signal(child)
    told: list[str] = []

    def on_wait(message: str) -> None:
        told.append(message)
        # What it is to embed must be worked out after the wait: this comes too late for the child.
        (files.folder / "go").touch()

    library = files.library()
    library.on_wait = on_wait
    index_all(library)
    assert child.wait(timeout=120) == 0
    assert f"pid {child.pid} " in told[0]
    assert "index.lock" in told[0]
    assert library.embedder.texts == []
    assert len(files.texts_of_child()) == 2 * NEW
    assert len(live_rows(files.store)) == NEW


def test_threads_that_index_at_once_embed_each_content_once(home: Home) -> None:
    raised: list[Exception] = []

    def run() -> None:
        try:
            sync.sync_index(IndexStore(home.store.address), home.corpus, home.embedder, home.folder / "locks")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must show it
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
    assert len(home.embedder.texts) == len(set(home.embedder.texts)) == 6
