"""Identity: when two chunks are the same content, and what an occurrence of one is.

| two chunks have                            | content_id | text_hash | in the index            |
| ------------------------------------------ | ---------- | --------- | ----------------------- |
| the same title, headings and body          | same       | same      | one row, two occurrences |
| the same body below other headings         | differs    | same      | two rows, shown once    |
| the same body with other line ends or NFD  | same       | same      | one row, two occurrences |
| another body                               | differs    | differs   | two rows                |

The path is no part of it: a file that moves costs no embedding.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from bib_orchestration.biblioteca.corpus.markdown import PATH_SEPARATOR, chunk_markdown
from bib_orchestration.biblioteca.corpus.normal_text import normal

_ID_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A chunk where it stands in a document: a row of `bib_chunks`.

    chunk_id: hash of source, path and ordinal.
    content_id: hash of the text that is embedded.
    text_hash: hash of the body alone.
    doc_id, source, path: the document.
    ordinal: the chunk's place in the document, from 0.
    heading_path: the headings above it, joined by " > ".
    text: the slice of the document, as written.
    start, end: the slice's offsets, in code points.
    line_start, line_end: 1-based.
    tokens: of the body.
    title: the document's own title, which is part of the embedded text.
    body: the slice in normal form, with what was put back (see `markdown.Chunk`).
    """

    chunk_id: str
    content_id: str
    text_hash: str
    doc_id: str
    source: str
    path: str
    ordinal: int
    heading_path: str
    text: str
    start: int
    end: int
    line_start: int
    line_end: int
    tokens: int
    title: str
    body: str


def embedded_text(title: str, heading_path: str, body: str) -> str:
    """The text that a chunk's vector is made from: where it stands, a blank line, the body.

    A title that is also the first heading stands once.

    >>> embedded_text("Sede", "Sede > Horario", "Abre a las 9.")
    'Sede > Horario\\n\\nAbre a las 9.'
    >>> embedded_text("", "", "Abre a las 9.")
    'Abre a las 9.'
    """
    return "\n\n".join(part for part in (heading_line(title, heading_path), body) if part)


def heading_line(title: str, heading_path: str) -> str:
    """Title and headings in one line, joined by " > "."""
    # Not by its parts: a title may hold the separator itself.
    if f"{heading_path}{PATH_SEPARATOR}".startswith(f"{title}{PATH_SEPARATOR}"):
        return heading_path
    return PATH_SEPARATOR.join(part for part in (title, heading_path) if part)


def short_hash(text: str) -> str:
    """128 bits of SHA-256, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What chunking needs of a document: a part of its row in `bib_docs`."""

    doc_id: str
    source: str
    path: str
    kind: str
    own_title: str
    text: str
    content_hash: str


def occurrences(document: DocumentText, *, max_tokens: int, min_tokens: int) -> list[Occurrence]:
    """The chunks of a document, in order."""
    chunks = chunk_markdown(
        document.text, max_tokens=max_tokens, min_tokens=min_tokens, mdx=document.kind == "mdx"
    )
    title = normal(document.own_title)
    return [
        Occurrence(
            chunk_id=short_hash(f"{document.source}\0{document.path}\0{ordinal}"),
            content_id=short_hash(embedded_text(title, chunk.heading_path, chunk.body)),
            text_hash=short_hash(chunk.body),
            doc_id=document.doc_id,
            source=document.source,
            path=document.path,
            ordinal=ordinal,
            heading_path=chunk.heading_path,
            text=chunk.text,
            start=chunk.start,
            end=chunk.end,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
            tokens=chunk.tokens,
            title=title,
            body=chunk.body,
        )
        for ordinal, chunk in enumerate(chunks)
    ]
