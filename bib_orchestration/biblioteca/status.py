"""What a knowledge base holds, how old it is, and what went wrong: read without disturbing anyone.

The relational part comes from the published copy of the warehouse, which no writer ever holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, read_published

Status = dict[str, Any]


def read_status(settings: Settings) -> Status:
    """`sources`, `index`, `queries` and `evaluation`, as JSON can hold them; None where there is nothing."""
    stored = _stored(settings)
    return {
        "config": str(settings.config),
        "home": str(settings.home),
        "sources": _sources(settings, stored),
        "index": _index(settings),
        "queries": stored.get("queries"),
        "evaluation": stored.get("evaluation"),
    }


def _stored(settings: Settings) -> dict[str, Any]:
    warehouse = Warehouse(settings.warehouse_address, settings.locks)
    with read_published(warehouse) as connection:
        if connection is None:
            return {}
        counted = connection.sql(
            "SELECT source, count(*), sum(tokens)::BIGINT FROM bib_docs GROUP BY source"
        ).fetchall()
        chunked = dict(connection.sql("SELECT source, count(*) FROM bib_chunks GROUP BY source").fetchall())
        states = connection.sql(
            "SELECT source, commit, error, problems::VARCHAR, read_at FROM bib_sources"
        ).fetchall()
        queries = connection.sql("SELECT count(*), min(ts), max(ts) FROM oraculo_queries").fetchall()[0]
        runs = connection.sql(
            "SELECT run_id, questions, verdict FROM ab_runs ORDER BY run_id DESC LIMIT 1"
        ).fetchall()
    return {
        "documents": {row[0]: row[1:] for row in counted},
        "chunks": chunked,
        "states": {row[0]: row[1:] for row in states},
        "queries": {"questions": queries[0], "oldest": _time(queries[1]), "newest": _time(queries[2])},
        "evaluation": dict(zip(("run_id", "questions", "verdict"), runs[0], strict=True)) if runs else None,
    }


def _sources(settings: Settings, stored: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for source in settings.sources:
        documents, tokens = stored.get("documents", {}).get(source.name, (0, 0))
        commit, error, problems, read_at = stored.get("states", {}).get(source.name, (None, None, "[]", None))
        rows.append(
            {
                "source": source.name,
                "source_type": source.source_type,
                "documents": documents,
                "chunks": stored.get("chunks", {}).get(source.name, 0),
                "tokens": tokens,
                "commit": commit,
                "changed_at": _time(read_at),
                "error": error,
                "problems": json.loads(problems),
            }
        )
    return rows


def _index(settings: Settings) -> dict[str, Any] | None:
    # Asking must not make an empty database.
    if not settings.index and not Path(settings.index_address).is_dir():
        return None
    store = IndexStore(settings.index_address)
    generation = store.current()
    if generation is None:
        return None
    return {
        "table": generation.table,
        "model": generation.model,
        "revision": generation.revision,
        "dimension": generation.dimension,
        "contents": generation.contents,
        "model_in_settings": settings.model.name,
    }


def _time(value: Any) -> str | None:
    return None if value is None else value.isoformat(timespec="seconds")
