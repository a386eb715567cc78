"""The warehouse's tables and their columns, in one place.

No primary keys and no indexes: DuckDB's have open corruption reports on tables that are written often, and
each promise that one would make is checked by an asset check instead. Times are UTC with time zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES: dict[str, dict[str, str]] = {
    # A source document.
    "bib_docs": {
        "doc_id": "VARCHAR",
        "source": "VARCHAR",
        "path": "VARCHAR",
        "kind": "VARCHAR",
        "source_type": "VARCHAR",
        "app": "VARCHAR",
        "language": "VARCHAR",
        "title": "VARCHAR",
        "slug": "VARCHAR",
        "front_matter": "JSON",
        "content_hash": "VARCHAR",
        "bytes": "BIGINT",
        "tokens": "BIGINT",
        "commit": "VARCHAR",
        "stale": "BOOLEAN",
        "read_at": "TIMESTAMPTZ",
        "own_title": "VARCHAR",
        "warnings": "VARCHAR[]",
        # The decoded text, so that chunks are cut from what was read and never from a file that has
        # changed since; `text[start:end]` is a chunk's text.
        "text": "VARCHAR",
    },
    # An occurrence of a chunk in a document.
    "bib_chunks": {
        "chunk_id": "VARCHAR",
        "content_id": "VARCHAR",
        "text_hash": "VARCHAR",
        "doc_id": "VARCHAR",
        "source": "VARCHAR",
        "path": "VARCHAR",
        "ordinal": "BIGINT",
        "heading_path": "VARCHAR",
        "text": "VARCHAR",
        "start": "BIGINT",
        "end": "BIGINT",
        "line_start": "BIGINT",
        "line_end": "BIGINT",
        "tokens": "BIGINT",
        "title": "VARCHAR",
        "body": "VARCHAR",
    },
    # Which text of a document its rows in bib_chunks were cut from, and by which chunker.
    "bib_chunked_docs": {
        "doc_id": "VARCHAR",
        "source": "VARCHAR",
        "content_hash": "VARCHAR",
        "chunker": "VARCHAR",
    },
    # How the last reading of a source went.
    "bib_sources": {
        "source": "VARCHAR",
        "commit": "VARCHAR",
        "documents": "BIGINT",
        "problems": "JSON",
        "error": "VARCHAR",
        "run_id": "VARCHAR",
        "read_at": "TIMESTAMPTZ",
    },
    # A real question.
    "oraculo_queries": {
        "query_id": "VARCHAR",
        "ts": "TIMESTAMPTZ",
        "question": "VARCHAR",
        "mode": "VARCHAR",
        "latency_ms": "DOUBLE",
        "tokens": "BIGINT",
        "content_ids": "VARCHAR[]",
        "paths": "VARCHAR[]",
        "generation": "VARCHAR",
        "answered": "BOOLEAN",
    },
    # How much of each file of the query log's spool has been loaded.
    "query_log_files": {
        "file": "VARCHAR",
        "bytes": "BIGINT",
    },
    # The live generation of the index, as LanceDB says, and when it was last found level with the corpus.
    "bib_index": {
        "generation": "VARCHAR",
        "model": "VARCHAR",
        "revision": "VARCHAR",
        "dimension": "BIGINT",
        "contents": "BIGINT",
        "corpus": "VARCHAR",
        "level_at": "TIMESTAMPTZ",
    },
    # An A/B run: what was asked for, and its summary.
    "ab_runs": {
        "run_id": "VARCHAR",
        "ran_at": "TIMESTAMPTZ",
        "day": "DATE",
        "golden_hash": "VARCHAR",
        "questions": "BIGINT",
        "variants": "VARCHAR[]",
        "top_k": "BIGINT",
        "trim_mode": "VARCHAR",
        "trim_threshold": "DOUBLE",
        "trim_min_sentences": "BIGINT",
        "trim_window": "BIGINT",
        "ranking": "VARCHAR",
        "source_type": "VARCHAR",
        "app": "VARCHAR",
        "generation": "VARCHAR",
        "model": "VARCHAR",
        "corpus": "VARCHAR",
        "avg_tokens_baseline": "BIGINT",
        "avg_tokens_trim": "BIGINT",
        "token_reduction_pct": "BIGINT",
        "avg_overlap_vs_baseline": "DOUBLE",
        "verdict": "VARCHAR",
    },
    # A question under a variant, in one A/B run.
    "ab_results": {
        "run_id": "VARCHAR",
        "day": "DATE",
        "question": "VARCHAR",
        "variant": "VARCHAR",
        "chunk_ids": "VARCHAR[]",
        "top_score": "DOUBLE",
        "tokens": "BIGINT",
        "tokens_before": "BIGINT",
        "overlap_vs_baseline": "DOUBLE",
        "answer": "VARCHAR",
        "rank": "BIGINT",
    },
}

# What a column holds, where its name does not say it all.
NOTES: dict[str, dict[str, str]] = {
    "bib_docs": {
        "doc_id": "Of source and path.",
        "kind": "The file's format.",
        "source_type": "What the source is said to be in bib.toml: wiki, docs, session, method …",
        "app": "What a search can be narrowed to.",
        "slug": "Of the front matter, or else of the path.",
        "front_matter": "As it was read, as JSON.",
        "content_hash": "Of the decoded text.",
        "tokens": "Characters divided by four, rounded up.",
        "commit": "That a git source was read at.",
        "stale": "The file could not be read the last time; this is what it said before.",
        "read_at": "When it was read as it is now: a reading that finds nothing new leaves it.",
        "own_title": "The title that its chunks are embedded with.",
        "warnings": "What was odd about the file, though it was read.",
        "text": "As decoded: chunks are slices of it.",
    },
    "bib_chunks": {
        "chunk_id": "Of document and place.",
        "content_id": "Of what is embedded: title, heading path and body. Copies share it.",
        "text_hash": "Of the body alone: the same text under another heading has it too.",
        "ordinal": "Place in the document, from 0.",
        "heading_path": "The headings that it stands under.",
        "text": "The raw slice of the document, document[start:end].",
        "start": "In characters, from 0.",
        "end": "In characters, exclusive.",
        "line_start": "From 1.",
        "line_end": "Inclusive.",
        "tokens": "Characters divided by four, rounded up.",
        "body": "The text in normal form, as it is embedded and shown.",
    },
    "bib_chunked_docs": {
        "content_hash": "Of the text that the chunks were cut from.",
        "chunker": "Its version and sizes.",
    },
    "bib_sources": {
        "problems": "Files that gave no document, with the reason, as JSON.",
        "error": "Why the source was not read the last time.",
        "run_id": "That read it.",
        "read_at": "When something of this row last changed.",
    },
    "oraculo_queries": {
        "ts": "When it was asked.",
        "mode": "ask, oracle or help.",
        "content_ids": "Of the chunks that were shown.",
        "generation": "Of the index that was searched.",
        "answered": "Empty where the log does not say.",
    },
    "query_log_files": {"bytes": "How much of the file has been loaded."},
    "bib_index": {
        "generation": "The table of LanceDB that is live.",
        "corpus": "A hash of all occurrences that it holds.",
        "level_at": "When it was last found level with the corpus.",
    },
    "ab_runs": {
        "day": "Of the golden set; empty for questions of one's own.",
        "golden_hash": "Tells whether two golden sets are the same.",
        "trim_mode": "cosine, cosine-auto or margin; empty means cosine, the only one that there was at first.",
        "trim_threshold": "Of mode cosine.",
        "trim_min_sentences": "Kept of each chunk at the least; empty for runs of before it was noted.",
        "generation": "Of the index that was searched.",
        "corpus": "A hash of what was indexed.",
        "token_reduction_pct": "Of the averages; empty where there was nothing to divide by.",
    },
    "ab_results": {
        "variant": "baseline (whole chunks) or trim.",
        "chunk_ids": "Content ids, best first.",
        "top_score": "The best cosine, however the chunks were ranked.",
        "tokens": "In the context, [...] marks included.",
        "tokens_before": "Of the same chunks whole.",
        "overlap_vs_baseline": "Share of the baseline's chunks; 1 by construction where no chunk is dropped.",
        "rank": "Of the question in the golden set, from 1.",
    },
}


def create_tables(connection: DuckDBPyConnection) -> None:
    """Create the tables that are missing, and add the columns that an older version lacked."""
    for table, columns in TABLES.items():
        listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({listed})")
        present = {row[0] for row in connection.sql(f"DESCRIBE {table}").fetchall()}
        for name, kind in columns.items():
            if name not in present:
                connection.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {kind}')
