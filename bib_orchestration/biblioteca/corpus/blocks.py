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

MAX_TITLE = 300
# Of a longer heading only the start is read: enough for any title, and a bound on what reading it costs.
_MAX_HEADING = 4 * MAX_TITLE
# The patterns below take time in proportion to the heading: what one of them tries from a mark, it does not
# try again from the next. Only code marks may scan the rest once for each length of theirs.
_LITERAL = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])|(?<!`)(?P<marks>`++)(?P<code>.+?)(?<!`)(?P=marks)(?!`)|[\U000F0000-\U000FFFFF]"
)
_HELD = re.compile(r"[\U000F0000-\U000FFFFF]")
_FIRST_HELD = 0xF0000
_LINK = re.compile(
    r"!?\[([^\[\]]*+)\]\(\s*+(?:<[^<>]*+>|(?:[^()<>\s]++|\([^()\s]*+\))*+)"
    r"""(?:\s++(?:"[^"]*+"|'[^']*+'))?+\s*+\)"""
)
# An image may be a link's text.
_LINKED_IMAGE = 2
# {#name}, and { #name } as in attribute lists.
_ANCHOR = re.compile(r"\{\s*+#[^{}]*+\}$")
# Emphasis holds no other of its kind, so the inner goes first. An underscore inside a word is none.
_EMPHASIS = re.compile(
    r"(\*{1,3})(?=[^\s*])([^*]++)(?<=\S)\1"
    r"|(?<!\w)(_{1,3})(?=[^\s_])((?:[^_]|(?<=[^\W_])_++(?=[^\W_]))++)(?<=\S)\3(?!\w)"
)
_NESTED_MARKS = 3
_MDX_STATEMENT = re.compile(r"(?:import|export)\s")


@dataclass(frozen=True, slots=True)
class Block:
    """A block and the lines it takes.

    kind: what it is.
    first: its first line, 0-based.
    last: the line after its last one that is not blank.
    level: a heading's level, 1 to 6; 0 for anything else.
    title: a heading's text, see `plain_heading`; "" for anything else.
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
    r"""A heading's text in one line, as a reader sees it: without the marks of emphasis, code and links.

    Of links and images the text stays, of code its content as it is typed; a closing {#anchor} goes. It is
    cut at 300 characters.

    >>> plain_heading("El `<slot/>` de [una *plantilla*](/es/x/) {#ancla}")
    'El <slot/> de una plantilla'
    >>> plain_heading("**Nota**: `__init__`, snake_case y 2 * 3 \\*")
    'Nota: __init__, snake_case y 2 * 3 *'
    """
    held: list[str] = []

    # What stands for itself is put aside, so that nothing in it is taken for a mark.
    def hold(found: re.Match[str]) -> str:
        held.append(found["escaped"] or found["code"] or found[0])
        return chr(_FIRST_HELD + len(held) - 1)

    text = _LITERAL.sub(hold, raw[:_MAX_HEADING])
    for _ in range(_LINKED_IMAGE):
        text = _LINK.sub(r"\1", text)
    text = _ANCHOR.sub("", text.rstrip())
    for _ in range(_NESTED_MARKS):
        text = _EMPHASIS.sub(lambda found: found[2] or found[4], text)
    text = _HELD.sub(lambda found: held[ord(found[0]) - _FIRST_HELD], text)
    return " ".join(text.split())[:MAX_TITLE].rstrip()


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
