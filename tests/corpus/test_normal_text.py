"""What normal_text.py promises: one form for equal texts, and the way back to each, exact and in linear time."""

from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus.normal_text import NormalText, joins_previous, normal

# Letters that NFC composes, moves, parts or replaces, of several scripts, and line ends of all kinds.
ODD = st.text(
    alphabet="ae\u0301\u0316\u0327\u00e9 \u1112\u1161\u11ab\ud55c\u09c7\u09be\u0bc6\u0bbe\u1025\u102e"
    "\U00011131\U00011127\u304b\u3099\u0958\u2126\u212b\u1fef\0\u2028\x85\x0b\n\r"
)


@given(ODD)
def test_text_and_lines(raw: str) -> None:
    source = NormalText(raw)
    assert source.text == normal(raw) == "\n".join(source.lines)
    assert normal(raw.replace("\r\n", "\n").replace("\n", "\r")) == normal(raw)
    assert normal(unicodedata.normalize("NFD", raw)) == normal(raw)
    for number, line in enumerate(source.lines):
        assert source.text[source.line_start(number) : source.line_end(number)] == line


@given(ODD, ODD)
def test_the_way_back(before: str, raw: str) -> None:
    begin = len(before)
    # A CRLF is one line end.
    if before.endswith("\r") and raw.startswith("\n"):
        raw = raw[1:]
    source = NormalText(before + raw, begin)
    offsets = [source.to_raw(offset) for offset in range(len(source.text) + 1)]
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (begin, len(before + raw))
    cuts = [
        offset
        for offset in range(len(source.text) + 1)
        if offset == len(source.text) or not joins_previous(source.text[offset])
    ]
    # What a normal character that stands by itself was written as: U+0958 is written as one and read as two.
    for start, end in pairwise(cuts):
        assert normal((before + raw)[offsets[start] : offsets[end]]) == source.text[start:end]
    for offset in range(len(source.text)):
        line_ends = normal((before + raw)[: offsets[offset]]).count("\n")
        assert source.line_number(offset) == line_ends + 1


def test_every_character_that_composes_with_the_one_before_is_known() -> None:
    # The other way round from the code: whatever NFC shortens must be a cluster.
    for code in range(0x300, 0x20000):
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1 and unicodedata.normalize("NFC", parts) == chr(code):
            assert all(map(joins_previous, parts[1:])), hex(code)
    assert not any(joins_previous(chr(code)) for code in (*range(0x300), *range(0x20000, 0xE0000, 7)))


@pytest.mark.parametrize("unit", ["e\u0301a ", "\u0301", "\u1112\u1161\u11ab", "\u09c7\u09be", "\u0958"])
def test_many_offsets_of_one_long_line(unit: str) -> None:
    source = NormalText(unit * (400_000 // len(unit)))
    started = time.process_time()
    for offset in range(0, len(source.text), 200):
        source.to_raw(offset)
    # Walking the line anew for each takes minutes.
    assert time.process_time() - started < 5
