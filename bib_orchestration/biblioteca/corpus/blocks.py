"""The blocks of a Markdown text: what stands together, by line.

markdown-it-py reads the structure (it is the CommonMark reference in Python); only its line numbers are
used, because it rewrites line ends and NULs. Lines that it drops from its tokens (link reference
definitions) come back as blocks of kind "text", so that no line of the document is lost.

What does not belong here: where a section ends, and how large a chunk may be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BlockKind = Literal["heading", "paragraph", "fence", "table", "list", "quote", "html", "rule", "text"]

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "text",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "html_block": "html",
    "hr": "rule",
}
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)|\s*\{#[\w-]+\}\s*$")
_MDX_STATEMENT = re.compile(r"(?:import|export)\s")


@dataclass(frozen=True, slots=True)
class Block:
    """A block and the lines it takes.

    kind: what it is.
    first: its first line, 0-based.
    last: the line after its last one that is not blank.
    level: a heading's level, 1 to 6; 0 for anything else.
    title: a heading's text, without marks; "" for anything else.
    items: the (first, last) of each item of a list.
    """

    kind: BlockKind
    first: int
    last: int
    level: int = 0
    title: str = ""
    items: tuple[tuple[int, int], ...] = ()


def read_blocks(lines: Sequence[str]) -> list[Block]:
    """The top-level blocks of a text given as its lines (without line ends), in order.

    Together they hold every line that is not blank, each once.

    >>> [(b.kind, b.first, b.last) for b in read_blocks(["# A", "", "uno", "dos", "", "- x", "- y"])]
    [('heading', 0, 1), ('paragraph', 2, 4), ('list', 5, 7)]
    """
    tokens = _parser().parse("\n".join(lines))
    blocks: list[Block] = []
    reached = 0
    for number, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        first, last = token.map[0], _without_blank_end(lines, token.map[0], token.map[1])
        blocks += _dropped_lines(lines, reached, first)
        blocks.append(_block(tokens, number, first, last, lines))
        reached = max(last, reached)
    return blocks + _dropped_lines(lines, reached, len(lines))


def is_mdx_statement(lines: Sequence[str], block: Block) -> bool:
    """Whether the block is `import` or `export` code of an MDX page: it says nothing to a reader."""
    return block.kind == "paragraph" and bool(_MDX_STATEMENT.match(lines[block.first]))


def plain_heading(raw: str) -> str:
    """A heading's text without the marks of emphasis, code and links.

    >>> plain_heading("El `<slot/>` de [una *plantilla*](/es/x/) {#ancla}")
    'El <slot/> de una plantilla'
    """
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", raw)).split())


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    # Inline marks do not matter here, and reading them costs more than the rest.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _block(tokens: list[Token], number: int, first: int, last: int, lines: Sequence[str]) -> Block:
    token = tokens[number]
    kind = _KINDS.get(token.type, "text")
    if kind == "heading":
        return Block(kind, first, last, int(token.tag[1]), plain_heading(tokens[number + 1].content))
    if kind == "list":
        return Block(kind, first, last, items=_items(tokens, number, lines))
    return Block(kind, first, last)


def _items(tokens: list[Token], number: int, lines: Sequence[str]) -> tuple[tuple[int, int], ...]:
    items = []
    for token in tokens[number + 1 :]:
        if token.level == 0:
            break
        if token.type == "list_item_open" and token.level == 1 and token.map is not None:
            items.append((token.map[0], _without_blank_end(lines, *token.map)))
    return tuple(items)


def _without_blank_end(lines: Sequence[str], first: int, last: int) -> int:
    last = min(last, len(lines))
    while last > first + 1 and not lines[last - 1].strip():
        last -= 1
    return last


def _dropped_lines(lines: Sequence[str], first: int, last: int) -> list[Block]:
    """Runs of lines between `first` and `last` that are not blank, as blocks of kind "text"."""
    blocks: list[Block] = []
    start: int | None = None
    for number in range(first, last + 1):
        blank = number == last or not lines[number].strip()
        if blank and start is not None:
            blocks.append(Block("text", start, number))
            start = None
        elif not blank and start is None:
            start = number
    return blocks
