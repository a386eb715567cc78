"""Plots for the UI, as SVG inside Markdown, which is the one form of picture that Dagster shows.

Drawn on white, so that they are legible in its light and its dark theme alike. Equal data give equal bytes.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The theme's blue, an orange that the colour-blind tell from it, and a grey for what is left out.
BLUE, ORANGE, GREY = "#2f6fb0", "#d9822b", "#9aa5b1"
MOST_BARS = 40
# Characters that XML, and so a picture, cannot have.
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDTH_IN = 7.2
_LABEL_CHARS = 44


def histogram(values: Sequence[float], *, title: str, of: str, unit: str) -> dg.MarkdownMetadataValue:
    """How many of `of` have which size, with their median marked."""
    from statistics import median

    def draw(axes: Axes) -> None:
        axes.hist(
            values, bins=min(40, max(1, len(set(values)))), color=BLUE, edgecolor="white", linewidth=0.5
        )
        middle = median(values)
        axes.axvline(middle, color=ORANGE, linewidth=1.5)
        axes.annotate(
            f"median {middle:,.0f}",
            (middle, 1),
            xycoords=("data", "axes fraction"),
            xytext=(5, -12),
            textcoords="offset points",
            color=ORANGE,
        )
        axes.set_xlim(left=0)
        axes.set_xlabel(unit)
        axes.set_ylabel(of)

    return _drawn(draw, title, height_in=2.8)


def stacked_bars(
    labels: Sequence[str], parts: dict[str, Sequence[float]], *, title: str, unit: str
) -> dg.MarkdownMetadataValue:
    """A bar a label, of parts that add up; the first MOST_BARS of them."""
    shown = labels[:MOST_BARS]

    def draw(axes: Axes) -> None:
        left = [0.0] * len(shown)
        for (name, sizes), colour in zip(parts.items(), (BLUE, ORANGE, GREY), strict=False):
            axes.barh(_places(shown), sizes[:MOST_BARS], left=left, label=name, color=colour, height=0.7)
            left = [before + size for before, size in zip(left, sizes, strict=False)]
        _name_rows(axes, shown)
        axes.set_xlabel(unit)
        _legend(axes)

    return _drawn(draw, title, height_in=1.6 + 0.28 * len(shown))


def before_and_after(
    labels: Sequence[str],
    before: Sequence[float],
    after: Sequence[float],
    *,
    names: tuple[str, str],
    title: str,
    unit: str,
) -> dg.MarkdownMetadataValue:
    """Two values a label, joined by a line; the first MOST_BARS of them."""
    shown = labels[:MOST_BARS]

    def draw(axes: Axes) -> None:
        places = _places(shown)
        axes.hlines(places, after[:MOST_BARS], before[:MOST_BARS], color=GREY, linewidth=1.5, zorder=1)
        axes.scatter(before[:MOST_BARS], places, color=BLUE, label=names[0], zorder=2)
        axes.scatter(after[:MOST_BARS], places, color=ORANGE, label=names[1], zorder=2)
        _name_rows(axes, shown)
        axes.set_xlim(left=0)
        axes.set_xlabel(unit)
        _legend(axes)

    return _drawn(draw, title, height_in=1.4 + 0.28 * len(shown))


def lines_by_day(
    days: Sequence[date], lines: dict[str, Sequence[float | None]], *, title: str, unit: str
) -> dg.MarkdownMetadataValue:
    """A line a name over days; a day without a value is a gap, never a zero."""
    import numpy as np

    def draw(axes: Axes) -> None:
        for (name, values), colour in zip(lines.items(), (BLUE, ORANGE, GREY), strict=False):
            known = [float("nan") if value is None else value for value in values]
            axes.plot(
                np.array(days, "datetime64[D]"),
                known,
                marker="o",
                markersize=3.5,
                linewidth=1.3,
                color=colour,
                label=name,
            )
        low, high = axes.get_ylim()
        low = min(0.0, low)
        axes.set_ylim(low, high + 0.08 * (high - low))
        axes.set_ylabel(unit)
        axes.figure.autofmt_xdate(rotation=30)
        if len(lines) > 1:
            _legend(axes)

    return _drawn(draw, title, height_in=2.8)


def _drawn(draw: Callable[[Axes], None], title: str, *, height_in: float) -> dg.MarkdownMetadataValue:
    """What `draw` makes of empty axes, as a picture."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {
        "axes.axisbelow": True,
        "axes.edgecolor": GREY,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.size": 9.0,
        "grid.color": "#e6e9ed",
        # The viewer's own font: a picture a third of the size.
        "svg.fonttype": "none",
        "svg.hashsalt": "bib",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        draw(axes)
        figure.suptitle(title, fontsize=10, fontweight="bold", x=0.01, ha="left")
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(picture.getvalue()).decode("ascii")
    return dg.MetadataValue.md(f"![{title}](data:image/svg+xml;base64,{encoded})")


def _places(labels: Sequence[str]) -> list[int]:
    """Rows from the top down."""
    return [-place for place in range(len(labels))]


def _name_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(_places(labels), [_short(label) for label in labels])
    axes.set_ylim(0.6 - len(labels), 0.6)
    axes.grid(False, axis="y")


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0)


def _short(label: str) -> str:
    text = _NO_XML.sub("\N{REPLACEMENT CHARACTER}", " ".join(label.split())).replace("$", r"\$")
    return text if len(text) <= _LABEL_CHARS else text[: _LABEL_CHARS - 1] + "…"
