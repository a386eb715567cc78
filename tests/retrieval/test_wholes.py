"""What wholes.py promises: tables and lists stay whole, and nothing stays alone that says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.retrieval.sentences import split_sentences, split_spans
from bib_orchestration.biblioteca.retrieval.wholes import wholes_of


def completed(text: str, *wanted: str) -> list[str]:
    """The units of `text` that stay when those of `wanted` do."""
    units = split_sentences(text)
    kept = wholes_of(text, split_spans(text)).completed([units.index(unit) for unit in wanted])
    return [units[number] for number in kept]


TABLE = ["| a | b |", "|---|---|", "| 1 | 2 |", "| 3 | 4 |"]
LIST = ["- uno", "- dos", "  1. nieto", "- tres"]


class TestTables:
    @pytest.mark.parametrize("row", TABLE)
    def test_stay_whole(self, row: str) -> None:
        text = "\n".join(["Antes. Más.", "", *TABLE, "", "Después."])
        assert completed(text, row) == TABLE

    def test_without_bars_at_their_sides(self) -> None:
        text = "a | b\n---|---\n1 | 2\n\nDespués."
        assert completed(text, "1 | 2") == ["a | b", "---|---", "1 | 2"]

    def test_two_are_two(self) -> None:
        text = "\n".join([*TABLE, "", "| c |", "|---|", "| 5 |"])
        assert completed(text, "| 5 |") == ["| c |", "|---|", "| 5 |"]


class TestLists:
    @pytest.mark.parametrize("item", LIST)
    def test_stay_whole(self, item: str) -> None:
        text = "\n".join(["Antes. Más.", "", *LIST, "", "Después."])
        assert completed(text, item.strip()) == [each.strip() for each in LIST]

    def test_with_blank_lines_between_and_code_inside(self) -> None:
        text = "1. Uno:\n\n   ```sh\n   ls\n   ```\n\n2. Dos\n\nFin."
        assert completed(text, "2. Dos") == split_sentences(text)[:-1]

    def test_text_that_follows_is_none_of_it(self) -> None:
        assert completed("- uno\n- dos\n\nFin.", "Fin.") == ["Fin."]


class TestAnnouncements:
    @pytest.mark.parametrize("block", ["- uno\n- dos", "```\nls\n```", "\n".join(TABLE), "- uno"])
    def test_a_colon_and_what_it_announces_go_together(self, block: str) -> None:
        text = f"Antes. Haz esto:\n\n{block}\n\nFin."
        of_it = ["Haz esto:", *split_sentences(block)]
        assert completed(text, "Haz esto:") == of_it
        assert completed(text, of_it[-1]) == of_it

    def test_a_colon_before_prose_announces_nothing(self) -> None:
        assert completed("Ojo:\n\nEsto. Y más.", "Ojo:") == ["Ojo:"]

    def test_without_a_colon(self) -> None:
        assert completed("Haz esto.\n\n- uno", "- uno") == ["- uno"]


class TestHeadings:
    TEXT = "Intro.\n\n## A\n\nUno. Dos.\n\n## B\n\nTres."

    def test_stay_when_something_of_their_section_does(self) -> None:
        assert completed(self.TEXT, "Dos.") == ["## A", "Dos."]
        assert completed(self.TEXT, "Intro.", "Tres.") == ["Intro.", "## B", "Tres."]

    def test_never_stay_alone(self) -> None:
        assert completed(self.TEXT, "Intro.", "## A") == ["Intro."]

    def test_one_that_is_all_that_was_wanted_stands_for_what_is_below_it(self) -> None:
        assert completed(self.TEXT, "## B") == ["## B", "Tres."]

    def test_one_above_another(self) -> None:
        assert completed("# A\n\n## B\n\nUno.", "Uno.") == ["# A", "## B", "Uno."]

    def test_underlined_ones_are_headings(self) -> None:
        assert completed("Turno\n=====\n\nUno. Dos.", "Dos.") == ["Turno\n=====", "Dos."]

    def test_at_the_end_of_a_chunk_they_go(self) -> None:
        assert completed("Uno. Dos.\n\n## A", "Dos.") == ["Dos."]

    def test_nothing_goes_where_nothing_that_speaks_does(self) -> None:
        assert completed("<div>\n\nUno.\n\n## A", "Uno.") == ["<div>", "Uno.", "## A"]

    def test_alone_in_a_chunk_they_stay(self) -> None:
        assert completed("## A", "## A") == ["## A"]


class TestMuteSpans:
    @pytest.mark.parametrize(
        "mute", ["<Nota>", "</div>", "<!-- a -->", "<>", "---", "import A from 'a'", "[a]: https://a.es"]
    )
    def test_stay_only_between_what_stays(self, mute: str) -> None:
        text = f"Uno.\n\n{mute}\n\nDos. Tres."
        assert completed(text, "Uno.", "Dos.") == ["Uno.", mute, "Dos."]
        assert completed(text, "Uno.", "Tres.") == ["Uno.", "Tres."]
        assert completed(text, "Uno.", mute) == ["Uno."]
        assert completed(mute, mute) == [mute]

    @pytest.mark.parametrize("unit", ["<b>Sí.</b>", "![foto](a.png)", "`ls`", "- <br>"])
    def test_what_has_words_speaks(self, unit: str) -> None:
        assert wholes_of(unit, split_spans(unit)).speaks == (True,)


UNITS = st.lists(
    st.sampled_from(
        [
            "Uno. Dos.",
            "Haz:",
            "## A",
            "A\n===",
            "<b>",
            "---",
            "- a\n- b",
            "\n".join(TABLE),
            "```\nls\n```",
            "> c",
        ]
    ),
    max_size=7,
).map("\n\n".join)


@given(text=UNITS, data=st.data())
def test_what_is_completed_needs_nothing_more(text: str, data: st.DataObject) -> None:
    spans = split_spans(text)
    wholes = wholes_of(text, spans)
    wanted = data.draw(st.sets(st.sampled_from(range(len(spans)))) if spans else st.just(set()))
    kept = wholes.completed(wanted)
    assert kept == sorted(set(kept))
    assert wholes.completed(kept) == kept
    assert {number for number in wanted if wholes.speaks[number]} <= set(kept)
    assert bool(kept) == bool(wanted)
    for number in kept:
        assert set(wholes.whole[number]) <= set(kept)
    if any(wholes.speaks) and len(kept) < len(spans):
        for number in kept:
            if wholes.is_heading[number]:
                below = next(
                    (other for other in kept if other > number and not wholes.is_heading[other]), None
                )
                assert below is not None
