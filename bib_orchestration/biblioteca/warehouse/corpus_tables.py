"""Bringing `bib_docs` and `bib_chunks` level with what a source holds now.

Each source is worked out and written by itself, in one transaction, under the warehouse's lock. Nothing is
written when nothing changed. A source that cannot be read, or in which nothing was found, keeps its rows:
an unmounted disk must not empty the index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.corpus.chunks import DocumentText, occurrences
from bib_orchestration.biblioteca.corpus.documents import (
    DecodedFile,
    Document,
    UnreadableDocument,
    decoded,
    make_document,
)
from bib_orchestration.biblioteca.corpus.markdown import CHUNKER_VERSION
from bib_orchestration.biblioteca.corpus.sources import Problem, Snapshot, SourceError, read_source
from bib_orchestration.biblioteca.settings import ChunkSettings, Source
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# With an equal hash of its text, a document's row can differ only by what its source's settings say.
_COMPARED = ("content_hash", "source_type", "app", "language")
_STORED = ("doc_id", "stale", *_COMPARED)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How the reading of a source went.

    source: its name.
    documents: documents it has now.
    commit: what a git source was read at.
    error: why it was not read, in which case its rows stay; None when all went well.
    added, changed, moved, deleted: paths; a move is "old → new".
    problems: files that gave no document, with the reason.
    warnings: (path, what was odd) of files that were read all the same.
    """

    source: str
    documents: int
    commit: str | None = None
    error: str | None = None
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def wrote(self) -> bool:
        return bool(self.added or self.changed or self.moved or self.deleted)


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """How the chunking of a source went: chunks it has now, and what was done for it."""

    source: str
    chunks: int
    documents_cut: int
    added: int
    removed: int


def refresh_documents(
    warehouse: Warehouse, source: Source, checkouts: Path, *, run_id: str, full: bool = False
) -> SourceReport:
    """Read `source` and bring its rows of `bib_docs` level. An error is in the report, not raised.

    `full` reads the structure of every document again, also of those whose text is as it was.
    """
    with warehouse.lock():
        stored, state = _stored(warehouse, source.name)
        changes = _Changes()
        try:
            snapshot = read_source(source, checkouts)
            files, problems = _decoded(snapshot)
            if not files:
                raise SourceError(_nothing_found(source, snapshot, problems))
        except SourceError as error:
            report = SourceReport(source.name, len(stored), error=str(error))
        else:
            changes, report = _compared(
                source, {} if full else stored, stored, files, problems, snapshot.commit
            )
        _store(warehouse, changes, report, state, run_id)
    return report


def refresh_chunks(
    warehouse: Warehouse, source: str, settings: ChunkSettings, *, full: bool = False
) -> ChunkReport:
    """Cut the documents of a source that are new or changed, or were cut by another chunker.

    `full` cuts all of them again, whatever is stored about them.
    """
    chunker = f"{CHUNKER_VERSION}:{settings.max_tokens}:{settings.min_tokens}"
    with warehouse.lock():
        with warehouse.read() as connection:
            to_cut = _documents_to_cut(connection, source, chunker, full)
            gone = _column(
                connection,
                "SELECT doc_id FROM bib_chunked_docs WHERE source = $source"
                " AND doc_id NOT IN (SELECT doc_id FROM bib_docs)",
                source,
            )
            before = _count(connection, "bib_chunks", source)
        if not (to_cut or gone):
            return ChunkReport(source, before, 0, 0, 0)
        rows = [
            asdict(occurrence)
            for document in to_cut
            for occurrence in occurrences(
                document, max_tokens=settings.max_tokens, min_tokens=settings.min_tokens
            )
        ]
        done = [
            {
                "doc_id": document.doc_id,
                "source": source,
                "content_hash": document.content_hash,
                "chunker": chunker,
            }
            for document in to_cut
        ]
        replaced = [*gone, *(document.doc_id for document in to_cut)]
        with warehouse.transaction() as connection:
            _delete(connection, "bib_chunks", replaced)
            _delete(connection, "bib_chunked_docs", replaced)
            kept = _count(connection, "bib_chunks", source)
            insert_rows(connection, "bib_chunks", rows)
            insert_rows(connection, "bib_chunked_docs", done)
    return ChunkReport(source, kept + len(rows), len(to_cut), len(rows), before - kept)


def remove_unknown_sources(warehouse: Warehouse, known: Iterable[str]) -> list[str]:
    """Remove the rows of sources that bib.toml no longer names; returns their names."""
    tables = ("bib_docs", "bib_chunks", "bib_chunked_docs", "bib_sources")
    with warehouse.lock():
        with warehouse.read() as connection:
            stored = connection.sql(
                "SELECT DISTINCT source FROM bib_docs UNION SELECT source FROM bib_sources"
            ).fetchall()
        unknown = sorted({name for (name,) in stored} - set(known))
        if unknown:
            with warehouse.transaction() as connection:
                for table in tables:
                    connection.execute(
                        f"DELETE FROM {table} WHERE source IN (SELECT unnest($names))", {"names": unknown}
                    )
    return unknown


def _decoded(snapshot: Snapshot) -> tuple[dict[str, DecodedFile], list[Problem]]:
    """The texts of a snapshot's files by path, and the files that have none."""
    files, problems = {}, list(snapshot.problems)
    for raw in snapshot.files:
        try:
            files[raw.path] = decoded(raw)
        except UnreadableDocument as error:
            problems.append(Problem(raw.path, error.reason, kept=False))
    return files, sorted(problems, key=lambda problem: (problem.path, problem.reason))


def _nothing_found(source: Source, snapshot: Snapshot, problems: Sequence[Problem]) -> str:
    found = f"{len(problems)} files, none of them readable" if problems else "no file"
    first = f" (the first: {problems[0].path}: {problems[0].reason})" if problems else ""
    at = f" at commit {snapshot.commit[:12]}" if snapshot.commit else ""
    return (
        f"source {source.name!r}: {found}{first} in {source.path or source.url}{at} for "
        f"{', '.join(source.include)}; its rows are kept. Take the source out of bib.toml to remove them"
    )


_State = tuple[str | None, int, str, str | None]


@dataclass(frozen=True, slots=True)
class _Changes:
    """What is written to `bib_docs`: ids of rows to delete, documents to insert, ids of rows that are stale now."""

    deleted: Sequence[str] = ()
    made: Sequence[Document] = ()
    stale: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.deleted or self.made or self.stale)


def _stored(warehouse: Warehouse, source: str) -> tuple[dict[str, dict[str, Any]], list[_State]]:
    """What is compared of the rows of `bib_docs`, by path, and how the last reading went, if there was one."""
    with warehouse.read() as connection:
        rows = connection.execute(
            f"SELECT path, {', '.join(_STORED)} FROM bib_docs WHERE source = $source", {"source": source}
        ).fetchall()
        state = connection.execute(
            "SELECT commit, documents, problems::VARCHAR, error FROM bib_sources WHERE source = $source",
            {"source": source},
        ).fetchall()
    return {row[0]: dict(zip(_STORED, row[1:], strict=True)) for row in rows}, state


def _compared(
    source: Source,
    trusted: dict[str, dict[str, Any]],
    stored: dict[str, dict[str, Any]],
    files: dict[str, DecodedFile],
    problems: list[Problem],
    commit: str | None,
) -> tuple[_Changes, SourceReport]:
    """What differs, and how that is told. Rows in `trusted` whose text is as it was are left alone."""
    # A file that could not be read just now keeps its row, marked stale; so does all below a folder.
    kept = {path for path in stored if path not in files and _is_kept(path, problems)}
    added = [path for path in files if path not in stored]
    changed = [path for path in files if path in stored and _differs(source, files[path], trusted.get(path))]
    gone = [path for path in stored if path not in files and path not in kept]
    newly_stale = [path for path in sorted(kept) if not stored[path]["stale"]]
    made = [make_document(source, files[path], commit) for path in (*added, *changed)]
    moved = _moves(added, gone, files, stored)
    old_names, new_names = {old for old, _ in moved}, {new for _, new in moved}
    report = SourceReport(
        source.name,
        documents=len(files) + len(kept),
        commit=commit,
        added=[path for path in added if path not in new_names],
        changed=[path for path in changed if _differs(source, files[path], stored[path])],
        moved=[f"{old} → {new}" for old, new in moved],
        deleted=[path for path in gone if path not in old_names],
        problems=problems,
        warnings=[(document.path, warning) for document in made for warning in document.warnings],
    )
    changes = _Changes(
        deleted=[stored[path]["doc_id"] for path in (*gone, *changed)],
        made=made,
        stale=[stored[path]["doc_id"] for path in newly_stale],
    )
    return changes, report


def _document_row(document: Document, read_at: datetime) -> dict[str, Any]:
    return {
        **{name: getattr(document, name) for name in document.__slots__ if name != "body_start"},
        "front_matter": json.dumps(document.front_matter, ensure_ascii=False, sort_keys=True),
        "warnings": list(document.warnings),
        "stale": False,
        "read_at": read_at,
    }


def _differs(source: Source, file: DecodedFile, stored: dict[str, Any] | None) -> bool:
    now = (file.content_hash, source.source_type, source.app, source.language)
    return stored is None or stored["stale"] or now != tuple(stored[name] for name in _COMPARED)


def _is_kept(path: str, problems: Sequence[Problem]) -> bool:
    return any(
        problem.kept
        and (path == problem.path or (problem.path.endswith("/") and path.startswith(problem.path)))
        for problem in problems
    )


def _moves(
    added: Sequence[str],
    gone: Sequence[str],
    files: dict[str, DecodedFile],
    stored: dict[str, dict[str, Any]],
) -> list[tuple[str, str]]:
    """Pairs of a path that went and one that came with the same text."""
    came: dict[str, list[str]] = {}
    for path in sorted(added):
        came.setdefault(files[path].content_hash, []).append(path)
    moves = []
    for path in sorted(gone):
        if same := came.get(stored[path]["content_hash"]):
            moves.append((path, same.pop(0)))
    return moves


def _store(
    warehouse: Warehouse, changes: _Changes, report: SourceReport, stored: list[_State], run_id: str
) -> None:
    """Write the changes and how the reading went, in one transaction; nothing when all is well and as it was."""
    problems = json.dumps([asdict(problem) for problem in report.problems], ensure_ascii=False)
    state = (report.commit, report.documents, problems, report.error)
    as_it_was = stored == [state] and report.error is None and not report.wrote
    if as_it_was and not changes:
        return
    now = datetime.now(UTC)
    row = {
        "source": report.source,
        "commit": report.commit,
        "documents": report.documents,
        "problems": problems,
        "error": report.error,
        "run_id": run_id,
        "read_at": now,
    }
    with warehouse.transaction() as connection:
        _delete(connection, "bib_docs", changes.deleted)
        insert_rows(connection, "bib_docs", [_document_row(document, now) for document in changes.made])
        if changes.stale:
            connection.execute(
                "UPDATE bib_docs SET stale = true WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))",
                {"ids": list(changes.stale)},
            )
        if not as_it_was:
            connection.execute("DELETE FROM bib_sources WHERE source = $source", {"source": report.source})
            insert_rows(connection, "bib_sources", [row])


def _documents_to_cut(
    connection: DuckDBPyConnection, source: str, chunker: str, full: bool
) -> list[DocumentText]:
    rows = connection.execute(
        """
        SELECT d.doc_id, d.source, d.path, d.kind, d.own_title, d.text, d.content_hash
        FROM bib_docs AS d LEFT JOIN bib_chunked_docs AS c USING (doc_id)
        WHERE d.source = $source
          AND ($full OR c.chunker IS DISTINCT FROM $chunker OR c.content_hash <> d.content_hash)
        ORDER BY d.path
        """,
        {"source": source, "chunker": chunker, "full": full},
    ).fetchall()
    return [DocumentText(*row) for row in rows]


def _column(connection: DuckDBPyConnection, query: str, source: str) -> list[str]:
    return [value for (value,) in connection.execute(query, {"source": source}).fetchall()]


def _count(connection: DuckDBPyConnection, table: str, source: str) -> int:
    rows = connection.execute(
        f"SELECT count(*) FROM {table} WHERE source = $source", {"source": source}
    ).fetchall()
    return int(rows[0][0])


def _delete(connection: DuckDBPyConnection, table: str, doc_ids: Sequence[str]) -> None:
    if not doc_ids:
        return
    connection.execute(
        f"DELETE FROM {table} WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))", {"ids": list(doc_ids)}
    )
