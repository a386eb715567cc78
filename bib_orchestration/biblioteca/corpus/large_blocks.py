"""A block that is too big for one chunk, cut where it hurts least.

A list is cut between its items, a table between its rows and code between its lines, with the table's
header and the code's fences put back around each part; running text by semantic-text-splitter. What fits
is never torn: only a single item, row or line that is itself too big is cut like running text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bib_orchestration.biblioteca.corpus.blocks import Block
from bib_orchestration.biblioteca.corpus.normal_text import NormalText

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

# semantic-text-splitter's time grows with the square of a text that has no sentence ends, so it is given
# windows of this many characters.
_WINDOW = 16_000
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
# An opening longer than this share of a chunk is not repeated: little else would fit beside it.
_OPENING_SHARE = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of the normal text that packing keeps whole.

    start, end: its offsets.
    opening, closing: lines to put back before and behind it: a table's header, a fence.
    alone: makes a chunk by itself, because of what is put back.
    """

    start: int
    end: int
    opening: str = ""
    closing: str = ""
    alone: bool = False

    @property
    def size(self) -> int:
        """Characters, with what is put back."""
        return self.end - self.start + len(self.opening) + len(self.closing)


def pieces_of(source: NormalText, block: Block, max_chars: int) -> list[Piece]:
    """The block as one piece if it fits into `max_chars`, and else cut into several that do."""
    whole = _lines(source, block.first, block.last)
    if whole.size <= max_chars:
        return [whole]
    if block.kind == "list":
        return [
            piece
            for first, last in block.items
            for piece in _fitting(source, _lines(source, first, last), max_chars)
        ]
    if block.kind == "table":
        return _cut_by_lines(source, block, block.first + 2, block.last, max_chars)
    if block.kind == "fence":
        return _cut_by_lines(source, block, block.first + 1, block.last, max_chars)
    return _fitting(source, whole, max_chars)


def _cut_by_lines(source: NormalText, block: Block, body: int, last: int, max_chars: int) -> list[Piece]:
    """A table or fence whose content starts at line `body`, cut between lines, opening and closing put back."""
    opening, closing = _surroundings(source, block, body)
    if len(opening) + len(closing) > max_chars // _OPENING_SHARE:
        opening = closing = ""
    room = max_chars - len(opening) - len(closing)
    spans = [
        piece
        for number in range(block.first, last)
        for piece in _fitting(source, _lines(source, number, number + 1), room)
    ]
    parts = _packed(spans, room)
    return [
        Piece(
            part.start,
            part.end,
            opening=opening if number else "",
            closing=closing if number < len(parts) - 1 else "",
            alone=True,
        )
        for number, part in enumerate(parts)
    ]


def _surroundings(source: NormalText, block: Block, body: int) -> tuple[str, str]:
    opening = "\n".join(source.lines[block.first : body]) + "\n"
    fence = _FENCE.match(source.lines[block.first]) if block.kind == "fence" else None
    return opening, f"\n{fence[1]}" if fence else ""


def _packed(spans: list[Piece], room: int) -> list[Piece]:
    parts: list[Piece] = []
    for span in spans:
        if parts and span.end - parts[-1].start <= room:
            parts[-1] = Piece(parts[-1].start, span.end)
        else:
            parts.append(span)
    return parts


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
        yield start, stop
        start = stop
    yield start, end


@lru_cache(maxsize=8)
def _splitter(max_chars: int) -> TextSplitter:
    from semantic_text_splitter import TextSplitter

    return TextSplitter(max_chars, trim=False)
