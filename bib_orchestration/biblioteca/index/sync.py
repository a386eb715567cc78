"""Bringing the index level with the contents of the corpus.

What to embed and what to delete is worked out inside the index's lock. A generation that is live changes
in one atomic write at the end, so a run that fails or is killed leaves it serving as it was; what was
embedded until then is kept in a table of spare vectors, and the next run goes on from there. A generation
that is not live yet is filled batch by batch, and goes live when it is whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bib_orchestration.biblioteca.index import approximate, stored_rows
from bib_orchestration.biblioteca.index.corpus_contents import (
    WantedRow,
    corpus_hash,
    has_documents,
    logged_questions,
    wanted_rows,
)
from bib_orchestration.biblioteca.index.embedders import Embedder, fingerprint_of
from bib_orchestration.biblioteca.index.generations import (
    SPARE_PREFIX,
    TABLE_PREFIX,
    Generation,
    IndexStore,
    in_list,
    spare_schema,
    tidy,
)
from bib_orchestration.biblioteca.index.sentence_vectors import Embedded, embed_contents, embed_sentences
from bib_orchestration.biblioteca.retrieval.calibration import (
    FEWEST_QUESTIONS,
    MOST_CONTENTS,
    Calibration,
    calibrate,
    drawn,
    is_fresh,
)
from bib_orchestration.biblioteca.retrieval.lexical import LEXICAL_VERSION
from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION
from bib_orchestration.biblioteca.warehouse import locks
from bib_orchestration.biblioteca.warehouse.connection import Warehouse

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

# Contents embedded between two writes: what a kill can lose.
BATCH = 256
SPARE_KEPT = timedelta(days=30)

Progress = Callable[[int, int], None]


class NothingToIndex(RuntimeError):
    """There is no content at all, but an index that has some: most likely a mistake."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What bringing the index level did.

    generation: the table that is live now; "" when there is nothing to index yet.
    contents: rows that it has.
    added, updated, deleted: rows written in this run; updated ones kept their vector and got something else.
    embedded: contents whose vectors were made in this run; the other added ones had spare vectors.
    texts: texts given to the model, sentences included.
    went_live: whether this run switched generations.
    """

    generation: str
    contents: int
    added: int = 0
    updated: int = 0
    deleted: int = 0
    embedded: int = 0
    texts: int = 0
    went_live: bool = False

    @property
    def wrote(self) -> bool:
        return bool(self.added or self.updated or self.deleted or self.went_live)


def sync_index(
    store: IndexStore,
    warehouse: Warehouse,
    embedder: Embedder,
    lock_folder: Path,
    *,
    full: bool = False,
    progress: Progress = lambda done, total: None,
    lock_timeout_s: float = locks.DEFAULT_TIMEOUT_S,
    on_wait: Callable[[str], None] = log.info,
) -> IndexReport:
    """Bring the index level with `unique_chunks`, embedding only what was never embedded by this model.

    `full` reads and verifies every stored row, whatever the stored hash of the corpus says. `progress` is
    told how many of the contents to embed are done.

    Raises EmbeddingError and whatever the model raises; the live generation then is as it was.
    """
    with locks.hold(lock_folder / "index.lock", timeout_s=lock_timeout_s, on_wait=on_wait):
        # First, since its first call imports LanceDB, and nobody else has the warehouse meanwhile.
        live = store.current()
        with warehouse.read() as connection:
            target = _generation(embedder, corpus_hash(connection, of_documents=False))
            questions = logged_questions(connection)
            if (
                live is not None
                and not full
                and _is_level(store, live, target)
                and is_fresh(live.calibration, len(questions), live.contents)
            ):
                return IndexReport(live.table, live.contents)
            wanted = wanted_rows(connection)
            if not wanted and live and live.contents and not has_documents(connection):
                raise NothingToIndex(
                    f"the warehouse holds no document, and {live.table} holds {live.contents} contents; "
                    "they are kept. Read the sources first (`bib index`)"
                )
        if not wanted and live is None:
            return IndexReport("", 0)
        return _Sync(store, embedder, target, live, wanted, questions, full, progress).run()


def _generation(embedder: Embedder, corpus: str) -> Generation:
    card = embedder.card
    fingerprint = fingerprint_of(card)
    return Generation(
        table=TABLE_PREFIX + fingerprint,
        fingerprint=fingerprint,
        model=card.name,
        revision=card.revision,
        dimension=card.dimension,
        splitter=SPLITTER_VERSION,
        lexical=LEXICAL_VERSION,
        corpus=corpus,
        contents=0,
    )


def _is_level(store: IndexStore, live: Generation, target: Generation) -> bool:
    """Whether nothing has changed. A run killed between its merge and its end leaves a later version, which
    need not be of the corpus that the live one was brought level with."""
    if live != replace(target, contents=live.contents, version=live.version, calibration=live.calibration):
        return False
    table = store.find(live.table)
    return table is not None and table.version == live.version


class _Sync:
    """One run: what is stored, what is wanted, and the writes from the one to the other."""

    def __init__(
        self,
        store: IndexStore,
        embedder: Embedder,
        target: Generation,
        live: Generation | None,
        wanted: dict[str, WantedRow],
        questions: Sequence[str],
        full: bool,
        progress: Progress,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.target = target
        self.live = live
        self.wanted = wanted
        self.questions = questions
        self.full = full
        self.progress = progress
        table = store.find(target.table)
        self.is_live = live is not None and live.table == target.table and table is not None
        if table is None:
            table = stored_rows.create(store, target.table, target.dimension)
        self.table = table
        self.stored = stored_rows.read(table)
        self.broken, self.wrong = (
            stored_rows.verify(table, wanted, target.dimension) if full else (set(), set())
        )
        self.embedded = 0
        self.texts = 0

    def run(self) -> IndexReport:
        gone = [key for key in self.stored if key not in self.wanted]
        outdated = [
            key
            for key, row in self.wanted.items()
            if key in self.stored
            and key not in self.broken
            and (key in self.wrong or stored_rows.differs(self.stored[key], row))
        ]
        kept = stored_rows.fetch(self.table, outdated, self.target.dimension)
        self.broken.update(key for key in outdated if key not in kept)
        new = [key for key in self.wanted if key not in self.stored or key in self.broken]
        stale = [key for key in kept if self._sentences_are_stale(key)]
        spare = self._spare([*new, *stale])
        ready = {key: kept[key] for key in kept if not self._sentences_are_stale(key)} | spare
        rows = [self._row(key, embedded) for key, embedded in ready.items()]
        going = stored_rows.fetch(
            self.table, [key for key in gone if key not in self.broken], self.target.dimension
        )
        to_embed = [key for key in new if key not in spare]
        for batch in chain(
            self._embed(to_embed, self._sentences_of(going) if to_embed else {}),
            self._split({key: kept[key] for key in stale if key not in spare}),
        ):
            made = [self._row(key, embedded) for key, embedded in batch.items()]
            if self.is_live:
                self._keep_spare(batch)
                rows += made
            else:
                stored_rows.merge(self.table, made, [], self.target.dimension)
        self._save_vectors(going)
        stored_rows.merge(self.table, rows, gone, self.target.dimension)
        self._forget_spare([*new, *stale])
        went_live = self._go_live(bool(new or gone or outdated))
        return IndexReport(
            self.target.table,
            len(self.wanted),
            added=len(new),
            updated=len(kept),
            deleted=len(gone),
            embedded=self.embedded,
            texts=self.texts,
            went_live=went_live,
        )

    def _row(self, key: str, embedded: Embedded) -> dict[str, Any]:
        return stored_rows.row(self.wanted[key], embedded)

    def _sentences_of(self, going: Mapping[str, Embedded]) -> dict[str, NDArray[np.float16]]:
        """The vectors of the sentences of contents that go, by their text: an edit leaves most of them as they
        were, in a content that is new."""
        return {
            text[start:end]: vector
            for keys in _batches(list(going))
            for key, text in _texts(self.table, keys)
            for (start, end), vector in zip(going[key].spans, going[key].sentence_vectors, strict=True)
        }

    def _embed(
        self, keys: Sequence[str], known: Mapping[str, NDArray[np.float16]]
    ) -> Iterator[dict[str, Embedded]]:
        """Batches of contents with all their vectors made, but for those of `known` sentences."""
        self.progress(0, len(keys))
        for batch in _batches(keys):
            contents = [self.wanted[key].content for key in batch]
            embedded, texts = embed_contents(self.embedder, contents, known)
            self.embedded += len(batch)
            self.texts += texts
            yield dict(zip(batch, embedded, strict=True))
            self.progress(self.embedded, len(keys))

    def _split(self, kept: Mapping[str, Embedded]) -> Iterator[dict[str, Embedded]]:
        """Batches of contents with their vector kept and their sentences made anew."""
        for batch in _batches(list(kept)):
            split, texts = embed_sentences(self.embedder, [self.wanted[key].content.text for key in batch])
            self.texts += texts
            yield {
                key: replace(kept[key], spans=spans, sentence_vectors=vectors)
                for key, (spans, vectors) in zip(batch, split, strict=True)
            }

    def _sentences_are_stale(self, key: str) -> bool:
        stored = self.stored[key]
        return stored.splitter != SPLITTER_VERSION or stored.text_hash != self.wanted[key].text_hash

    # --- spare vectors

    @property
    def _spare_name(self) -> str:
        return SPARE_PREFIX + self.target.fingerprint

    def _spare(self, keys: Sequence[str]) -> dict[str, Embedded]:
        """Those of `keys` that have spare vectors, split by the present version."""
        table = self.store.find(self._spare_name) if keys else None
        if table is None:
            return {}
        found = stored_rows.fetch(table, keys, self.target.dimension, splitter=SPLITTER_VERSION)
        # The embedded text is as it was, but what is heading and what is text in it may not be.
        return {key: spare for key, spare in found.items() if stored_rows.fits(spare, self.wanted[key])}

    def _keep_spare(self, embedded: Mapping[str, Embedded]) -> None:
        import pyarrow as pa

        since = datetime.now(UTC)
        rows = [
            {**stored_rows.vector_columns(vectors), "content_id": key, "since": since}
            for key, vectors in embedded.items()
        ]
        data = pa.Table.from_pylist(rows, schema=spare_schema(self.target.dimension))
        table = self.store.find(self._spare_name)
        if table is None:
            self.store.db.create_table(self._spare_name, data)
        else:
            table.add(data)

    def _save_vectors(self, going: Mapping[str, Embedded]) -> None:
        """Contents may come back: an edit undone, a branch switched."""
        sound = {
            key: embedded for key, embedded in going.items() if self.stored[key].splitter == SPLITTER_VERSION
        }
        if sound:
            self._keep_spare(sound)

    def _forget_spare(self, keys: Sequence[str]) -> None:
        table = self.store.find(self._spare_name) if keys else None
        if table is None:
            return
        limit = datetime.now(UTC) - SPARE_KEPT
        table.delete(f"{in_list('content_id', keys)} OR since < timestamp '{limit:%Y-%m-%d %H:%M:%S}'")
        tidy(table)

    # --- the end

    def _go_live(self, wrote: bool) -> bool:
        being_read = self.live.version if self.live and self.is_live else None
        if wrote:
            tidy(self.table, being_read)
        approximate.keep_indexed(self.table, dimension=self.target.dimension, being_read=being_read)
        generation = replace(
            self.target,
            contents=len(self.wanted),
            version=self.table.version,
            calibration=self._calibration(),
        )
        if generation != self.live or not self.is_live:
            self.store.go_live(generation)
        if not self.is_live:
            self._drop_older()
        return not self.is_live

    def _calibration(self) -> Calibration | None:
        """The live one's while it is fresh, or else a new one: it costs as many embeddings as there are questions,
        too many for each small change."""
        live = self.live.calibration if self.live and self.is_live else None
        same_sentences = self.live is not None and self.live.splitter == self.target.splitter
        if same_sentences and not self.full and is_fresh(live, len(self.questions), len(self.wanted)):
            return live
        asked = self.questions if len(self.questions) >= FEWEST_QUESTIONS else ()
        vectors = [self.embedder.embed_question(question) for question in asked]
        contents = stored_rows.fetch(self.table, drawn(self.wanted, MOST_CONTENTS), self.target.dimension)
        return calibrate(
            np.array(vectors, np.float32).reshape(-1, self.target.dimension),
            [embedded.sentence_vectors.astype(np.float32) for embedded in contents.values()],
            of=len(self.wanted),
        )

    def _drop_older(self) -> None:
        """The last live generation stays, so that going back to its model costs nothing."""
        if self.live is None or self.live.fingerprint == self.target.fingerprint:
            return
        dropped = self.store.drop_all_but({self.target.fingerprint, self.live.fingerprint})
        log.info("%s is live; dropped: %s", self.target.table, ", ".join(dropped) or "none")


def _texts(table: Any, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Ids and texts of the rows that have these ids."""
    rows = table.search().where(in_list("content_id", keys)).select(["content_id", "text"]).to_arrow()
    return zip(rows["content_id"].to_pylist(), rows["text"].to_pylist(), strict=True)


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))
