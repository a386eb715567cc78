"""What large_blocks.py promises of a block too big for a chunk: cut where it hurts least, what frames it put back."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus.blocks import read_blocks
from bib_orchestration.biblioteca.corpus.large_blocks import pieces_of
from bib_orchestration.biblioteca.corpus.markdown import Chunk, chunk_markdown
from bib_orchestration.biblioteca.corpus.normal_text import NormalText, joins_previous

HEADER = "| Clave | Valor |\n| :-- | --: |\n"
MARKS = ["```", "~~~", "````", "~~~~~"]
CODE_LINES = st.lists(
    st.sampled_from(["", "", "x = 1", "    return x", "# nota", "}", "\t", "a" * 30, "b " * 40, "``", "~~"]),
    max_size=60,
)


def parts(text: str, max_tokens: int = 50) -> list[Chunk]:
    return chunk_markdown(text, max_tokens=max_tokens, min_tokens=10)


class TestTables:
    def test_each_part_has_the_header_and_whole_rows(self) -> None:
        rows = [f"| clave {number} | {'valor ' * (number % 7)}|" for number in range(100)]
        cut = parts(HEADER + "\n".join(rows))
        assert len(cut) > 10
        assert all(chunk.body.startswith(HEADER) for chunk in cut)
        assert [row for chunk in cut for row in chunk.body.removeprefix(HEADER).split("\n")] == rows
        assert cut[0].text == cut[0].body
        assert all("Clave" not in chunk.text for chunk in cut[1:])

    def test_a_header_too_long_to_repeat_stands_once(self) -> None:
        header = f"| {'clave ' * 20}|\n| --- |\n"
        cut = parts(header + "| fila |\n" * 100)
        assert sum("clave" in chunk.body for chunk in cut) == 1

    def test_a_row_too_long_for_a_chunk_is_cut_like_text(self) -> None:
        row = "| " + "Una frase. " * 40 + "|"
        cut = parts(f"{HEADER}| a | b |\n{row}\n| c | d |")
        assert all(chunk.body.startswith(HEADER) for chunk in cut)
        assert re.sub(r"\s", "", row) in re.sub(r"\s", "", "".join(chunk.text for chunk in cut))

    def test_no_part_is_only_the_header(self) -> None:
        row = "| " + "x" * 160 + " |\n"
        for chunk in parts(HEADER + row * 5):
            assert chunk.body.startswith(HEADER + "| x")


class TestFences:
    @given(st.sampled_from(MARKS), st.sampled_from(["", "py", ' ts title="a"']), CODE_LINES, st.booleans())
    def test_each_part_is_a_whole_fence(self, mark: str, info: str, lines: list[str], closed: bool) -> None:
        text = "\n".join([mark + info, *lines, *([mark] if closed else [])])
        cut = parts(text)
        held = []
        for number, chunk in enumerate(cut):
            (block,) = read_blocks(chunk.body.split("\n"))
            assert block.kind == "fence"
            assert chunk.body.startswith(mark + info)
            if closed or number < len(cut) - 1:
                assert chunk.body.endswith("\n" + mark)
            inside = chunk.body.split("\n")[1:]
            held += [line for line in inside if line.strip() and line.strip() != mark]
        if cut:
            assert held == [line for line in lines if line.strip()]

    @pytest.mark.parametrize("margin", ["    ", "> ", "> > ", "  > "])
    def test_inside_lists_and_quotes_the_margin_is_put_back(self, margin: str) -> None:
        start = "- Paso:\n\n" if margin == "    " else ""
        lines = [f"x_{number} = {number}" for number in range(60)]
        text = start + "\n".join(margin + line for line in ["```py", *lines, "```"])
        cut = [chunk for chunk in parts(text) if "x_" in chunk.body]
        assert len(cut) > 3
        for chunk in cut:
            body = chunk.body.removeprefix("- Paso:\n\n").split("\n")
            assert (body[0], body[-1]) == (f"{margin}```py", f"{margin}```")
        assert "".join(re.findall(r"x_\d+ = \d+", "".join(chunk.text for chunk in cut))) == "".join(lines)

    def test_a_fence_that_begins_an_item(self) -> None:
        cut = parts("- ```py\n" + "  x = 1\n" * 100 + "  ```\n")
        assert all(chunk.body.startswith("- ```py\n  x") and chunk.body.endswith("\n  ```") for chunk in cut)

    def test_code_is_cut_at_blank_lines_where_that_will_do(self) -> None:
        function = "def f():\n    a = 1\n    return a"
        cut = parts("```py\n" + "\n\n".join([function] * 40) + "\n```")
        assert len(cut) > 5
        assert all(chunk.text.removeprefix("```py\n").startswith("def f()") for chunk in cut)

    def test_no_part_is_only_marks_and_blank_lines(self) -> None:
        long = "x" * 185
        blank = "\n" * 500
        repeated = "y = x\n" * 100
        for text in (
            *(f"```py\n{long}\n```", f"```py\n{long}\n{long}\n```", f"```\n{blank}x\n{blank}```"),
            f"```py\n{repeated}```",
        ):
            assert all("x" in chunk.body for chunk in parts(text))
        assert parts("```\n" + "\n" * 500 + "```") == []

    def test_an_opening_too_long_to_repeat_stands_once(self) -> None:
        cut = parts(f"```py {'título ' * 20}\n" + "x = 1\n" * 100 + "```")
        assert sum("título" in chunk.body for chunk in cut) == 1


class TestLists:
    def test_between_items_and_inside_an_item_between_its_blocks(self) -> None:
        fence = "  ```\n  a\n  b\n  ```"
        text = "- uno\n" + f"- {'Dos. ' * 60}\n\n{fence}\n\n  1. x\n  2. y\n\n  {'Tres. ' * 60}\n- cuatro"
        held = [chunk.text for chunk in parts(text)]
        for whole in (fence, "  1. x\n  2. y", "- uno", "- cuatro"):
            assert sum(whole in part for part in held) == 1

    def test_lists_within_lists(self) -> None:
        text = "\n".join("  " * level + f"- nivel {level} {'x' * 90}" for level in range(9))
        assert [line for chunk in parts(text) for line in chunk.text.split("\n")] == text.split("\n")

    def test_in_a_quote_between_its_paragraphs(self) -> None:
        for chunk in parts("\n>\n".join(f"> Párrafo {number}. {'Sigue. ' * 10}Fin." for number in range(30))):
            assert chunk.text.startswith("> Párrafo")
            assert chunk.text.endswith("Fin.")


class TestText:
    def test_at_sentence_ends_rather_than_inside(self) -> None:
        cut = parts("Esta frase dice algo. " * 60 + "Fin.")
        assert len(cut) > 5
        assert all(chunk.text.endswith(".") for chunk in cut)

    @given(st.text(alphabet="ab .\u0301\u1161\u09be\U0001f468\u200d", min_size=0, max_size=300))
    def test_nothing_but_white_space_is_lost(self, unit: str) -> None:
        text = "x" + unit * (40_000 // max(len(unit), 1) // 8)
        cut = parts(text)
        assert re.sub(r"\s", "", "".join(chunk.text for chunk in cut)) == re.sub(r"\s", "", text)

    @pytest.mark.parametrize("mark", ["q\u0301", "e\u0301", "\u1112\u1161\u11ab", "\u09c7\u09be"])
    def test_no_letter_is_torn_from_its_marks(self, mark: str) -> None:
        # One line without a space: windows end inside it.
        source = NormalText("x" + mark * 20_000)
        (block,) = read_blocks(source.lines)
        pieces = pieces_of(source, block, 1_600, 240)
        assert len(pieces) > 10
        for piece in pieces[1:]:
            assert not joins_previous(source.text[piece.start])


@given(st.integers(2, 400), st.integers(0, 100), CODE_LINES)
def test_pieces_are_in_order_and_fit(max_tokens: int, min_tokens: int, lines: list[str]) -> None:
    source = NormalText("\n".join(["~~~ py", *lines, "~~~", "", "- a", *(f"  {line}" for line in lines)]))
    reached = 0
    for block in read_blocks(source.lines):
        for piece in pieces_of(source, block, max_tokens * 4, min_tokens * 4):
            assert reached <= piece.start < piece.end
            assert piece.size <= max_tokens * 4
            reached = piece.end


def test_equal_lines_in_a_long_fence_are_quick() -> None:
    text = "```\n" + "x\n" * 100_000 + "```\n"
    started = time.process_time()
    assert len(chunk_markdown(text)) < 200
    assert time.process_time() - started < 6
