"""The one form in which two texts are compared: NFC, line ends as LF, and how to find one's way back.

A file saved with other line ends, or with accents written as two characters, must not cost an embedding.
So chunks are cut in the normal text, and their offsets are carried back to the text as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate

# CommonMark's line ends. str.splitlines() knows more, and would cut inside a line.
LINE_END = re.compile(r"\r\n|\n|\r")
# Hangul vowels and finals. Python composes them by rule: no character's decomposition names them.
_JAMO = range(0x1160, 0x1200)
# Below are Latin letters, above are ideographs and tags.
_MAY_JOIN = range(0x300, 0x20000)


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
        self._clusters: dict[int, _Clusters | None] = {}

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
        if index not in self._clusters:
            written = self.raw[start:end]
            self._clusters[index] = None if written == self.lines[index] else _Clusters(written)
        within = offset - self._starts[index]
        clusters = self._clusters[index]
        return start + (within if clusters is None else clusters.to_raw(within))


class _Clusters:
    """Where each character of a line begins, as written and in NFC, with the marks that compose with it."""

    def __init__(self, raw: str) -> None:
        self._raw = array("L", [0])
        self._normal = array("L", [0])
        for cluster in _cluster_pattern().findall(raw):
            self._raw.append(self._raw[-1] + len(cluster))
            self._normal.append(self._normal[-1] + len(unicodedata.normalize("NFC", cluster)))

    def to_raw(self, offset: int) -> int:
        number = bisect_left(self._normal, offset)
        # Inside a cluster there is no true answer; counted from its end, a run of the same mark comes out right.
        return max(self._raw[number] - (self._normal[number] - offset), self._raw[max(number - 1, 0)])


def joins_previous(character: str) -> bool:
    """Whether NFC may compose the character with what stands before it, or move it."""
    return unicodedata.combining(character) != 0 or character in _composing()


@cache
def _cluster_pattern() -> re.Pattern[str]:
    """A character and those that join it."""
    joining = "".join(filter(joins_previous, map(chr, _MAY_JOIN)))
    return re.compile(f"(?s:.)[{joining}]*+")


@cache
def _composing() -> frozenset[str]:
    """What composes with the character before it although it is no combining mark, such as Hangul vowels."""
    decomposed = (unicodedata.decomposition(chr(code)) for code in range(_MAY_JOIN.stop))
    seconds = {chr(int(parts.split()[1], 16)) for parts in decomposed if " " in parts and parts[0] != "<"}
    return frozenset(map(chr, _JAMO)) | {second for second in seconds if not unicodedata.combining(second)}
