"""Bringing the index level with the contents of the corpus.

What to embed and what to delete is worked out inside the index's lock. A generation that is live changes
in one atomic write at the end, so a run that fails or is killed leaves it serving as it was; what was
embedded until then is kept in a table of spare vectors, and the next run goes on from there. A generation
that is not live yet is filled batch by batch, and goes live when it is whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.index import stored_rows
from bib_orchestration.biblioteca.index.corpus_contents import (
    WantedRow,
    corpus_hash,
    has_documents,
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
)
from bib_orchestration.biblioteca.index.sentence_vectors import Embedded, embed_contents, embed_sentences
from bib_orchestration.biblioteca.retrieval.lexical import LEXICAL_VERSION
from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION
from bib_orchestration.biblioteca.warehouse import locks
from bib_orchestration.biblioteca.warehouse.connection import Warehouse

log = logging.getLogger(__name__)

# Contents embedded between two writes: what a kill can lose.
BATCH = 256
SPARE_KEPT = timedelta(days=30)
# Readers hold a version for a second or so; older ones than this nobody reads.
OLD_VERSIONS_KEPT = timedelta(hours=6)
_MANY_FRAGMENTS = 40

Progress = Callable[[int, int], None]


class NothingToIndex(RuntimeError):
    """There is no content at all, but an index that has some: most likely a mistake."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What bringing the index level did.

    generation: the table that is live now; "" when there is nothing to index yet.
    contents: rows that it has.
    added, updated, deleted: rows written in this run; updated ones got other occurrences, sentences or stems.
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
        with warehouse.read() as connection:
            corpus = corpus_hash(connection, of_documents=False)
            live = store.current()
            target = _generation(embedder, corpus)
            if live is not None and not full and live == replace(target, contents=live.contents):
                return IndexReport(live.table, live.contents)
            wanted = wanted_rows(connection)
            if not wanted and live and live.contents and not has_documents(connection):
                raise NothingToIndex(
                    f"the warehouse holds no document, and {live.table} holds {live.contents} contents; "
                    "they are kept. Read the sources first (`bib index`)"
                )
        if not wanted and live is None:
            return IndexReport("", 0)
        return _Sync(store, embedder, target, live, wanted, full, progress).run()


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


class _Sync:
    """One run: what is stored, what is wanted, and the writes from the one to the other."""

    def __init__(
        self,
        store: IndexStore,
        embedder: Embedder,
        target: Generation,
        live: Generation | None,
        wanted: dict[str, WantedRow],
        full: bool,
        progress: Progress,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.target = target
        self.live = live
        self.wanted = wanted
        self.progress = progress
        self.is_live = live is not None and live.table == target.table
        if not store.has(target.table):
            self.table = stored_rows.create(store, target.table, target.dimension)
        else:
            self.table = store.open(target.table)
        self.stored = stored_rows.read(self.table)
        self.broken = stored_rows.broken(self.table, target.dimension) if full else set()
        self.embedded = 0
        self.texts = 0

    def run(self) -> IndexReport:
        new = [key for key in self.wanted if key not in self.stored or key in self.broken]
        gone = [key for key in self.stored if key not in self.wanted]
        outdated = [
            key
            for key, row in self.wanted.items()
            if key in self.stored and key not in self.broken and stored_rows.differs(self.stored[key], row)
        ]
        spare = self._spare(new)
        rows = [self._row(key, embedded) for key, embedded in spare.items()]
        for keys, batch in self._embed([key for key in new if key not in spare]):
            fresh = [self._row(key, embedded) for key, embedded in zip(keys, batch, strict=True)]
            if self.is_live:
                self._keep_spare(keys, batch)
                rows += fresh
            else:
                stored_rows.merge(self.table, fresh, [], self.target.dimension)
        rows += self._outdated_rows(outdated)
        self._save_vectors(gone)
        stored_rows.merge(self.table, rows, gone, self.target.dimension)
        self._forget_spare([*new])
        went_live = self._go_live(bool(new or gone or outdated))
        return IndexReport(
            self.target.table,
            len(self.wanted),
            added=len(new),
            updated=len(outdated),
            deleted=len(gone),
            embedded=self.embedded,
            texts=self.texts,
            went_live=went_live,
        )

    def _row(self, key: str, embedded: Embedded) -> dict[str, Any]:
        return stored_rows.row(self.wanted[key], embedded)

    def _embed(self, keys: Sequence[str]) -> Iterator[tuple[list[str], list[Embedded]]]:
        pending = iter(keys)
        self.progress(0, len(keys))
        while batch := list(islice(pending, BATCH)):
            embedded, texts = embed_contents(self.embedder, [self.wanted[key].content for key in batch])
            self.embedded += len(batch)
            self.texts += texts
            yield batch, embedded
            self.progress(self.embedded, len(keys))

    def _outdated_rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Rows with their vectors kept: other occurrences, stems anew, and sentences if they were split by
        another version."""
        stale = [key for key in keys if self.stored[key].splitter != SPLITTER_VERSION]
        split, texts = embed_sentences(self.embedder, [self.wanted[key].content.text for key in stale])
        self.texts += texts
        sentences = dict(zip(stale, split, strict=True))
        rows = []
        for key, embedded in stored_rows.fetch(self.table, keys, self.target.dimension).items():
            if key in sentences:
                spans, vectors = sentences[key]
                embedded = replace(embedded, spans=spans, sentence_vectors=vectors)
            rows.append(self._row(key, embedded))
        return rows

    # --- spare vectors

    @property
    def _spare_name(self) -> str:
        return SPARE_PREFIX + self.target.fingerprint

    def _spare(self, keys: Sequence[str]) -> dict[str, Embedded]:
        """Those of `keys` that have spare vectors, split by the present version."""
        if not keys or not self.store.has(self._spare_name):
            return {}
        table = self.store.open(self._spare_name)
        wanted = [key for key in keys if key not in self.broken]
        return stored_rows.fetch(table, wanted, self.target.dimension, splitter=SPLITTER_VERSION)

    def _keep_spare(self, keys: Sequence[str], embedded: Sequence[Embedded]) -> None:
        import pyarrow as pa

        since = datetime.now(UTC)
        rows = [
            {**stored_rows.vector_columns(vectors), "content_id": key, "since": since}
            for key, vectors in zip(keys, embedded, strict=True)
        ]
        data = pa.Table.from_pylist(rows, schema=spare_schema(self.target.dimension))
        if self.store.has(self._spare_name):
            self.store.open(self._spare_name).add(data)
        else:
            self.store.db.create_table(self._spare_name, data)

    def _save_vectors(self, gone: Sequence[str]) -> None:
        """Contents may come back: an edit undone, a branch switched."""
        sound = [key for key in gone if key not in self.broken and self.stored[key].splitter == SPLITTER_VERSION]
        if sound:
            vectors = stored_rows.fetch(self.table, sound, self.target.dimension)
            self._keep_spare(list(vectors), list(vectors.values()))

    def _forget_spare(self, keys: Sequence[str]) -> None:
        if not keys or not self.store.has(self._spare_name):
            return
        table = self.store.open(self._spare_name)
        limit = datetime.now(UTC) - SPARE_KEPT
        table.delete(
            f"{in_list('content_id', keys)} OR since < timestamp '{limit:%Y-%m-%d %H:%M:%S}'"
        )
        stored_rows.tidy(table, _MANY_FRAGMENTS, OLD_VERSIONS_KEPT)

    # --- the end

    def _go_live(self, wrote: bool) -> bool:
        if wrote:
            stored_rows.tidy(self.table, _MANY_FRAGMENTS, OLD_VERSIONS_KEPT)
        generation = replace(self.target, contents=len(self.wanted))
        if generation != self.live:
            self.store.go_live(generation)
        if not self.is_live:
            dropped = self.store.drop_older(self.target.table)
            log.info("%s is live; dropped: %s", self.target.table, ", ".join(dropped) or "none")
        return not self.is_live
