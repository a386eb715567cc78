"""Cut a Markdown text into blocks: runs of whole lines that a sentence splitter may, or may not, open.

One forward pass, one line at a time, after the block algorithm of the CommonMark specification. Only the
structure is kept, never a tree: what a reader of the blocks needs is where each one begins and ends, and
whether it is running prose.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final, NamedTuple

from bib_orchestration.biblioteca.retrieval.markdown_syntax import (
    BLANK_LINE,
    CODE_INDENT,
    DEFINITION,
    FENCE_OPENING,
    FOOTNOTE,
    FRONT_MATTER_END,
    FRONT_MATTER_MARK,
    HEADING,
    ITEM,
    ITEM_MARKS,
    LEAF_MARKS,
    LINE_END,
    MODULE_LINE,
    RULE,
    SETEXT_UNDERLINE,
    SPECIAL_START,
    TABLE_DELIMITER,
    TABLE_ROW,
    TAG_LINE,
    after_quote_mark,
    closes_fence,
    html_block_end,
    indent_at,
)

__all__ = ["Block", "markdown_blocks"]

TAB_STOP: Final = 4

# Containers nested deeper than this are read as text. It bounds the work that a line of nothing but markers
# can cause, and whatever lies so deep is inside one unsplit block anyway.
MAX_DEPTH: Final = 32

# A container is either a quote or, for a list item, the number of columns that its content is indented by.
QUOTE: Final = 0

# The kinds of leaf that can be open when a line begins. Outside every container a fence or HTML is taken
# whole, so there they never are.
NONE: Final = "none"
PARAGRAPH: Final = "paragraph"
FENCE: Final = "fence"
HTML: Final = "html"
CODE: Final = "code"

# A line that begins otherwise, outside every container, is one of a paragraph: the usual line.
_STRUCTURE = frozenset(" \t>" + ITEM_MARKS + LEAF_MARKS)
_CONTAINER_MARKS = frozenset(">" + ITEM_MARKS)


class Block(NamedTuple):
    """Whole lines `text[start:end]` without the last line end; `prose` tells if it may be split further."""

    start: int
    end: int
    prose: bool


def markdown_blocks(text: str) -> list[Block]:
    """Return the blocks of `text` in order; the lines left out are blank ones (spaces and tabs only).

    Headings, fences, table rows, list items, quotes, HTML, code, definitions, front matter and module lines
    are blocks with `prose=False`; paragraphs outside any list or quote are `prose=True`. Never raises.

    >>> [tuple(block) for block in markdown_blocks("# A\\nb\\nc\\n- d")]
    [(0, 3, False), (4, 7, True), (8, 11, False)]
    """
    scanner = _Scanner(text)
    scanner.run()
    return scanner.blocks


def _lines(text: str) -> tuple[list[str], list[int]]:
    """Return the lines of `text` without their ends, and where each one starts."""
    if "\r" not in text:  # the usual text, in a quarter of the time
        lines = text.split("\n")
        return lines, [0, *accumulate(len(line) + 1 for line in lines[:-1])]
    lines_and_ends = LINE_END.split(text)
    return lines_and_ends[::2], [0, *accumulate(map(len, lines_and_ends[:-1]))][::2]


def _only_marks(line: str, marks: str) -> bool:
    bare = line.strip(" \t")
    return bare.startswith(marks) and not bare.strip(marks)


def _longest_marks_after(lines: list[str]) -> dict[str, list[int]]:
    """Return, by the mark of a fence, how many stand in the longest run that is alone in a line after each line.

    Looked up instead of looked for, so that a text full of fences that nothing closes takes linear time.
    """
    longest = {}
    for mark in "`~":
        runs = (len(line.strip(" \t")) if _only_marks(line, mark) else 0 for line in reversed(lines[1:]))
        longest[mark] = [*accumulate(runs, max, initial=0)][::-1]
    return longest


class _Scanner:
    """The state of the pass: the containers and the leaf left open by the lines read so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines, self.starts = _lines(text)
        self.index = 0
        self.blocks: list[Block] = []
        self.start, self.end, self.prose = 0, 0, False  # the last block, not among `blocks` yet
        self.growing = False  # whether it may still take lines
        self.containers: list[int] = []
        self.bare_item = False  # the innermost container is an item with nothing in it yet
        self.leaf = NONE
        self.fence_marks = ""
        self.html_end = BLANK_LINE
        self.longest_after: dict[str, list[int]] | None = None
        self.in_table = False

    def run(self) -> None:
        lines, containers = self.lines, self.containers
        self.index = self._skip_front_matter()
        while self.index < len(lines):
            line = lines[self.index]
            if not line.strip(" \t"):
                self._read_blank()
            elif line[0] not in _STRUCTURE and not containers:
                self._read_top_text(line)
            else:
                self._read_structured(line.expandtabs(TAB_STOP))
            self.index += 1
        self._put_away()

    def _skip_front_matter(self) -> int:
        if not FRONT_MATTER_MARK.match(self.lines[0]):
            return 0
        for index in range(1, len(self.lines)):
            if FRONT_MATTER_END.match(self.lines[index]):
                self.end = self._end_of(index)
                return index + 1
        return 0

    def _end_of(self, index: int) -> int:
        return self.starts[index] + len(self.lines[index])

    # -- one line ---------------------------------------------------------------------------------------

    def _read_blank(self) -> None:
        """A blank line ends quotes and paragraphs; items stay open, save one with nothing in it yet."""
        if not self.containers:
            if self.leaf != CODE:
                self._end_leaf()
            return
        if QUOTE in self.containers:
            self._close_from(self.containers.index(QUOTE))
        elif self.bare_item:
            self._close_from(len(self.containers) - 1)
        self._end_leaf_at_blank()

    def _end_leaf_at_blank(self) -> None:
        if self.leaf == PARAGRAPH or (self.leaf == HTML and self.html_end is BLANK_LINE):
            self._end_leaf()

    def _read_structured(self, line: str) -> None:
        matched, at = self._match_containers(line) if self.containers else (0, 0)
        if (
            self.leaf in (FENCE, HTML, CODE)
            and matched == len(self.containers)
            and self._continue_leaf(line, at)
        ):
            return
        fresh = self._leaves_item(matched)
        line_opens = False
        indent = indent_at(line, at)
        while found := self._container_at(line, at, indent, matched):
            container, at = found
            indent = indent_at(line, at)
            if not line_opens:
                fresh = self._opens_block(container, matched)
            line_opens = True
            self._close_from(matched)
            self.containers.append(container)
            matched += 1
            self.bare_item = container != QUOTE and at >= len(line)
        self._read_leaf(line, at, indent, matched, fresh)

    # -- containers -------------------------------------------------------------------------------------

    def _match_containers(self, line: str) -> tuple[int, int]:
        """Return how many open containers `line` continues, and the column where its content begins."""
        at = 0
        for depth, container in enumerate(self.containers):
            indent = indent_at(line, at)
            blank = at + indent >= len(line)
            if container == QUOTE:
                if indent >= CODE_INDENT or blank or line[at + indent] != ">":
                    return depth, at
                at = after_quote_mark(line, at + indent)
            elif blank:
                if self.bare_item and depth == len(self.containers) - 1:
                    return depth, at
            elif indent >= container:
                at += container
            else:
                return depth, at
        return len(self.containers), at

    def _container_at(self, line: str, at: int, indent: int, matched: int) -> tuple[int, int] | None:
        """Return the container that starts at column `at` and the column of its content."""
        mark = at + indent
        if indent >= CODE_INDENT or line[mark : mark + 1] not in _CONTAINER_MARKS or matched >= MAX_DEPTH:
            return None
        if line[mark] == ">":
            return QUOTE, after_quote_mark(line, mark)
        item = ITEM.match(line, mark)
        if item is None or (item[1] is None and RULE.match(line, mark)):
            return None
        interrupts = self._in_paragraph(matched)
        if interrupts and SETEXT_UNDERLINE.match(line, mark):
            return None
        spaces = indent_at(line, item.end())
        empty = item.end() + spaces >= len(line)
        if interrupts and (empty or (item[1] and int(item[1]) != 1)):
            return None
        padding = 1 if empty or spaces > CODE_INDENT else spaces
        return item.end() + padding - at, item.end() + padding

    def _leaves_item(self, matched: int) -> bool:
        """Tell if a line that continues `matched` containers is outside an item of the last block."""
        left = self.containers[matched : matched + 1]
        return matched == 0 or (left not in ([], [QUOTE]) and QUOTE not in self.containers[:matched])

    def _opens_block(self, container: int, matched: int) -> bool:
        """A quote is one block with all it holds; an item is one, and so is each item nested in it."""
        if container == QUOTE:
            return matched == 0 or self._leaves_item(matched)
        return QUOTE not in self.containers[:matched]

    def _close_from(self, depth: int) -> None:
        """Close the containers from `depth` on, and the leaf that was open in them."""
        del self.containers[depth:]
        self.bare_item = False
        self._end_leaf()

    # -- leaves -----------------------------------------------------------------------------------------

    def _continue_leaf(self, line: str, at: int) -> bool:
        """Take `line` into an open leaf whose lines are not looked into; tell if there was one."""
        if self.leaf == FENCE:
            self._take(fresh=False)
            if closes_fence(line, at, self.fence_marks):
                self._end_leaf()
            return True
        if self.leaf == CODE:
            indent = indent_at(line, at)
            if indent < CODE_INDENT and at + indent < len(line):
                return False
            self._take(fresh=False)
            return True
        if self.leaf == HTML and (line[at:].strip(" ") or self.html_end is not BLANK_LINE):
            # As in `_take_tags`, but closed or not: it ends where its container does.
            fence = FENCE_OPENING.match(line, at + indent_at(line, at))
            if fence and self.html_end is BLANK_LINE:
                self._start_leaf(FENCE, len(self.containers), fresh=True)
                self.fence_marks = fence[0]
                return True
            self._take(fresh=False)
            self._end_html(line, at)
            return True
        return False

    def _read_leaf(self, line: str, at: int, indent: int, matched: int, fresh: bool) -> None:
        mark = at + indent
        if mark >= len(line):
            self._read_bare_markers(matched, fresh)
        elif indent >= CODE_INDENT and (self.leaf != PARAGRAPH or self.in_table):
            self._start_leaf(CODE, matched, fresh)
        elif indent >= CODE_INDENT or line[mark] not in LEAF_MARKS:
            self._read_text(line, matched, fresh)
        elif self._is_setext(line, mark, matched):
            self._take_underline()
        elif HEADING.match(line, mark) or RULE.match(line, mark):
            self._start_leaf(NONE, matched, fresh)
            self.growing = bool(self.containers)
        elif fence := FENCE_OPENING.match(line, mark):
            self._start_leaf(FENCE, matched, fresh=True)
            self.fence_marks = fence[0]
            if not self.containers:
                self._take_rest_of_fence()
        elif (html_end := html_block_end(line, mark, self.leaf == PARAGRAPH)) is not None:
            self._start_leaf(HTML, matched, fresh)
            self.html_end = html_end
            self._end_html(line, mark)
            if self.leaf == HTML and not self.containers:
                self._take_rest_of_html()
        else:
            self._read_text(line, matched, fresh)

    def _take_rest_of_fence(self) -> None:
        """Take the lines of a fence outside every container, which are many and hold no structure."""
        index = self.index
        while (found := self.text.find(self.fence_marks, self._end_of(index))) >= 0:
            index = self._line_at(found)
            if closes_fence(self.lines[index].expandtabs(TAB_STOP), 0, self.fence_marks):
                break
        self._take_rest(index if found >= 0 else len(self.lines) - 1)

    def _take_rest_of_html(self) -> None:
        if self.html_end is BLANK_LINE:
            self._take_tags()
            return
        found = self.html_end.search(self.text, self._end_of(self.index))
        self._take_rest(self._line_at(found.start()) if found else len(self.lines) - 1)

    def _take_tags(self) -> None:
        """Take HTML up to a blank line, but not a fence in it, which is a block of its own as in MDX.

        To CommonMark its marks are text; but it would end the HTML at the first blank line of the code, and
        read the rest as prose. Nobody wants that cut. A fence that nothing closes is left to CommonMark.
        """
        while self.index + 1 < len(self.lines) and self.lines[self.index + 1].strip(" \t"):
            self.index += 1
            line = self.lines[self.index].expandtabs(TAB_STOP)
            fence = FENCE_OPENING.match(line, indent_at(line, 0))
            closing = self._closing_mark(fence[0]) if fence else None
            self._take(fresh=closing is not None)
            if closing is not None:
                self.index = closing
                self._take(fresh=False)
                self.growing = False
        self._end_leaf()

    def _closing_mark(self, marks: str) -> int | None:
        """Return the line after this one that closes a fence of `marks` at any indentation, if there is one."""
        if self.longest_after is None:
            self.longest_after = _longest_marks_after(self.lines)
        if self.longest_after[marks[0]][self.index] < len(marks):
            return None
        return next(
            index for index in range(self.index + 1, len(self.lines)) if _only_marks(self.lines[index], marks)
        )

    def _line_at(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def _take_rest(self, last: int) -> None:
        """Take all up to line `last`, save blank lines at the end, into the last block, and end the leaf."""
        self.index = last
        while not self.lines[last].strip(" \t"):
            last -= 1
        self.end = self._end_of(last)
        self._end_leaf()

    def _start_leaf(self, leaf: str, matched: int, fresh: bool) -> None:
        if matched < len(self.containers):
            self._close_from(matched)
        self.bare_item = False
        self._end_leaf()
        self.leaf = leaf
        self._take(fresh=fresh or not self.containers)

    def _end_leaf(self) -> None:
        # A fence is a block of its own even inside an item or quote; other leaves there share its block.
        if self.leaf == FENCE or not self.containers:
            self.growing = False
        self.leaf = NONE
        self.in_table = False

    def _end_html(self, line: str, at: int) -> None:
        if self.html_end is not BLANK_LINE and self.html_end.search(line, at):
            self._end_leaf()

    def _read_bare_markers(self, matched: int, fresh: bool) -> None:
        """A line such as `>` or `-`: a blank line to what is inside the containers."""
        if matched < len(self.containers):
            self._close_from(matched)
        self._end_leaf_at_blank()
        self.growing = True  # what marks the end of a fence in a quote stays with it
        self._take(fresh=fresh)

    def _is_setext(self, line: str, mark: int, matched: int) -> bool:
        return self._in_paragraph(matched) and SETEXT_UNDERLINE.match(line, mark) is not None

    def _in_paragraph(self, matched: int) -> bool:
        return self.leaf == PARAGRAPH and not self.in_table and matched == len(self.containers)

    def _take_underline(self) -> None:
        self._take(fresh=False)
        self.prose = False
        self._end_leaf()

    # -- paragraphs -------------------------------------------------------------------------------------

    def _read_text(self, line: str, matched: int, fresh: bool) -> None:
        if self.leaf == PARAGRAPH and self.containers:
            self._take(fresh=False)  # also the lazy line of a quote or item, which carries no marker
        elif matched:
            self._start_leaf(PARAGRAPH, matched, fresh)
        else:
            if self.containers:
                self._close_from(0)
            self._read_top_text(line)

    def _read_top_text(self, line: str) -> None:
        """A line of paragraph outside every container, where alone tables and definitions are told apart."""
        begins = self.leaf != PARAGRAPH
        if begins:
            self._end_leaf()
            self.leaf = PARAGRAPH
        if (self.in_table or "|" in line) and self._is_row(line):
            self._take(fresh=True)
            self.growing = False
        elif not SPECIAL_START.match(line):
            self._take(fresh=begins, prose=True)
        elif FOOTNOTE.match(line):
            self._take(fresh=True)
        elif begins and DEFINITION.match(line):
            self._take(fresh=True)
            self._end_leaf()
        else:
            atomic = begins and (MODULE_LINE.match(line) or TAG_LINE.match(line))
            self._take(fresh=begins, prose=not atomic)

    def _is_row(self, line: str) -> bool:
        if not self.in_table:
            following = self.lines[self.index + 1] if self.index + 1 < len(self.lines) else ""
            self.in_table = TABLE_DELIMITER.match(following) is not None
        return self.in_table or TABLE_ROW.match(line) is not None

    def _take(self, *, fresh: bool, prose: bool = False) -> None:
        """Add the current line to the last block, or begin a block with it."""
        start = self.starts[self.index]
        if fresh or not self.growing:
            self._put_away()
            self.start, self.prose = start, prose
        self.end = start + len(self.lines[self.index])
        self.growing = True

    def _put_away(self) -> None:
        """Add the last block, which no line will be added to any more, to the result."""
        if self.end > self.start:
            self.blocks.append(Block(self.start, self.end, self.prose))
