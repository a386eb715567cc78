"""What plots.py promises: pictures that Dagster shows, bounded, the same bytes for the same data."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from datetime import date, timedelta

import dagster as dg
import pytest

from bib_orchestration import plots

FIRST = date(2026, 10, 1)
MAKE = {
    "histogram": lambda n: plots.histogram(
        [n % 7 * 10.0 for n in range(n)], title="T", of="chunks", unit="tokens"
    ),
    "stacked_bars": lambda n: plots.stacked_bars(
        [f"source {place}" for place in range(n)],
        {"distinct": [3.0] * n, "copies": [1.0] * n},
        title="T",
        unit="occurrences",
    ),
    "before_and_after": lambda n: plots.before_and_after(
        [f"¿cuánto cuesta $5 o 10_000^2 $ y <b>{place}</b>?" for place in range(n)],
        [100.0] * n,
        [50.0] * n,
        names=("whole", "trimmed"),
        title="T",
        unit="tokens",
    ),
    "lines_by_day": lambda n: plots.lines_by_day(
        [FIRST + timedelta(days=place) for place in range(n)],
        {"reduction": [None if place % 3 == 0 else 40.0 for place in range(n)]},
        title="T",
        unit="%",
    ),
}


def svg(value: dg.MarkdownMetadataValue) -> ET.Element:
    found = re.fullmatch(r"!\[T\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", value.value or "")
    assert found, value.value
    return ET.fromstring(base64.b64decode(found[1]))


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("n", [1, 2, 40, 300])
def test_a_plot_is_a_picture_whose_size_is_bounded(kind: str, n: int) -> None:
    value = MAKE[kind](n)
    assert svg(value).tag.endswith("svg")
    assert len(value.value or "") < 150_000


@pytest.mark.parametrize("kind", MAKE)
def test_the_same_data_give_the_same_bytes(kind: str) -> None:
    assert MAKE[kind](12).value == MAKE[kind](12).value


def test_text_is_shown_as_it_was_typed() -> None:
    text = "".join(svg(MAKE["before_and_after"](1)).itertext())
    assert "¿cuánto cuesta $5 o 10_000^2 $ y <b>" in text


def test_a_question_with_control_characters_leaves_a_picture() -> None:
    plot = plots.before_and_after(
        ["a\x00b\x1b[31m\ufffe\udc80"], [2.0], [1.0], names=("whole", "trimmed"), title="T", unit="tokens"
    )
    assert "a\ufffdb\ufffd[31m\ufffd\ufffd" in "".join(svg(plot).itertext())


def test_a_day_without_a_value_is_a_gap() -> None:
    nothing = plots.lines_by_day([FIRST], {"reduction": [None]}, title="T", unit="%")
    assert svg(nothing) is not None
