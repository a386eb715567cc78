"""Where markdown-it-py, CommonMark's reference in Python, sees the blocks that the contract never cuts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.token import Token

Span = tuple[int, int]
# None: no block's, or a definition's, which the parser drops. Two lines of one block have equal owners.
Owner = tuple[str, int] | None

PARSER = MarkdownIt("commonmark").enable("table")
PARSER.core.ruler.enableOnly(["normalize", "block"])
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
ONLY_MARKERS = re.compile(r"[\s>]*(?:(?:[-+*]|[0-9]{1,9}[.)])\s*)*")
OUTSIDE_CONTAINERS = {
    "fence",
    "code_block",
    "heading_open",
    "html_block",
    "hr",
    "paragraph_open",
    "table_open",
}

# Where markdown-it and the specification (or cmark-gfm, for tables) differ, or the contract asks for more than
# either: tested elsewhere, by hand.
FRONT_MATTER = re.compile(r"\ufeff?---")
INDENTED_MARK = re.compile(r"[^\n]\n(?: {4}| {0,3}\t)[ \t]*[>#\-+*=_`~<0-9|]")
CONTAINER = {"blockquote_open", "list_item_open"}
FENCE_LINE = re.compile(r"[\s>]*(?:```|~~~)")
BARE_DEFINITION = re.compile(r"(?m)^ {0,3}\[[^\]]*\]:\s*$")
ESCAPED_CONTROL = re.compile(r"\\[\0-\x1f\x7f]")
FOOTNOTE = re.compile(r"\[\^")
STRUCTURE = re.compile(r" {0,3}(?:[>#<]|```|~~~|(?:[-+*]|[0-9]{1,9}[.)])\s)")
PIPED_LINE = re.compile(r"(?m)^ {0,3}\|.*\|[ \t]*$")
DELIMITER = re.compile(r"(?m)^[ \t:|-]*-[ \t:|-]*$")


def lines_of(text: str) -> list[Span]:
    return [found.span() for found in LINE.finditer(text)]


def read_otherwise(text: str) -> str:
    """Why the oracle can't judge a text; "" when it can."""
    normal = re.sub(r"\r\n?", "\n", text)
    tokens = PARSER.parse(text)
    kinds = {token.type for token in tokens}
    lines = normal.split("\n")

    def lines_under(kind: str) -> Iterator[list[str]]:
        return (lines[slice(*token.map)] for token in tokens if token.type == kind and token.map)

    if FRONT_MATTER.match(text):
        return "front matter is no CommonMark"
    if INDENTED_MARK.search(normal):
        return "a mark indented by four ends a paragraph, or goes on with a quote"
    if "]:" in text and kinds & CONTAINER:
        return "no line goes on lazily after a definition"
    if "]:" in text and ESCAPED_CONTROL.search(text):
        return "a definition's destination may hold control characters that are escaped"
    if BARE_DEFINITION.search(normal):
        return "a definition over two lines is a paragraph to us"
    if FOOTNOTE.search(text):
        return "a footnote is a unit to us"
    if any(FENCE_LINE.match(line) for html in lines_under("html_block") for line in html):
        return "a fence inside HTML is a fence to us, as in MDX"
    if any(STRUCTURE.match(table[0]) or "|" not in table[1] for table in lines_under("table_open")):
        return "a table begins where a quote, an item, a fence or HTML does, or where a heading is underlined"
    tables = [token.map[0] for token in tokens if token.type == "table_open" and token.map]
    if kinds & CONTAINER and any(lines[first - 1].strip() for first in tables if first):
        return "a table ends a paragraph that goes on lazily"
    rows = {line for table in lines_under("table_open") for line in table}
    if any(PIPED_LINE.match(line) or ("|" in line and DELIMITER.match(line)) for line in {*lines} - rows):
        return "a line of pipes is a row to us, with or without a table"
    return ""


def owners(text: str) -> list[Owner]:
    """For each line, the block that it belongs to: a row, a fence, an item, a quote, or another block.

    The innermost, save that a quote is one block with all it holds but fences, and part of an item it is in.
    """
    owner: list[Owner] = [None] * len(lines_of(text))
    containers: list[str] = []

    def own(token: Token, kind: str, number: int, *, each_line: bool = False) -> None:
        first, last = token.map or (0, 0)
        for line in range(first, min(last, len(owner))):
            owner[line] = (kind, line if each_line else number)

    for number, token in enumerate(PARSER.parse(text)):
        if token.type in CONTAINER:
            containers.append(token.type)
            if "blockquote_open" not in containers or len(containers) == 1:
                own(token, token.type, number)
        elif token.type in ("blockquote_close", "list_item_close"):
            containers.pop()
        elif token.type == "fence" or (not containers and token.type in OUTSIDE_CONTAINERS):
            own(token, token.type, number, each_line=token.type == "table_open")
    return owner


def stripped(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def whole_pieces(text: str) -> Iterator[tuple[Owner, Span]]:
    """The stretches that no cut may be in, and what each belongs to: runs of lines of one block."""
    lines = lines_of(text)
    at = 0
    for owner, run in groupby(owners(text)):
        first, at = at, at + len(list(run))
        start, end = stripped(text, lines[first][0], lines[at - 1][1])
        if owner and owner[0] != "paragraph_open" and start < end:
            yield owner, (start, end)


def owners_of(text: str, spans: list[Span]) -> Iterator[tuple[Span, set[Owner]]]:
    """Each span, with the blocks whose lines it takes from; lines of markers alone are anyone's."""
    lines = lines_of(text)
    starts = [start for start, _ in lines]
    owner = owners(text)
    for start, end in spans:
        touched = range(bisect_right(starts, start) - 1, bisect_right(starts, end - 1))
        yield (start, end), {owner[at] for at in touched if not ONLY_MARKERS.fullmatch(text, *lines[at])}
