"""A small knowledge base whose documents are given as texts: for tests of the index, which then cost
milliseconds. Chunking, SQL, locks and LanceDB are the real ones; the warehouse is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.corpus.chunks import DocumentText, embedded_text, occurrences
from bib_orchestration.biblioteca.corpus.documents import read_document
from bib_orchestration.biblioteca.corpus.sources import RawFile
from bib_orchestration.biblioteca.index.embedders import Embedder
from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.index.sync import IndexReport, sync_index
from bib_orchestration.biblioteca.index.vector_index import Snapshot, VectorIndex
from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.biblioteca.retrieval.sentences import split_sentences
from bib_orchestration.biblioteca.settings import Source
from bib_orchestration.biblioteca.warehouse.connection import insert_rows
from bib_orchestration.biblioteca.warehouse.schema import TABLES, create_tables

UNIQUE_CHUNKS = (MODELS_FOLDER / "unique_chunks.sql").read_text(encoding="utf-8")


class Corpus:
    """Documents by (source, path), and the warehouse's tables over them. Stands in for a `Warehouse`."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {}
        self.sources = {
            "wiki": Source(name="wiki", path=Path("wiki"), source_type="wiki"),
            "docs": Source(name="docs", path=Path("docs"), source_type="docs", app="crearack"),
        }
        self._filled_with: Any = None
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute("ATTACH ':memory:' AS warehouse")
        self._connection.execute("USE warehouse")
        create_tables(self._connection)

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        self._fill()
        yield self._connection

    def _fill(self) -> None:
        if self._filled_with == (self.files, self.sources):
            return
        documents, chunks = [], []
        for (source, path), text in self.files.items():
            document = read_document(self.sources[source], RawFile(path, text.encode()), None)
            columns = [name for name in TABLES["bib_docs"] if hasattr(document, name)]
            documents.append({name: getattr(document, name) for name in columns} | {"front_matter": "{}"})
            to_cut = DocumentText(*(getattr(document, name) for name in DocumentText.__slots__))
            chunks += [
                {name: getattr(chunk, name) for name in TABLES["bib_chunks"]}
                for chunk in occurrences(to_cut, max_tokens=400, min_tokens=60)
            ]
        for table, rows in (("bib_docs", documents), ("bib_chunks", chunks)):
            self._connection.execute(f"DELETE FROM {table}")
            insert_rows(self._connection, table, rows)
        self._connection.execute(f"CREATE OR REPLACE TABLE unique_chunks AS {UNIQUE_CHUNKS}")
        self._filled_with = (dict(self.files), dict(self.sources))


@dataclass
class Home:
    """Where one knowledge base's state lies."""

    folder: Path
    embedder: CountingEmbedder = field(default_factory=CountingEmbedder)
    corpus: Corpus = field(default_factory=Corpus)

    def __post_init__(self) -> None:
        self.store = IndexStore(str(self.folder / "index"))

    def write(self, path: str, text: str) -> None:
        """`path` begins with the source's name."""
        self.corpus.files[_key(path)] = text

    def delete(self, path: str) -> str:
        return self.corpus.files.pop(_key(path))

    def sync(self, embedder: Embedder | None = None, **options: Any) -> IndexReport:
        return sync_index(
            self.store, self.corpus, embedder or self.embedder, self.folder / "locks", **options
        )

    @contextmanager
    def embedding(self, *expected: str) -> Iterator[None]:
        """Asserts that within the block exactly these texts are given to the model, in any order."""
        before = len(self.embedder.texts)
        yield
        assert sorted(self.embedder.texts[before:]) == sorted(expected)

    def wanted_texts(self) -> list[str]:
        """All that has to be embedded for what the corpus holds now: contents, and each sentence once."""
        with self.corpus.read() as connection:
            rows = connection.sql("SELECT title, heading_path, text FROM unique_chunks").fetchall()
        return [
            *(embedded_text(*row) for row in rows),
            *{sentence for *_, text in rows for sentence in split_sentences(text)},
        ]

    def table(self) -> Any:
        return self.store.open(self.store.current().table)

    def rows(self) -> list[dict[str, Any]]:
        return live_rows(self.store)

    def paths(self) -> list[str]:
        return sorted({path for row in self.rows() for path in row["paths"]})

    def snapshot(self) -> Snapshot:
        return VectorIndex(self.store).snapshot()

    def built_anew(self, folder: Path) -> Home:
        """Another home over the same documents, indexed."""
        fresh = Home(folder, CountingEmbedder(self.embedder.name, self.embedder.revision), self.corpus)
        fresh.sync()
        return fresh


def _key(path: str) -> tuple[str, str]:
    source, _, rest = path.partition("/")
    return source, rest


def live_rows(store: IndexStore) -> list[dict[str, Any]]:
    """Every column of every row that readers are given, by content id."""
    generation = store.current()
    if generation is None:
        return []
    table = store.open(generation.table)
    table.checkout(generation.version)
    return table.search().to_arrow().sort_by("content_id").to_pylist()


def versions(store: IndexStore) -> dict[str, list[int]]:
    """The versions of every table: whatever is written makes one more."""
    return {
        name: [version["version"] for version in store.open(name).list_versions()] for name in store.tables()
    }


def raising(after: int, error: Exception) -> Callable[[Any], None]:
    """For `CountingEmbedder.fail`: `after` batches pass, then `error` is raised."""
    batches = iter(range(after))

    def fail(_: Any) -> None:
        if next(batches, None) is None:
            raise error

    return fail
