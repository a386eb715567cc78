"""What the index should hold: the contents of `unique_chunks`, and a hash that tells whether they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bib_orchestration.biblioteca.index.sentence_vectors import Content
from bib_orchestration.biblioteca.retrieval.calibration import MOST_QUESTIONS
from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.sql_tables import table_exists

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# With headings and text: a heading made into a paragraph leaves the embedded text, and so the id, as it was.
_OCCURRENCE = "content_id, title, heading_path, text_hash, source, path, source_type, app, slug, language"
# The same rows from either side, so that an index can be compared with the documents themselves.
_FROM_DOCUMENTS = """
    SELECT DISTINCT c.content_id, c.title, c.heading_path, c.text_hash,
        c.source, c.path, d.source_type, d.app, d.slug, d.language
    FROM bib_chunks AS c JOIN bib_docs AS d USING (doc_id)
"""
_FROM_CONTENTS = """
    SELECT content_id, title, heading_path, text_hash,
        unnest(sources) AS source, unnest(paths) AS path, unnest(source_types) AS source_type,
        unnest(apps) AS app, unnest(slugs) AS slug, unnest(languages) AS language
    FROM unique_chunks
"""


@dataclass(frozen=True, slots=True)
class WantedRow:
    """A row that the index should have. Lists are over occurrences, in their order."""

    content: Content
    text_hash: str
    tokens: int
    language: str
    occurrences: tuple[tuple[str, ...], ...]


def corpus_hash(connection: DuckDBPyConnection, *, of_documents: bool) -> str:
    """A hash of all occurrences: of those in the documents now, or of those that `unique_chunks` holds."""
    rows = _FROM_DOCUMENTS if of_documents else _FROM_CONTENTS
    count, combined = connection.sql(
        f"SELECT count(*), coalesce(bit_xor(hash({_OCCURRENCE})), 0) FROM ({rows})"
    ).fetchall()[0]
    return f"{count}:{combined:x}"


def wanted_rows(connection: DuckDBPyConnection) -> dict[str, WantedRow]:
    """The rows that the index should have, by content id, in the order of their ids."""
    rows = connection.sql(
        """
        SELECT content_id, title, heading_path, text, text_hash, tokens, languages[1],
            sources, source_types, apps, slugs, paths
        FROM unique_chunks ORDER BY content_id
        """
    ).fetchall()
    return {
        row[0]: WantedRow(Content(*row[:4]), row[4], row[5], row[6], tuple(tuple(names) for names in row[7:]))
        for row in rows
    }


def logged_questions(connection: DuckDBPyConnection) -> list[str]:
    """Questions of the log to calibrate by: as a golden set has them, each once, drawn at random but the same each
    time. When some are added, most of the draw stays."""
    rows = connection.execute(
        """
        SELECT DISTINCT trim(question) AS asked FROM oraculo_queries WHERE length(trim(question)) > 8
        ORDER BY md5('calibration ' || asked), asked LIMIT ?
        """,
        [MOST_QUESTIONS],
    ).fetchall()
    return [row[0] for row in rows]


def wanted_ids(warehouse: Warehouse) -> set[str]:
    """The ids of the contents that the index should have; none before `unique_chunks` is made."""
    with warehouse.read() as connection:
        if not table_exists(connection, "unique_chunks"):
            return set()
        return {row[0] for row in connection.sql("SELECT content_id FROM unique_chunks").fetchall()}


def has_documents(connection: DuckDBPyConnection) -> bool:
    """Whether any document is known."""
    return bool(connection.sql("SELECT 1 FROM bib_docs LIMIT 1").fetchall())
