"""The blocks of a Markdown text: what stands together, by line.

markdown-it-py reads the structure (it is the CommonMark reference in Python); only its line numbers are
used, because it rewrites line ends and NULs. Lines that it drops from its tokens (link reference
definitions) come back as blocks of kind "text", so that no line of the document is lost.

What does not belong here: where a section ends, and how large a chunk may be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

BlockKind = Literal["heading", "paragraph", "fence", "table", "list", "item", "quote", "html", "rule", "text"]

_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "text",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "blockquote_open": "quote",
    "html_block": "html",
    "hr": "rule",
}
_CONTAINERS = frozenset({"bullet_list", "ordered_list", "list_item", "blockquote"})

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
_TAG_LINE = re.compile(r"\s*+(?:</?(?:[A-Za-z][^<>]*+)?>\s*+)++")
# Rules, comments, tags without attributes, and the marks of fences with nothing between them.
_SAYS_NOTHING = re.compile(
    r"(?:[\s\0\ufeff]|[-*_>]|<!--.*?-->|\{/\*.*?\*/\}|</?[A-Za-z][\w.:-]*+\s*+/?>|</?>|`{3}|~{3})*+",
    re.DOTALL,
)
# In a quote, an empty line still has its marks.
_BLANK_LINE = re.compile(r"[\s>]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A block and the lines it takes.

    kind: what it is.
    first: its first line, 0-based.
    last: the line after its last one that is not blank.
    level: a heading's level, 1 to 6; 0 for anything else.
    title: a heading's text, see `plain_heading`; "" for anything else.
    mark: a fence's, such as three backticks; "" for anything else.
    parts: the items of a list; the blocks of an item or a quote.
    """

    kind: BlockKind
    first: int
    last: int
    level: int = 0
    title: str = ""
    mark: str = ""
    parts: tuple[Block, ...] = ()


def read_blocks(lines: Sequence[str], *, mdx: bool = False) -> list[Block]:
    """The top-level blocks of a text given as its lines (without line ends), in order.

    Together they hold every line that is not blank, each once. With `mdx`, tags and indentation hide no
    Markdown: a fence between two tags is a fence.

    >>> [(b.kind, b.first, b.last) for b in read_blocks(["# A", "", "uno", "dos", "", "- x", "- y"])]
    [('heading', 0, 1), ('paragraph', 2, 4), ('list', 5, 7)]
    """
    # A line of tags is blank to the parser, or what follows it would be a part of its paragraph.
    read = ["" if mdx and _TAG_LINE.fullmatch(line) else line for line in lines]
    tokens = _parser(mdx).parse("\n".join(read))
    open_containers = [_Container("text", 0, len(lines))]
    for number, token in enumerate(tokens):
        if token.type.removesuffix("_close") in _CONTAINERS:
            inner = open_containers.pop()
            open_containers[-1].add(lines, inner.block(lines))
        elif token.level == len(open_containers) - 1 and token.map is not None:
            first, last = token.map[0], _without_blank_end(lines, *token.map)
            kind = _KINDS.get(token.type, "text")
            if token.type.removesuffix("_open") in _CONTAINERS:
                open_containers.append(_Container(kind, first, last))
            elif kind == "heading":
                title = plain_heading(tokens[number + 1].content)
                open_containers[-1].add(lines, Block(kind, first, last, int(token.tag[1]), title))
            else:
                mark = token.markup if kind == "fence" else ""
                open_containers[-1].add(lines, Block(kind, first, last, mark=mark))
    return list(open_containers[0].block(lines).parts)


def is_mdx_statement(lines: Sequence[str], block: Block) -> bool:
    """Whether the block is `import` or `export` code of an MDX page: it says nothing to a reader."""
    return block.kind == "paragraph" and bool(_MDX_STATEMENT.match(lines[block.first]))


def says_nothing(text: str) -> bool:
    """Whether no reader would miss the text: rules, comments, tags without attributes, white space, NULs.

    >>> [says_nothing(text) for text in ("---", "</Steps>\\n</Box>", "<!-- x -->", "```\\n```", "- x", "{}")]
    [True, True, True, True, False, False]
    """
    return _SAYS_NOTHING.fullmatch(text) is not None


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
def _parser(mdx: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    if mdx:
        parser.disable(["html_block", "code"])
    # Inline marks do not matter here, and reading them costs more than the rest.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@dataclass(slots=True)
class _Container:
    """A block that is still being read, or the whole text.

    reached: the line after the last one that is in `parts`.
    """

    kind: BlockKind
    first: int
    last: int
    parts: list[Block] = field(default_factory=list)
    reached: int = field(init=False)

    def __post_init__(self) -> None:
        self.reached = self.first

    def add(self, lines: Sequence[str], part: Block) -> None:
        self.parts += _dropped_lines(lines, self.reached, part.first)
        self.parts.append(part)
        self.reached = max(part.last, self.reached)

    def block(self, lines: Sequence[str]) -> Block:
        rest = _dropped_lines(lines, self.reached, self.last)
        return Block(self.kind, self.first, self.last, parts=(*self.parts, *rest))


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
        blank = number == last or _BLANK_LINE.fullmatch(lines[number]) is not None
        if blank and start is not None:
            blocks.append(Block("text", start, number))
            start = None
        elif not blank and start is None:
            start = number
    return blocks
