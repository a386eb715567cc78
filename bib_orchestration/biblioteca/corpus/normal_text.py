"""The one form in which two texts are compared: NFC, line ends as LF, and how to find one's way back.

A file saved with other line ends, or with accents written as two characters, must not cost an embedding.
So chunks are cut in the normal text, and their offsets are carried back to the text as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

# CommonMark's line ends. str.splitlines() knows more, and would cut inside a line.
LINE_END = re.compile(r"\r\n|\n|\r")
# Hangul vowels and finals compose with what stands before them although they are no combining marks.
_JAMO = range(0x1160, 0x1200)


def normal(text: str) -> str:
    r"""`text` in NFC with LF line ends.

    >>> normal("cafe\u0301\r\n") == "café\n"
    True
    """
    return unicodedata.normalize("NFC", LINE_END.sub("\n", text))


class NormalText:
    """The normal form of `raw[begin:]`, and the way from offsets in it to offsets in `raw`.

    lines: the lines of the normal form, without their ends.
    text: the lines joined by LF.
    """

    def __init__(self, raw: str, begin: int = 0) -> None:
        ends = [match.span() for match in LINE_END.finditer(raw, begin)]
        self.raw = raw
        self._lines_before = sum(1 for _ in LINE_END.finditer(raw, 0, begin))
        self._raw_spans = list(
            zip([begin, *(end for _, end in ends)], [*(start for start, _ in ends), len(raw)], strict=True)
        )
        self.lines = [unicodedata.normalize("NFC", raw[start:end]) for start, end in self._raw_spans]
        self.text = "\n".join(self.lines)
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines[:-1])]

    def line_start(self, index: int) -> int:
        """Where `lines[index]` starts in the normal text."""
        return self._starts[index]

    def line_end(self, index: int) -> int:
        """Where `lines[index]` ends in the normal text."""
        return self._starts[index] + len(self.lines[index])

    def line_number(self, offset: int) -> int:
        """The line of `raw` (1-based) that holds `offset` of the normal text."""
        return self._lines_before + bisect_right(self._starts, offset)

    def to_raw(self, offset: int) -> int:
        """The offset in `raw` that corresponds to `offset` in the normal text."""
        index = bisect_right(self._starts, offset) - 1
        start, end = self._raw_spans[index]
        return start + _raw_offset(self.raw[start:end], self.lines[index], offset - self._starts[index])


def _raw_offset(raw: str, line: str, offset: int) -> int:
    if raw == line or offset == 0:
        return offset
    if offset == len(line):
        return len(raw)
    reached = start = 0
    for position in range(1, len(raw)):
        if _composes(raw[position]):
            continue
        reached += len(unicodedata.normalize("NFC", raw[start:position]))
        if reached >= offset:
            return position
        start = position
    return len(raw)


def _composes(character: str) -> bool:
    return unicodedata.combining(character) != 0 or ord(character) in _JAMO
