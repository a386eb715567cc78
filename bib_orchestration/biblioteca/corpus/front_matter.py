"""The block of settings at the head of a text, in YAML or TOML.

Anybody may write one: what it holds is read as data, within bounds, and never makes a document unreadable.

What does not belong here: what the settings mean for a document (documents.py).
"""

from __future__ import annotations

import base64
import json
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

import yaml

from bib_orchestration.biblioteca.corpus.normal_text import LINE_END

MAX_FRONT_MATTER = 64 * 1024
MAX_NESTING = 64
# In bits.
LONGEST_INTEGER = 1024

_KEY_LINE = re.compile(r"[ \t]*(?:[\w.-]+|\"[^\"\r\n]*\"|'[^'\r\n]*')[ \t]*:(?:[ \t]|$)")
_TOML_KEY_LINE = re.compile(r"[ \t]*(?:[\w.\"'-]+[ \t]*=|\[)")
# A dotted key holds none of these, outside quotes.
_TOML_PIECE_END = re.compile(r"[=,\[\]\r\n]")
_TOML_ERROR_LINE = re.compile(r"at line (\d+), column \d+")


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


def one_line(text: str) -> str:
    """`text` as a name: its white space, line ends and NULs are single spaces."""
    return " ".join(_well_formed(text).replace("\0", " ").split())


def _lines(text: str, start: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, start of the next) of each line from `start` on; ends at LF, CRLF and CR only."""
    while start < len(text):
        found = LINE_END.search(text, start)
        end, after = found.span() if found else (len(text), len(text))
        yield start, end, after
        start = after


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
    return FrontMatter(safe, one_line(title), after, ())


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
    return 2 + len(LINE_END.findall(block, 0, index))


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
        values = tomllib.loads(LINE_END.sub("\n", block))
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
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        # Python refuses to write a number of over 4,300 digits, and no reader of JSON would take it.
        return hex(value)
    return _well_formed(value) if isinstance(value, str) else value


def _key(key: Any) -> str:
    # As json.dumps would write it: true, null, 1.
    safe = _json_safe(key)
    return safe if isinstance(safe, str) else json.dumps(safe)


def _well_formed(text: str) -> str:
    """YAML's "\\ud83d\\ude00" makes two surrogates of what is one character; a lone one is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
