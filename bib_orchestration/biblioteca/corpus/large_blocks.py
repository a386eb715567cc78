"""A block that is too big for one chunk, cut where it hurts least.

A list is cut between its items, an item or a quote between its blocks, a table between its rows and code
between its lines (at blank ones, where that will do), with the table's header and the code's fences put back
around each part; running text by semantic-text-splitter. What fits is never torn: only a single paragraph,
row or line that is itself too big is cut like running text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from bib_orchestration.biblioteca.corpus.blocks import Block
from bib_orchestration.biblioteca.corpus.normal_text import NormalText, joins_previous
from bib_orchestration.biblioteca.corpus.packing import Piece, joined, runs

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

# semantic-text-splitter's time grows with the square of a text that has no sentence ends, so it is given
# windows of this many characters.
_WINDOW = 16_000
# What stands before a fence in a list or a quote, without the marks of the items.
_NOT_MARGIN = re.compile(r"[^\s>]")
# An opening longer than this share of a chunk is not repeated: little else would fit beside it.
_OPENING_SHARE = 3


def pieces_of(source: NormalText, block: Block, max_chars: int, min_chars: int) -> list[Piece]:
    """The block as one piece if it fits into `max_chars`, and else cut into several that do."""
    whole = _lines(source, block.first, block.last)
    if whole.size <= max_chars:
        return [whole]
    if block.kind == "table":
        return _cut_by_lines(source, block, block.first + 2, max_chars, min_chars)
    if block.kind == "fence":
        return _cut_by_lines(source, block, block.first + 1, max_chars, min_chars)
    if block.parts:
        return [piece for part in block.parts for piece in pieces_of(source, part, max_chars, min_chars)]
    return _fitting(source, whole, max_chars)


def _cut_by_lines(
    source: NormalText, block: Block, content: int, max_chars: int, min_chars: int
) -> list[Piece]:
    """A table or fence whose content starts at line `content`, cut between lines.

    Its opening is put back before each part that does not begin with it, its closing behind each but the last.
    """
    head = _lines(source, block.first, content)
    opening = source.text[head.start : head.end] + "\n"
    closing = _closing(block, source.lines[block.first])
    repeats = len(opening) + len(closing) <= max_chars // _OPENING_SHARE
    if not repeats:
        opening = closing = ""
    room = max_chars - len(opening) - len(closing)
    spans = _line_groups(source, content if repeats else block.first, block.last, room)
    if repeats:
        # The opening makes no part alone.
        first = spans and joined(head, spans[0], max_chars - len(closing))
        spans = [first, *spans[1:]] if first else [head, *spans]
    parts = [
        (spans[first].start, spans[after - 1].end)
        for first, after in runs(source.text, spans, room, min_chars)
    ]
    return [
        Piece(
            start,
            end,
            opening=opening if start != head.start else "",
            closing=closing if end != parts[-1][1] else "",
            alone=True,
        )
        for start, end in parts
    ]


def _closing(block: Block, line: str) -> str:
    """The end of a fence, as far in as its first line is; "" for a table."""
    if not block.mark:
        return ""
    return "\n" + _NOT_MARGIN.sub(" ", line[: line.find(block.mark)]) + block.mark


def _line_groups(source: NormalText, first: int, last: int, room: int) -> list[Piece]:
    """The lines between blank ones as pieces, and the lines one by one where those do not fit into `room`."""
    groups: list[Piece] = []
    for kept, numbers in groupby(range(first, last), key=lambda number: bool(source.lines[number].strip())):
        if not kept:
            continue
        lines = list(numbers)
        group = _lines(source, lines[0], lines[-1] + 1)
        if group.size <= room:
            groups.append(group)
        else:
            for number in lines:
                groups += _fitting(source, _lines(source, number, number + 1), room)
    return groups


def _lines(source: NormalText, first: int, last: int) -> Piece:
    return Piece(source.line_start(first), source.line_end(last - 1))


def _fitting(source: NormalText, piece: Piece, max_chars: int) -> list[Piece]:
    """The piece itself if it fits, and else cut like running text. White space at a cut is left out."""
    if piece.size <= max_chars:
        return [piece]
    splitter = _splitter(max_chars)
    cut = []
    for start, end in _windows(source.text, piece.start, piece.end):
        for offset, part in splitter.chunk_indices(source.text[start:end]):
            lead = len(part) - len(part.lstrip())
            if stripped := part.strip():
                cut.append(Piece(start + offset + lead, start + offset + lead + len(stripped)))
    return cut


def _windows(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _WINDOW:
        space = text.rfind(" ", start + _WINDOW // 2, start + _WINDOW)
        stop = space + 1 if space > 0 else start + _WINDOW
        while stop > start + _WINDOW // 2 and joins_previous(text[stop]):
            stop -= 1
        yield start, stop
        start = stop
    yield start, end


@lru_cache(maxsize=8)
def _splitter(max_chars: int) -> TextSplitter:
    from semantic_text_splitter import TextSplitter

    return TextSplitter(max_chars, trim=False)
