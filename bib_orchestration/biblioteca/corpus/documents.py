"""From the bytes of a file to a document: its text, its front matter, its title and its names.

Everything here is a pure function of the bytes and of the source's settings. It comes in two stages, because
most files are as they were: `decoded` says whether one has changed, and only then need `make_document` parse.

What does not belong here: reading files (sources.py), and cutting text into chunks.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from bib_orchestration.biblioteca.corpus.blocks import MAX_TITLE, read_blocks
from bib_orchestration.biblioteca.corpus.chunks import short_hash
from bib_orchestration.biblioteca.corpus.decoding import UnreadableDocument, decode
from bib_orchestration.biblioteca.corpus.front_matter import one_line, parse_front_matter
from bib_orchestration.biblioteca.corpus.normal_text import LINE_END
from bib_orchestration.biblioteca.corpus.raw_files import RawFile
from bib_orchestration.biblioteca.corpus.sizes import count_tokens
from bib_orchestration.biblioteca.settings import Source

__all__ = [
    "DecodedFile",
    "Document",
    "UnreadableDocument",
    "content_hash",
    "decode",
    "decoded",
    "make_document",
    "parse_front_matter",
    "read_document",
    "slug_of",
]

_BLANK = re.compile(r"[\s\x00\ufeff]*")


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """A file that holds text, before anything is read out of it."""

    path: str
    """As in `RawFile`."""
    text: str
    """As in `Document`."""
    encoding: str
    """What the text was read in; see `decode`."""
    content_hash: str
    """As in `Document`."""
    bytes: int
    """Size of the file."""


@dataclass(frozen=True, slots=True)
class Document:
    """A source document, before it is cut into chunks."""

    doc_id: str
    """The first 32 hex digits of the SHA-256 of source, NUL, path."""
    source: str
    """The source's name."""
    path: str
    """POSIX, relative to the source's root, exactly as it is stored."""
    kind: Literal["markdown", "mdx"]
    """By the file's extension."""
    source_type: str
    """The source's setting."""
    app: str
    """The source's setting."""
    language: str
    """The source's setting: an ISO 639-1 code."""
    title: str
    """`own_title`, else the file's name without its extension. One line."""
    own_title: str
    """Front matter's `title`, else the first level-1 heading; "" when the document names itself nowhere."""
    slug: str
    """Front matter's `slug`, else made from the path."""
    front_matter: dict[str, Any]
    """As JSON can hold it."""
    content_hash: str
    """SHA-256 of the decoded text: another encoding or BOM is no change, other line ends are."""
    bytes: int
    """Size of the file."""
    tokens: int
    """Of `text`; see `count_tokens`."""
    commit: str | None
    """The commit that it was read from; None for a folder."""
    text: str
    """The decoded file, without a BOM; CRLF, CR and NUL are kept."""
    body_start: int
    """Offset in `text`, in code points, of what follows the front matter."""
    warnings: tuple[str, ...]
    """What was odd about it, for a person."""


def read_document(source: Source, raw: RawFile, commit: str | None) -> Document:
    """The document in `raw`, a file of `source` at `commit`.

    Raises UnreadableDocument for a binary, empty or blank file.
    """
    return make_document(source, decoded(raw), commit)


def decoded(raw: RawFile) -> DecodedFile:
    """The text in `raw` and its hash: the cheap stage, for every file at every reading.

    Raises UnreadableDocument for a binary, empty or blank file.
    """
    text, encoding = decode(raw.data)
    if not text:
        raise UnreadableDocument("empty file")
    if _BLANK.fullmatch(text):
        raise UnreadableDocument("blank file")
    return DecodedFile(raw.path, text, encoding, content_hash(text), len(raw.data))


def make_document(source: Source, file: DecodedFile, commit: str | None) -> Document:
    """The document in `file`, a file of `source` at `commit`: parses all of it, about 1 ms a page."""
    front = parse_front_matter(file.text)
    mdx = file.path.lower().endswith(".mdx")
    own_title = front.title[:MAX_TITLE].strip() or _first_heading(file.text[front.body_start :], mdx)
    return Document(
        doc_id=short_hash(f"{source.name}\0{file.path}"),
        source=source.name,
        path=file.path,
        kind="mdx" if mdx else "markdown",
        source_type=source.source_type,
        app=source.app,
        language=source.language,
        title=own_title or PurePosixPath(file.path).stem,
        own_title=own_title,
        slug=_own_slug(front.values) or slug_of(file.path),
        front_matter=front.values,
        content_hash=file.content_hash,
        bytes=file.bytes,
        tokens=count_tokens(file.text),
        commit=commit,
        text=file.text,
        body_start=front.body_start,
        warnings=(*_oddities(file), *front.warnings),
    )


def content_hash(text: str) -> str:
    """SHA-256 (hex) of `text` as it is: chunks' offsets are of this text and no other.

    Other line ends are a change, then, and cut anew; embedded they are not, as content ids are of the normal
    form.

    >>> content_hash("adiós") == content_hash("adiós\\r\\n")
    False
    """
    return hashlib.sha256(text.encode()).hexdigest()


def _first_heading(body: str, mdx: bool) -> str:
    """The first level-1 heading with a text in it; "" without one. Read as chunking reads headings."""
    blocks = read_blocks(LINE_END.split(body), mdx=mdx)
    return next((block.title for block in blocks if block.level == 1 and block.title), "")


def _oddities(file: DecodedFile) -> Iterator[str]:
    if file.encoding != "utf-8":
        yield f"read as {file.encoding}"
    if "\0" in file.text:
        yield "holds NUL characters"


def slug_of(path: str) -> str:
    """A document's slug from its path: parts joined by "--", lower case, accents folded, the rest "-".

    A part of which nothing would be left is named by the hash of it.

    >>> slug_of("crearack/Alta de Usuario.md"), slug_of("guía/index.md"), slug_of("index.md")
    ('crearack--alta-de-usuario', 'guia', 'index')
    """
    parts = [_slug_part(part) for part in PurePosixPath(path).with_suffix("").parts]
    if len(parts) > 1 and parts[-1] == "index":
        parts.pop()
    return "--".join(parts)


def _slug_part(part: str) -> str:
    folded = unicodedata.normalize("NFKD", part.lower())
    bare = "".join(character for character in folded if not unicodedata.combining(character))
    slug = re.sub(r"[^a-z0-9]+", "-", bare).strip("-")
    return slug or hashlib.sha256(part.encode()).hexdigest()[:8]


def _own_slug(front_matter: dict[str, Any]) -> str:
    slug = front_matter.get("slug")
    return one_line(slug) if isinstance(slug, str) else ""
