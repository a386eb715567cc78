"""Indexing by hand: every step of the path of a document, in order, without Dagster.

The same functions are called by the assets; here they run one after the other. Nothing changed: nothing is
embedded and nothing is written. Questions and A/B runs that the warehouse lacks are loaded too, so that this
one command rebuilds a warehouse that was lost.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from bib_orchestration.biblioteca.evaluation.runs import LoadedRuns, load_runs
from bib_orchestration.biblioteca.index.corpus_contents import corpus_hash
from bib_orchestration.biblioteca.index.index_table import note_level
from bib_orchestration.biblioteca.index.sync import IndexReport, Progress, sync_index
from bib_orchestration.biblioteca.library import MODELS_FOLDER, Library
from bib_orchestration.biblioteca.settings import Source
from bib_orchestration.biblioteca.warehouse import query_log
from bib_orchestration.biblioteca.warehouse.corpus_tables import (
    ChunkReport,
    SourceReport,
    refresh_chunks,
    refresh_documents,
    remove_unknown_sources,
)
from bib_orchestration.biblioteca.warehouse.query_log import LoadReport
from bib_orchestration.biblioteca.warehouse.sql_models import read_model
from bib_orchestration.biblioteca.warehouse.sql_tables import ModelReport, materialise, table_exists

UNIQUE_CHUNKS = "unique_chunks"


@dataclass(frozen=True, slots=True)
class IndexingReport:
    """What an indexing did, step by step.

    sources: a report a source that was read.
    chunks: a report a source whose documents were cut.
    removed_sources: those that bib.toml no longer names; their rows are gone.
    index: what bringing the index level did.
    queries: what was loaded of the query log.
    runs: what was loaded of the A/B runs.
    """

    sources: tuple[SourceReport, ...]
    chunks: tuple[ChunkReport, ...]
    removed_sources: tuple[str, ...]
    index: IndexReport
    queries: LoadReport
    runs: LoadedRuns

    @property
    def errors(self) -> list[str]:
        """Why sources were not read: with any of them the run is red, although the rest was done."""
        return [report.error for report in self.sources if report.error]


def index_all(
    library: Library,
    sources: Sequence[Source] | None = None,
    *,
    full: bool = False,
    run_id: str = "by hand",
    progress: Progress = lambda done, total: None,
) -> IndexingReport:
    """Read `sources` (all by default), chunk them, and bring the index level.

    `full` ignores stored fingerprints: all is read, cut and verified; only what is missing is embedded. A
    source that cannot be read is in the report and stops nothing. Raises what embedding raises.
    """
    with _what_is_imported_set_aside():
        return _index_all(library, sources, full, run_id, progress)


@contextmanager
def _what_is_imported_set_aside() -> Iterator[None]:
    """Keeps the garbage collector from going through all that LanceDB and others made when they were imported,
    each time that we have made as much: that took a tenth of a second, a third of what a small run costs."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _index_all(
    library: Library, sources: Sequence[Source] | None, full: bool, run_id: str, progress: Progress
) -> IndexingReport:
    read = []
    cut = []
    for source in library.settings.sources if sources is None else sources:
        read.append(
            refresh_documents(library.warehouse, source, library.settings.checkouts, run_id=run_id, full=full)
        )
        cut.append(refresh_chunks(library.warehouse, source.name, library.settings.chunks, full=full))
    removed = remove_unknown_sources(library.warehouse, [source.name for source in library.settings.sources])
    refresh_unique_chunks(library)
    # Before the index, which is calibrated by them.
    queries = query_log.load(library.warehouse, library.settings.query_log)
    index = refresh_index(library, full=full, progress=progress)
    runs = load_runs(library.warehouse, library.settings.runs)
    library.warehouse.publish()
    return IndexingReport(tuple(read), tuple(cut), tuple(removed), index, queries, runs)


def refresh_unique_chunks(library: Library) -> ModelReport | None:
    """Bring `unique_chunks` level; None when it already is."""
    with library.warehouse.read() as connection:
        # Comparing hashes of occurrences costs a tenth of making the table and comparing that.
        if table_exists(connection, UNIQUE_CHUNKS) and corpus_hash(
            connection, of_documents=True
        ) == corpus_hash(connection, of_documents=False):
            return None
    # By itself: to put all models in order, each is parsed, which takes longer than making this one.
    model = read_model(MODELS_FOLDER / f"{UNIQUE_CHUNKS}.sql")
    return materialise(library.warehouse, model, known_to_differ=True)


def refresh_index(
    library: Library, *, full: bool = False, progress: Progress = lambda done, total: None
) -> IndexReport:
    """Bring the index level with `unique_chunks`. Raises what embedding raises."""
    started = datetime.now(UTC)
    report = sync_index(
        library.store,
        library.warehouse,
        library.embedder,
        library.settings.locks,
        full=full,
        progress=progress,
        on_wait=library.on_wait,
    )
    if generation := library.store.current():
        note_level(library.warehouse, generation, started)
    return report
