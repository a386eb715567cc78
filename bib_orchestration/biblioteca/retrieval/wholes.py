"""What of a chunk makes sense only together: a table, a list, a heading with what stands below it.

Spans (see `sentences`) are cut finer than that: a table's rows and a list's items are spans of their own, and
so is a heading. Here they are bound again, and spans that say nothing by themselves are told from those that
can answer a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bib_orchestration.biblioteca.retrieval.markdown_syntax import (
    DEFINITION,
    FENCE_OPENING,
    FRONT_MATTER_MARK,
    HEADING,
    ITEM,
    MODULE_LINE,
    RULE,
    SETEXT_UNDERLINE,
    TABLE_DELIMITER,
    TABLE_ROW,
)

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_TAGS_ALONE = re.compile(r"(?:</?[A-Za-z][^<>]*+>\s*+|<>\s*+|</>\s*+|<!--(?:[^-]|-(?!->))*+-->\s*+)++\Z")
# What belongs to a list item is indented by this much at the least.
_ITEM_INDENT = 2


@dataclass(frozen=True, slots=True)
class Wholes:
    """How the spans of a chunk hang together; all by the number of a span.

    speaks: whether it can answer anything: a heading, a bare tag, a rule or an import cannot.
    is_heading: whether it is a heading.
    whole: the numbers of the table, list or announcement (a sentence that ends in a colon, and the block that it
        announces) that it is in; itself alone if it is in none.
    """

    speaks: tuple[bool, ...]
    is_heading: tuple[bool, ...]
    whole: tuple[range, ...]

    def completed(self, kept: Iterable[int]) -> list[int]:
        """`kept`, in order, with all that it must not be torn from, and without what must not stand alone.

        A table or list stays whole. A heading stays when something of its section does, and only then; a bare
        tag, a rule or an import only between neighbours that stay. Where nothing is cut that speaks, nothing is.
        """
        wanted = set(kept)
        stays = {other for number in wanted for other in self.whole[number]}
        spoken = {number for number in stays if self.speaks[number]}
        if not spoken:
            # Nothing that speaks was wanted: what is nearest below, or else above, is what they stand for.
            spoken = {other for number in sorted(wanted)[:1] for other in self._nearest(number)}
        if not spoken:
            return sorted(wanted)
        if len(spoken) == sum(self.speaks):
            return list(range(len(self.speaks)))
        return sorted(spoken | self._headings_of(spoken) | self._between(spoken))

    def _nearest(self, number: int) -> range | tuple[()]:
        below = (other for other in range(number, len(self.speaks)) if self.speaks[other])
        above = (other for other in range(number, -1, -1) if self.speaks[other])
        found = next(below, next(above, None))
        return () if found is None else self.whole[found]

    def _headings_of(self, spoken: set[int]) -> set[int]:
        """The headings of sections of which something stays, each with those right above it."""
        found: set[int] = set()
        is_alive = False
        for number in reversed(range(len(self.speaks))):
            if self.is_heading[number]:
                if is_alive:
                    found.add(number)
                is_alive = is_alive and number > 0 and self.is_heading[number - 1]
            else:
                is_alive = is_alive or number in spoken
        return found

    def _between(self, spoken: set[int]) -> set[int]:
        """Mute spans between two that stay: a gap mark in their place would say less."""
        between: set[int] = set()
        run: list[int] = []
        follows_one_that_stays = False
        for number in range(len(self.speaks)):
            if not self.speaks[number] and not self.is_heading[number]:
                run.append(number)
                continue
            stays = number in spoken
            if stays and follows_one_that_stays:
                between.update(run)
            run = []
            follows_one_that_stays = stays
        return between


def wholes_of(text: str, spans: Sequence[tuple[int, int]]) -> Wholes:
    """How the spans of a chunk's text hang together.

    >>> text = "## Horas\\n\\nDe 9 a 5:\\n\\n- lunes\\n- martes"
    >>> wholes = wholes_of(text, [(0, 8), (10, 19), (21, 28), (29, 37)])
    >>> wholes.speaks, wholes.completed([2])
    ((False, True, True, True), [0, 1, 2, 3])
    """
    units = [text[start:end] for start, end in spans]
    headings = [_is_heading(unit) for unit in units]
    whole = [range(number, number + 1) for number in range(len(units))]
    number = 0
    while number < len(units):
        end = max(_table_end(text, spans, units, number), _list_end(text, spans, units, number))
        first = number
        announces = number > 0 and not headings[number - 1] and units[number - 1].rstrip("*_ ").endswith(":")
        if announces and _is_block(units, number, end):
            first = whole[number - 1].start
        for member in range(first, end):
            whole[member] = range(first, end)
        number = end
    return Wholes(
        tuple(
            not (heading or _is_mute(unit)) or len(whole[number]) > 1
            for number, (unit, heading) in enumerate(zip(units, headings, strict=True))
        ),
        tuple(headings),
        tuple(whole),
    )


def _is_heading(unit: str) -> bool:
    if HEADING.match(unit):
        return True
    lines = _LINE_BREAK.split(unit)
    underlined = len(lines) > 1 and SETEXT_UNDERLINE.match(lines[-1].strip())
    # A rule at the end of a list, of code that is not closed, or of front matter underlines nothing.
    return bool(underlined) and not any(
        pattern.match(lines[0]) for pattern in (ITEM, FENCE_OPENING, FRONT_MATTER_MARK)
    )


def _is_mute(unit: str) -> bool:
    """Tell if there is nothing in it that could answer a question: a bare tag, a rule, an import, a target."""
    return bool(
        _TAGS_ALONE.match(unit) or RULE.match(unit) or MODULE_LINE.match(unit) or DEFINITION.match(unit)
    )


def _is_block(units: Sequence[str], number: int, end: int) -> bool:
    """Tell if what begins at `number` is a table, a list or code: what a colon announces."""
    return end - number > 1 or bool(
        FENCE_OPENING.match(_LINE_BREAK.split(units[number])[0]) or ITEM.match(units[number])
    )


def _table_end(text: str, spans: Sequence[tuple[int, int]], units: Sequence[str], first: int) -> int:
    """Where the table that begins at `first` ends; `first + 1` when none does."""
    begins = TABLE_ROW.match(units[first]) or (
        first + 1 < len(units)
        and _on_next_line(text, spans, first + 1)
        and "|" in units[first]
        and TABLE_DELIMITER.match(units[first + 1])
    )
    end = first + 1
    if begins:
        while end < len(units) and _on_next_line(text, spans, end) and "|" in units[end]:
            end += 1
    return end


def _list_end(text: str, spans: Sequence[tuple[int, int]], units: Sequence[str], first: int) -> int:
    """Where the list that begins at `first` ends; `first + 1` when none does."""
    end = first + 1
    if ITEM.match(units[first]) and not RULE.match(units[first]):
        while end < len(units) and (
            (ITEM.match(units[end]) and not RULE.match(units[end]))
            or _indent(text, spans[end][0]) >= _ITEM_INDENT
        ):
            end += 1
    return end


def _on_next_line(text: str, spans: Sequence[tuple[int, int]], number: int) -> bool:
    """Tell if a span begins on the line after that on which the one before it ends."""
    between = text[spans[number - 1][1] : spans[number][0]]
    return len(_LINE_BREAK.findall(between)) == 1


def _indent(text: str, start: int) -> int:
    """By how many columns the line of a span that begins at `start` is indented; 0 within a line."""
    begin = start
    while begin > 0 and text[begin - 1] in " \t":
        begin -= 1
    at_line_start = begin == 0 or text[begin - 1] in "\r\n"
    return len(text[begin:start].expandtabs(4)) if at_line_start else 0
