"""What displays.py promises: tables that show values as they are, bounded whatever the data."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt

from bib_orchestration.displays import MOST_COLUMNS, MOST_ROWS, table


def cells(markdown: str) -> list[str]:
    """The cells of a table's only row, as a reader of the page sees them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    body = tokens[next(n for n, token in enumerate(tokens) if token.type == "tbody_open") :]
    inline = [token.children or [] for token in body if token.type == "inline"]
    assert all(child.type in ("text", "text_special") for children in inline for child in children)
    return ["".join(child.content for child in children) for children in inline]


@pytest.mark.parametrize(
    "value",
    [
        "a|b",
        r"a\|b",
        "a\\",
        "__init__.md and _archive/x_y_z",
        "*.md **bold** ~~no~~ `code` ``",
        "[l](javascript:alert(1)) ![i](http://x/y.png)",
        "<Tab title='x'>MDX</Tab> <script>alert(1)</script> &lt;b&gt;",
        r"^[\x{9}-\x{d}\p{Z}]+",
    ],
)
def test_a_value_is_shown_as_it_is(value: str) -> None:
    assert cells(table([{"a": value, "b": 1}], ["a", "b"]).value or "") == [value, "1"]


def test_names_stay_legible() -> None:
    assert table([{"chunk_id": "notas_de_hoy.md"}], ["chunk_id"]).value == (
        "| chunk_id |\n| --- |\n| notas_de_hoy.md |"
    )


def test_a_table_is_bounded() -> None:
    row: dict[str, Any] = {f"c{n}": "x" * 10_000 for n in range(500)}
    shown = table([row] * 5000, list(row), most_chars=100).value or ""
    assert len(shown) < (MOST_ROWS + 2) * MOST_COLUMNS * 110
    assert f"… and {5000 - MOST_ROWS} more" in shown
    assert f"… and {500 - MOST_COLUMNS} columns more" in shown
