"""This project, by hand: what `bib index` and `bib search` call. Two sources, as in a bib.toml of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import contender

# Imported where they are used; here first, so that they count as start-up.
import duckdb
import lancedb
import markdown_it.token  # noqa: F401
import pyarrow.compute  # noqa: F401
import sqlglot.optimizer.scope
import sqlglot.parsers.duckdb  # noqa: F401
import Stemmer  # noqa: F401

from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.retrieval.retrieve import RetrievalOptions, retrieve
from bib_orchestration.biblioteca.settings import load_settings

SOURCE = """\
[[sources]]
name = "{name}"
path = "{folder}"
source_type = "{kind}"
"""


def write_settings(source: Path, state: Path) -> Path:
    """A bib.toml with a source for each folder in `source`; the path of it."""
    config = state / "bib.toml"
    if not config.exists():
        config.write_text(
            "".join(
                SOURCE.format(
                    name=folder.name, folder=folder, kind="wiki" if folder.name.startswith("wiki") else "docs"
                )
                for folder in sorted(source.iterdir())
            ),
            encoding="utf-8",
        )
    return config


def open_library(state: Path, encoder: contender.Encoder) -> Library:
    library = Library(load_settings(state / "bib.toml", environ={"BIB_HOME": str(state / "home")}))
    embedder: Any = library.embedder
    embed_texts = embedder.embed_texts
    embedder._loaded = lambda: encoder.model
    embedder.embed_texts = lambda texts: encoder.watch(embed_texts, texts)
    return library


def index(source: Path, state: Path, encoder: contender.Encoder) -> dict[str, Any]:
    write_settings(source, state)
    report = index_all(open_library(state, encoder))
    if report.errors:
        raise RuntimeError("; ".join(report.errors))
    return {
        "contents": report.index.contents,
        "embedded": report.index.embedded,
        "wrote": report.index.wrote,
    }


def stored(state: Path) -> contender.Stored:
    library = open_library(state, contender.Encoder())
    current = library.store.current()
    columns = ["sources", "paths", "text"]
    rows = library.store.open(current.table).search().select(columns).to_arrow().to_pylist()
    return [
        (f"{source}/{path}", row["text"])
        for row in rows
        for source, path in zip(row["sources"], row["paths"], strict=True)
    ]


def searcher(state: Path, encoder: contender.Encoder) -> Any:
    library = open_library(state, encoder)
    options = RetrievalOptions(ranking="vector")
    return lambda question: retrieve(
        library.question(question), contender.TOP_K, options, index=library.index.snapshot()
    )


if __name__ == "__main__":
    contender.run(index, stored, searcher, {"duckdb": duckdb.__version__, "lancedb": lancedb.__version__})
