"""From the bytes of a file to a document: its text, its front matter, its title and its names.

Everything here is a pure function of the bytes and of the source's settings.

What does not belong here: reading files (sources.py), and cutting text into chunks.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import PurePosixPath
from typing import Any, Literal

import yaml

from bib_orchestration.biblioteca.corpus.sources import RawFile
from bib_orchestration.biblioteca.settings import Source

CHARACTERS_PER_TOKEN = 4
MAX_FRONT_MATTER = 64 * 1024
MAX_NESTING = 64
MAX_TITLE = 300
# Control characters that a text may hold before it is taken for a binary file.
STRAY_CONTROLS = 3
STRAY_CONTROLS_SHARE = 0.01

_LINE_END = re.compile(r"\r\n|\r|\n")
# C0 and DEL without tab, LF, FF and CR; each is one byte in UTF-8.
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\f\r"))
_NOT_ASCII = bytes(range(128, 256))
_BLANK = re.compile(r"[\s\x00\ufeff]*")
_BOM = "\ufeff"
# The longer mark first: UTF-32's begins with UTF-16's.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MIXED = "utf-8 with cp1252 bytes"

_KEY_LINE = re.compile(r"[ \t]*(?:[\w.-]+|\"[^\"\r\n]*\"|'[^'\r\n]*')[ \t]*:(?:[ \t]|$)")
_TOML_KEY_LINE = re.compile(r"[ \t]*(?:[\w.\"'-]+[ \t]*=|\[)")
# A dotted key holds none of these, outside quotes.
_TOML_PIECE_END = re.compile(r"[=,\[\]\r\n]")
_TOML_ERROR_LINE = re.compile(r"at line (\d+), column \d+")

_ITEM = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ ]?)*"
_FENCE = re.compile(rf"[ ]{{0,3}}{_ITEM}(?P<fence>`{{3,}}(?=[^`]*$)|~{{3,}})")
_HEADING = re.compile(r"[ ]{0,3}#(?:[ \t]+(?P<text>.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_UNDERLINE = re.compile(r"[ ]{0,3}=+[ \t]*$")
# Lines that cannot be the text of an underlined heading.
_NOT_PARAGRAPH = re.compile(r"[ \t]*$|[ ]{4}|\t|[ ]{0,3}(?:[-*+>|<]|#{1,6}(?:[ \t]|$)|\d{1,9}[.)][ \t])")
_COMMENT = re.compile(r"[ ]{0,3}<!--")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(\*{1,3})(?=\S)(.+?)(?<=\S)\1")
_ANCHOR = re.compile(r"[ \t]*\{#[^}]*\}$")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


class UnreadableDocument(Exception):
    """There is no text to index in a file; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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
    """SHA-256 of the text in NFC with LF line ends: other line ends, encoding or BOM are no change."""
    bytes: int
    """Size of the file."""
    tokens: int
    """Characters of `text` / 4, rounded up."""
    commit: str | None
    """The commit that it was read from; None for a folder."""
    text: str
    """The decoded file, without a BOM; CRLF, CR and NUL are kept."""
    body_start: int
    """Offset in `text`, in code points, of what follows the front matter."""
    warnings: tuple[str, ...]
    """What was odd about it, for a person."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The block of settings at the head of a text."""

    values: dict[str, Any]
    """As JSON can hold it; {} when there is none, or none that can be read."""
    title: str
    """Its `title` as it is typed (1.10 stays 1.10); "" when there is none."""
    body_start: int
    """Offset in the text of the first line after the block; 0 without a block."""
    warnings: tuple[str, ...]
    """Why a block was not read."""


NO_FRONT_MATTER = FrontMatter({}, "", 0, ())


def read_document(source: Source, raw: RawFile, commit: str | None) -> Document:
    """The document in `raw`, a file of `source` at `commit`.

    Raises UnreadableDocument for a binary, empty or blank file.
    """
    text, encoding = decode(raw.data)
    if not text:
        raise UnreadableDocument("empty file")
    if _BLANK.fullmatch(text):
        raise UnreadableDocument("blank file")
    front = parse_front_matter(text)
    own_title = front.title or first_heading(text, front.body_start)
    return Document(
        doc_id=hashlib.sha256(f"{source.name}\0{raw.path}".encode()).hexdigest()[:32],
        source=source.name,
        path=raw.path,
        kind="mdx" if raw.path.lower().endswith(".mdx") else "markdown",
        source_type=source.source_type,
        app=source.app,
        language=source.language,
        title=own_title or PurePosixPath(raw.path).stem,
        own_title=own_title,
        slug=_own_slug(front.values) or slug_of(raw.path),
        front_matter=front.values,
        content_hash=content_hash(text),
        bytes=len(raw.data),
        tokens=math.ceil(len(text) / CHARACTERS_PER_TOKEN),
        commit=commit,
        text=text,
        body_start=front.body_start,
        warnings=(*_oddities(text, encoding), *front.warnings),
    )


def content_hash(text: str) -> str:
    """SHA-256 (hex) of `text` in NFC with LF line ends.

    >>> content_hash("adiós\\r\\n") == content_hash("adio\\u0301s\\n")
    True
    """
    return hashlib.sha256(unicodedata.normalize("NFC", _LINE_END.sub("\n", text)).encode()).hexdigest()


def _oddities(text: str, encoding: str) -> Iterator[str]:
    if encoding != "utf-8":
        yield f"read as {encoding}"
    if "\0" in text:
        yield "holds NUL characters"


# --- bytes to text


def decode(data: bytes) -> tuple[str, str]:
    """The text of a file, without its byte order mark, and the encoding that it was read in.

    In turn: UTF-16 and UTF-32 by their marks; UTF-8; UTF-8 in which fewer sequences are wrong than right
    (the wrong bytes are read as cp1252, as when two editors wrote one file); cp1252. The five bytes that
    cp1252 leaves undefined make a file unreadable. So do control characters that are no white space: more
    than 3 that are more than 1 % of the text, or a single NUL in what is not UTF-8.

    >>> decode(b"caf\\xc3\\xa9"), decode(b"caf\\xe9")
    (('café', 'utf-8'), ('café', 'cp1252'))

    Raises UnreadableDocument.
    """
    text, encoding = _decoded(data)
    encoded = text.encode()
    controls = len(encoded) - len(encoded.translate(None, _CONTROLS))
    if controls > STRAY_CONTROLS and controls > STRAY_CONTROLS_SHARE * len(text):
        raise UnreadableDocument(
            f"binary file: {controls:,} of {len(text):,} characters are control characters"
        )
    return text.lstrip(_BOM), encoding


def _decoded(data: bytes) -> tuple[str, str]:
    for mark, encoding in _WIDE_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise UnreadableDocument(f"marked as {encoding}, but byte {error.start:,} is not") from None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return _decoded_otherwise(data.removeprefix(codecs.BOM_UTF8))


def _decoded_otherwise(data: bytes) -> tuple[str, str]:
    if b"\0" in data:
        raise UnreadableDocument("binary file: not UTF-8, and holds NUL bytes")
    kept = data.decode("utf-8", "ignore")
    wrong_bytes = len(data) - len(kept.encode())
    right_characters = len(kept) - len(data.translate(None, _NOT_ASCII))
    if right_characters > wrong_bytes:
        # Surrogates stand for the bytes that are not UTF-8; they leave the text as cp1252.
        return _ESCAPED_BYTES.sub(_as_cp1252, data.decode("utf-8", "surrogateescape")), _MIXED
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError as error:
        byte = f"byte {error.start:,} (0x{data[error.start]:02x})"
        raise UnreadableDocument(f"unknown encoding: {byte} is neither UTF-8 nor cp1252") from None


_ESCAPED_BYTES = re.compile("[\udc80-\udcff]+")


def _as_cp1252(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "surrogateescape").decode("cp1252", "replace")


def _lines(text: str, start: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, start of the next) of each line from `start` on; ends at LF, CRLF and CR only."""
    while start < len(text):
        found = _LINE_END.search(text, start)
        end, after = found.span() if found else (len(text), len(text))
        yield start, end, after
        start = after


# --- front matter


def parse_front_matter(text: str) -> FrontMatter:
    """The YAML (`---`) or TOML (`+++`) block that begins on the first line of `text`.

    What is no block of keys, such as prose between two rules, is left to the body. A block that is meant as
    one and cannot be parsed gives a warning, and the body still begins after it.

    >>> parse_front_matter("---\\ntitle: Altas\\n---\\nTexto")
    FrontMatter(values={'title': 'Altas'}, title='Altas', body_start=21, warnings=())

    Never raises.
    """
    lines = _lines(text, 0)
    start, end, block_start = next(lines, (0, 0, 0))
    opening = text[start:end].rstrip(" \t")
    if opening not in ("---", "+++"):
        return NO_FRONT_MATTER
    key_line, closings = (_KEY_LINE, ("---", "...")) if opening == "---" else (_TOML_KEY_LINE, ("+++",))
    second = ""
    for start, end, after in lines:
        if start == block_start:
            second = text[start:end]
        # Only so far: further down, a rule between two sections would be taken for the end.
        if start - block_start > MAX_FRONT_MATTER:
            break
        if text[start:end].rstrip(" \t") in closings:
            return _parse_block(text, block_start, start, after, opening)
    if key_line.match(second):
        reason = f"front matter is not closed by a line {closings[0]} within {MAX_FRONT_MATTER // 1024} KiB"
        return FrontMatter({}, "", 0, (reason,))
    return NO_FRONT_MATTER


class _NotFrontMatter(Exception):
    """A block cannot be read as front matter: `where` is a line of the file, or 0 when unknown."""

    def __init__(self, problem: str, where: int = 0) -> None:
        super().__init__(problem)
        self.problem = " ".join(problem.split())
        self.where = where


def _parse_block(text: str, start: int, end: int, after: int, opening: str) -> FrontMatter:
    block = text[start:end]
    parse, name, key_line = (
        (_parse_yaml, "YAML", _KEY_LINE) if opening == "---" else (_parse_toml, "TOML", _TOML_KEY_LINE)
    )
    try:
        values, title = parse(block)
        safe = _json_safe(values)
    except (_NotFrontMatter, RecursionError) as error:
        if not any(key_line.match(block[at:stop]) for at, stop, _ in _lines(block, 0)):
            return NO_FRONT_MATTER
        return FrontMatter({}, "", after, (_why_unread(error, name),))
    if safe is None:
        return FrontMatter({}, "", after, ())
    if not isinstance(safe, dict):
        return NO_FRONT_MATTER
    return FrontMatter(safe, _one_line(title), after, ())


def _why_unread(error: Exception, name: str) -> str:
    if not isinstance(error, _NotFrontMatter):
        return f"front matter is not valid {name}: nested too deeply"
    where = f"line {error.where}: " if error.where else ""
    return f"front matter is not valid {name}: {where}{error.problem}"


class _Loader(yaml.SafeLoader):
    """SafeLoader without what can blow up (aliases, deep nesting)."""

    nesting = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read", problem_mark=mark)
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = f"nested over {MAX_NESTING} levels deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.nesting -= 1


def _as_typed_if_odd(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """What SafeLoader makes of a number, date or truth value; the text itself when it makes none.

    2026-02-30 looks like a date and is none; that is no reason to lose the block.
    """
    construct = yaml.SafeLoader.yaml_constructors[node.tag]
    try:
        return construct(loader, node)
    except (ValueError, ArithmeticError, LookupError, AttributeError):
        return node.value


def _as_typed(loader: _Loader, node: yaml.ScalarNode) -> str:
    return loader.construct_scalar(node)


for _tag in ("int", "float", "bool", "timestamp"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _as_typed_if_odd)
# A plain "=" has a type of its own in YAML 1.1, for which SafeLoader has no constructor.
_Loader.add_constructor("tag:yaml.org,2002:value", _as_typed)


def _parse_yaml(block: str) -> tuple[Any, str]:
    """The values of a YAML block, and its title as typed. Raises _NotFrontMatter, RecursionError."""
    try:
        loader = _Loader(block)
        node = loader.get_single_node()
        values = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _NotFrontMatter(error.problem or "cannot be parsed", _error_line(block, error)) from None
    except yaml.reader.ReaderError as error:
        what = f"character {error.character!r} is not allowed"
        raise _NotFrontMatter(what, _file_line(block, error.position)) from None
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        raise _NotFrontMatter(str(error)) from None
    return values, _title_as_typed(node)


def _error_line(block: str, error: yaml.MarkedYAMLError) -> int:
    marks = (error.problem_mark, error.context_mark)
    # What is missing at the end of the block was opened where the context begins.
    inside = [mark.index for mark in marks if mark and mark.index < len(block)]
    return _file_line(block, inside[0] if inside else len(block.rstrip()))


def _file_line(block: str, index: int) -> int:
    # The block begins on the file's second line.
    return 2 + len(_LINE_END.findall(block, 0, index))


def _title_as_typed(node: yaml.Node | None) -> str:
    if not isinstance(node, yaml.MappingNode):
        return ""
    for key, value in node.value:
        if key.value == "title" and isinstance(value, yaml.ScalarNode):
            return "" if value.tag == "tag:yaml.org,2002:null" else str(value.value)
    return ""


def _parse_toml(block: str) -> tuple[Any, str]:
    """The values of a TOML block, and its title. Raises _NotFrontMatter, RecursionError."""
    # tomllib takes minutes over a key of thousands of parts.
    if any(sum(map(bool, piece.split("."))) > MAX_NESTING for piece in _TOML_PIECE_END.split(block)):
        raise _NotFrontMatter(f"nested over {MAX_NESTING} levels deep")
    try:
        values = tomllib.loads(_LINE_END.sub("\n", block))
    except ValueError as error:
        line = _TOML_ERROR_LINE.search(str(error))
        where = int(line[1]) + 1 if line else 0
        raise _NotFrontMatter(str(error).partition(" (at ")[0], where) from None
    title = values.get("title", "")
    return values, "" if isinstance(title, dict | list) else str(title)


def _json_safe(value: Any, nesting: int = 0) -> Any:
    """`value` as JSON can hold it: dates in ISO, keys as strings, NaN and infinities as strings."""
    if nesting > MAX_NESTING:
        raise _NotFrontMatter(f"nested over {MAX_NESTING} levels deep")
    if isinstance(value, dict):
        return {_key(key): _json_safe(item, nesting + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(item, nesting + 1) for item in value]
    if isinstance(value, set):
        return sorted(_key(item) for item in value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _well_formed(value) if isinstance(value, str) else value


def _key(key: Any) -> str:
    # As json.dumps would write it: true, null, 1.
    safe = _json_safe(key)
    return safe if isinstance(safe, str) else json.dumps(safe)


def _well_formed(text: str) -> str:
    """YAML's "\\ud83d\\ude00" makes two surrogates of what is one character; a lone one is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- names


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
    return _one_line(slug) if isinstance(slug, str) else ""


def _one_line(text: str) -> str:
    return " ".join(_well_formed(text).replace("\0", " ").split())


def first_heading(text: str, start: int = 0) -> str:
    """The text of the first level-1 heading from `start` on, outside fences and comments; "" without one.

    Markup goes: code marks, emphasis, links (their text stays), a closing {#anchor}.

    >>> first_heading("```\\n# no\\n```\\n# **Alta** de [usuarios](x.md) #\\n")
    'Alta de usuarios'
    """
    fence = comment = paragraph = ""
    for begin, end, _ in _lines(text, start):
        # Long enough for any title, and short enough for patterns that look back.
        line = text[begin : min(end, begin + MAX_TITLE)]
        if fence:
            fence = "" if _closes(fence, line) else fence
        elif comment or _COMMENT.match(line):
            comment = "" if text.find("-->", begin, end) >= 0 else "<!--"
            paragraph = ""
        elif opened := _FENCE.match(line):
            fence, paragraph = opened["fence"], ""
        elif paragraph and _UNDERLINE.match(line):
            return _plain(paragraph)
        elif heading := _HEADING.match(line):
            paragraph = ""
            if title := _plain(_CLOSING_HASHES.sub("", heading["text"] or "")):
                return title
        else:
            paragraph = "" if _NOT_PARAGRAPH.match(line) else f"{paragraph} {line}"[:MAX_TITLE]
    return ""


def _closes(fence: str, line: str) -> bool:
    bare = line.strip(" \t")
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _plain(heading: str) -> str:
    bare = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", _ANCHOR.sub("", heading.strip())).replace("`", ""))
    return _one_line(_ESCAPE.sub(r"\1", bare))
