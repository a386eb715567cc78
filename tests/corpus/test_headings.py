"""What blocks.plain_heading promises: a heading as a reader sees it, in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus import blocks
from bib_orchestration.biblioteca.corpus.blocks import MAX_TITLE, plain_heading


class TestPlainHeading:
    @pytest.mark.parametrize(
        ("raw", "plain"),
        [
            ("a **b** *c* ***d*** __e__ _f_", "a b c d e f"),
            ("**a *b* c**, ***d** e*, _**f**_, **_g_**", "a b c, d e, f, g"),
            ("¿**Qué**? **Nota:** sí", "¿Qué? Nota: sí"),
            ("snake_case_name, _private, 2 * 3, 2*3, *a", "snake_case_name, _private, 2 * 3, 2*3, *a"),
            ("_de snake_case_", "de snake_case"),
            ("f(*args, **kwargs)", "f(*args, **kwargs)"),
            ("[a](x) [b](x 'de b') [c](<x y>) [d](x_(y)) ![e](x)", "a b c d e"),
            ("[![a](x.svg)](y), [*b*](x), [`c`](x)", "a, b, c"),
            ("a[0], [a](b c), [a][b]", "a[0], [a](b c), [a][b]"),
            ("`__init__` `**a**` `[b](c)` ``d ` e``", "__init__ **a** [b](c) d ` e"),
            ("**`a`**, `sin cerrar", "a, `sin cerrar"),
            (r"C\# \*a\* \`b\` \[c](d)", "C# *a* `b` [c](d)"),
            ("a {#b}", "a"),
            ("a { #b } ", "a"),
            ("a {#b .c}", "a"),
            ("a {b} {#c} d", "a {b} {#c} d"),
            (r"a `{#b}`", "a {#b}"),
            ("  a\n\u2028 b\u00a0", "a b"),
            ("a \U000f0000 `b`", "a \U000f0000 b"),
            ("<slot/> & &amp;", "<slot/> & &amp;"),
        ],
    )
    def test_marks(self, raw: str, plain: str) -> None:
        assert plain_heading(raw) == plain

    @given(st.text(alphabet="ab \t\\`*_[](){}#<>!\"'\U000f0000"))
    def test_any_text(self, raw: str) -> None:
        plain = plain_heading(raw)
        assert plain == " ".join(plain.split())
        assert not set(plain) - set(raw) - {" "}

    @pytest.mark.parametrize("length", [MAX_TITLE, MAX_TITLE + 1, 100_000])
    def test_length(self, length: int) -> None:
        assert plain_heading("a" * length) == "a" * MAX_TITLE

    @pytest.mark.parametrize(
        "mark",
        [
            *"*_`[]()!{<\\ ",
            *("a*", "*a ", "_a ", "*a_b ", "__a ", "_a b_c ", "{#", "`a"),
            *("[a](", '[a](b "', "[a](<", "[a]((", "[a]([a](x)", "[ #*`"),
        ],
    )
    def test_hostile_headings(self, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "_MAX_HEADING", 10**9)
        started = time.process_time()
        plain_heading(mark * (200_000 // len(mark)))
        # What tries again from every mark takes minutes.
        assert time.process_time() - started < 2
