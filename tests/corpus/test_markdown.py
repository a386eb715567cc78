"""What chunk_markdown promises: whole blocks, exact offsets, the right headings, twins alike, linear time.

The oracle is markdown-it-py itself, read here in another way than blocks.py reads it.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import time
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bib_orchestration.biblioteca.corpus.blocks import says_nothing
from bib_orchestration.biblioteca.corpus.front_matter import parse_front_matter
from bib_orchestration.biblioteca.corpus.markdown import MAX_TOKENS, Chunk, chunk_markdown
from bib_orchestration.biblioteca.corpus.normal_text import normal

CASES_FILE = Path(__file__).parent.parent / "cases" / "upkeep.jsonl"
CASES = {
    case["id"]: case
    for case in map(json.loads, filter(None, CASES_FILE.read_text(encoding="utf-8").split("\n")))
}
TAG_LINE = re.compile(r"\s*</?[A-Za-z]+>\s*")
LINE = re.compile(r"([^\r\n]*)(?:\r\n|\n|\r|\Z)")
WORDS = (
    "el la los una de en con por para sin sobre cada servicio usuario pedido factura cliente plazo acceso"
    " equipo informe oficina reserva copia clave turno proveedor contrato entrega revisa envía guarda"
    " solicita confirma abre cierra conserva cuando después antes nunca siempre"
).split()

# Pieces of Markdown, and characters that have broken somebody's chunker.
FRAGMENTS = [
    *("Hola, mundo.", "¿Y el gato? No sé.", "Nota:", "a", "palabra " * 40, "ab. " * 100, "x" * 300),
    *("# T", "## S", "#### U", "#", "####### no", "# a #", "Título\n===", "Sub\n---", "=="),
    *("```", "```py", "~~~", "~~~~", "````", "   ```", "    ```", "# en código"),
    *(
        "- x",
        "* y",
        "- ",
        "1. uno",
        "10) diez",
        "  - sub",
        "- # h",
        "- ```\n  # x\n  ```",
        "   sigue",
        "    code",
    ),
    *("> q", "> - ql", "> # h", "> ```", ">"),
    *("| a | b |", "|---|---|", "| c | d\\|e |", "|"),
    *("<Tabs>", "</Tabs>", "<div>", "<script>", "import X from 'y';", "export const a = 1;"),
    *("---", "***", "+++", "title: x", "[a]: http://x", "![i](x)", "\\", "&amp;"),
    *("x\0y", "e\0\u0301", "\0", "\ufeff", "a\u2028b", "\x85", "a\x0bb", "\x0c", "\u00a0", "\x1c"),
    *(
        "áéñ",
        "e\u0301n",
        "e\u0316\u0301",
        "\u1112\u1161\u11ab",
        "\u09c7\u09be",
        "\u0301",
        "\u0958",
        "\u1fef" * 3,
    ),
    "\U0001f468\u200d\U0001f469",
]
ENDS = ["\n", "\n", "\n\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "\n\n\n", " \n", "  \n\t\n", " "]


@st.composite
def documents(draw: st.DrawFn) -> str:
    front_matter = ["---\ntitle: x\n---\n", "\ufeff---\r\ntags: [x]\r\n---\r\n"]
    head = draw(st.sampled_from(["", "", "", "\ufeff", "\ufeff\ufeff", *front_matter]))
    indents = st.sampled_from(["", "", "", "", "  ", "    ", "\t", "> ", "- "])
    lines = draw(
        st.lists(
            st.tuples(indents, st.sampled_from(FRAGMENTS), st.sampled_from(ENDS)), min_size=1, max_size=40
        )
    )
    return head + "".join(map("".join, lines))


SIZES = st.sampled_from([(400, 60), (100, 60), (50, 10), (20, 3), (8, 2)])


def lines_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of each line of the text, without line ends; the last is what follows the last of them."""
    return [(found.start(), found.end(1)) for found in LINE.finditer(text)]


def body_start(text: str) -> int:
    bom = len(text) - len(text.lstrip("\ufeff"))
    return bom + parse_front_matter(text[bom:]).body_start


def tokens_of(text: str, mdx: bool = False) -> tuple[list[tuple[int, int]], list[Token]]:
    """The lines of the body (offsets in the text), and markdown-it's tokens for them."""
    begin = body_start(text)
    lines = [(begin + start, begin + end) for start, end in lines_of(text[begin:])]
    parser = MarkdownIt("commonmark").enable("table")
    if mdx:
        parser.disable(["html_block", "code"])
    written = (normal(text[start:end]) for start, end in lines)
    return lines, parser.parse(
        "\n".join("" if mdx and TAG_LINE.fullmatch(line) else line for line in written)
    )


def sections(*names: str, words: int = 150) -> str:
    return "\n\n".join(f"## {name}\n\n" + f"{name} " * words for name in names)


def code(lines: int, mark: str = "```", info: str = "py") -> str:
    return "\n".join(
        [mark + info, *(f"valor_{number} = calcular({number})" for number in range(lines)), mark]
    )


def table(rows: int) -> str:
    return "| Clave | Valor |\n| --- | --- |\n" + "\n".join(f"| clave {n} | valor {n} |" for n in range(rows))


class TestOffsets:
    @given(documents(), SIZES, st.booleans())
    def test_slices_are_exact_in_order_and_within_the_limit(
        self, text: str, sizes: tuple[int, int], mdx: bool
    ) -> None:
        chunks = chunk_markdown(text, max_tokens=sizes[0], min_tokens=sizes[1], mdx=mdx)
        for chunk in chunks:
            assert text[chunk.start : chunk.end] == chunk.text
            assert chunk.tokens == -(-len(chunk.body) // 4) <= sizes[0]
            assert not says_nothing(chunk.text)
            assert normal(chunk.text.replace("\0", "")) in chunk.body
            assert chunk.body == unicodedata.normalize("NFC", chunk.body)
            assert not set("\r\0") & set(chunk.body)
        assert all(one.end <= other.start for one, other in pairwise(chunks))
        assert all(chunk.start >= body_start(text) for chunk in chunks)

    @given(documents(), SIZES)
    def test_line_numbers(self, text: str, sizes: tuple[int, int]) -> None:
        lines = lines_of(text)
        for chunk in chunk_markdown(text, max_tokens=sizes[0], min_tokens=sizes[1]):
            first, last = lines[chunk.line_start - 1], lines[chunk.line_end - 1]
            assert first[0] <= chunk.start <= first[1]
            assert last[0] < chunk.end <= last[1]
            assert text[chunk.start : first[1]].strip(" \t")
            assert text[last[0] : chunk.end].strip(" \t")

    @given(documents(), SIZES, st.booleans())
    def test_no_line_is_lost(self, text: str, sizes: tuple[int, int], mdx: bool) -> None:
        chunks = chunk_markdown(text, max_tokens=sizes[0], min_tokens=sizes[1], mdx=mdx)
        held = "".join(chunk.text for chunk in chunks)
        lines, tokens = tokens_of(text, mdx)
        headings = {
            number
            for token in tokens
            if token.type == "heading_open" and token.level == 0 and token.map
            for number in range(*token.map)
        }
        statements = {
            number
            for token in tokens
            if mdx and token.type == "paragraph_open" and token.level == 0 and token.map
            if re.match(r"(import|export)\s", text[slice(*lines[token.map[0]])])
            for number in range(*token.map)
        }
        spans = iter(chunks)
        chunk = next(spans, None)
        for number, (start, end) in enumerate(lines):
            if number in headings | statements or says_nothing(text[start:end]):
                continue
            while chunk and chunk.end <= start:
                chunk = next(spans, None)
            assert chunk is not None, (text[start:end], held)
            # A line longer than a chunk is in several.
            assert chunk.start < end, (text[start:end], held)
            assert says_nothing(text[start : max(start, chunk.start)])

    @pytest.mark.parametrize(
        "stray", ["\0", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
    )
    def test_only_markdown_line_ends_end_a_line(self, stray: str) -> None:
        text = f"# Uno{stray}dos\n\nTres{stray}# cuatro\r\ncinco{stray}\r## Seis\n\nSiete"
        one, two = chunk_markdown(text)
        assert (one.text, one.line_start, one.line_end) == (
            f"Tres{stray}# cuatro\r\ncinco{stray}",
            3,
            4,
        )
        assert (two.text, two.line_start, two.line_end) == ("Siete", 7, 7)
        assert two.heading_path.split(" > ")[1] == "Seis"

    def test_mark_of_byte_order_and_carriage_returns(self) -> None:
        text = "\ufeff---\r\ntitle: X\r\n---\r\n# A\r\n\r\nuno\r\ndos\r\n"
        (chunk,) = chunk_markdown(text)
        assert (chunk.text, chunk.body) == ("uno\r\ndos", "uno\ndos")
        assert (chunk.line_start, chunk.line_end) == (6, 7)


class TestTwins:
    @given(documents(), SIZES, st.booleans())
    def test_other_line_ends_bom_and_accents_in_two_parts(
        self, text: str, sizes: tuple[int, int], mdx: bool
    ) -> None:
        plain = normal(text.lstrip("\ufeff"))

        def cut(twin: str) -> list[tuple[str, str, int, int]]:
            chunks = chunk_markdown(twin, max_tokens=sizes[0], min_tokens=sizes[1], mdx=mdx)
            assert all(twin[chunk.start : chunk.end] == chunk.text for chunk in chunks)
            return [(chunk.heading_path, chunk.body, chunk.line_start, chunk.line_end) for chunk in chunks]

        expected = cut(plain)
        assert cut(text) == expected
        assert cut("\ufeff" + plain) == expected
        assert cut(plain.replace("\n", "\r\n")) == expected
        assert cut(plain.replace("\n", "\r")) == expected
        assert cut(unicodedata.normalize("NFD", plain)) == expected


class TestHeadings:
    def test_case_h06(self) -> None:
        case = CASES["H06-fences"]
        text = case["input"]["text"]
        chunks = chunk_markdown(text)
        used = case["expected"]["heading_paths_used"]
        assert list(dict.fromkeys(chunk.heading_path for chunk in chunks)) == used
        for never in case["expected"]["headings_never_used"]:
            assert all(never not in chunk.heading_path for chunk in chunks)
        lines = [line for chunk in chunks for line in chunk.text.split("\n")]
        for line in case["expected"]["code_lines_kept_verbatim"]:
            assert line in lines

    @given(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    def test_nesting_with_skipped_levels(self, levels: list[int]) -> None:
        text = "".join(
            f"{'#' * level} n{number}\n\nTexto {number}.\n\n" for number, level in enumerate(levels)
        )
        expected = []
        for number, level in enumerate(levels):
            path = [f"n{number}"]
            for above in range(number - 1, -1, -1):
                if levels[above] < level:
                    path.insert(0, f"n{above}")
                    level = levels[above]
            expected.append((" > ".join(path), f"Texto {number}."))
        chunks = chunk_markdown(text, min_tokens=0)
        assert [(chunk.heading_path, chunk.text) for chunk in chunks] == expected

    @pytest.mark.parametrize(
        ("text", "paths"),
        [
            ("Antes.\n\n# A\n\nuno", ["", "A"]),
            ("A\n===\n\nuno\n\nB\n---\n\ndos", ["A", "A > B"]),
            ("A\nb\n===\n\nuno", ["A b"]),
            ("# A #\n\nuno\n\n#B\n\n####### C", ["A"]),
            ("# A\n\n##\n\nuno\n\n### C\n\ndos", ["A", "A > C"]),
            ("   # A\n\nuno\n\n    # B", ["A"]),
            ("# A\n\n- # B\n- x\n\n> # C\n> y\n\nz", ["A"]),
            ("# A\n\n```\n# B\n\n# C\n", ["A"]),
            ("# A\n\n~~~\n# B\n```\n# C\n~~~\n# D\n\nx", ["A", "D"]),
            ("# A\n\n> ```\n> # B\n\n# C\n\nx", ["A", "C"]),
            ("# A\n\n<!--\n# B\n-->\nx", ["A"]),
            ("# A\n\n| a |\n| - |\n# B\n\nx", ["A", "B"]),
            ("# A > B\n\n## C\n\nx", ["A > B > C"]),
        ],
    )
    def test_what_is_a_heading(self, text: str, paths: list[str]) -> None:
        chunks = chunk_markdown(text, min_tokens=0)
        assert list(dict.fromkeys(chunk.heading_path for chunk in chunks)) == paths

    @pytest.mark.parametrize("ending", ["", "\n", "\n\n## B", "\n\n## B\n\n### C\n\n---\n"])
    def test_no_chunk_is_only_a_heading(self, ending: str) -> None:
        assert chunk_markdown("# A" + ending) == []


class TestBlocks:
    @given(documents(), SIZES, st.booleans())
    def test_no_fence_row_or_item_that_fits_is_torn(
        self, text: str, sizes: tuple[int, int], mdx: bool
    ) -> None:
        chunks = chunk_markdown(text, max_tokens=sizes[0], min_tokens=sizes[1], mdx=mdx)
        lines, tokens = tokens_of(text, mdx)
        for token in tokens:
            if token.type not in ("fence", "list_item_open", "tr_open") or token.map is None:
                continue
            spans = [(start, end) for start, end in lines[slice(*token.map)] if text[start:end].strip()]
            if not spans:
                continue
            start, end = spans[0][0], spans[-1][1]
            if len(normal(text[start:end])) <= sizes[0] * 4:
                assert sum(chunk.start < end and chunk.end > start for chunk in chunks) <= 1, text[start:end]

    def test_a_fence_deep_in_a_long_item_is_whole(self) -> None:
        prose = "Antes de nada conviene leerlo entero. " * 30
        fence = "    " + code(30).replace("\n", "\n    ")
        text = f"1. {prose}\n\n    - Paso:\n\n{fence}\n\n    {prose}\n\n2. Fin."
        assert sum(fence in chunk.text for chunk in chunk_markdown(text)) == 1

    def test_a_fence_between_tags_of_mdx_is_a_fence(self) -> None:
        text = (
            '# A\n\n<Tabs>\n <Fragment slot="npm">\n    ```sh\n    # uno\n    npm i\n\n  ### dos\n    npm x\n    ```\n'
            " </Fragment>\n</Tabs>\n"
        )
        assert [(chunk.heading_path, chunk.text) for chunk in chunk_markdown(text, mdx=True)] == [
            ("A", text[5:].rstrip())
        ]

    @pytest.mark.parametrize("made", [code(200), table(200), "- uno\n" * 400, "> " + "cita. " * 600])
    def test_a_long_block_fills_its_chunks(self, made: str) -> None:
        chunks = chunk_markdown(f"# A\n\n{made}\n")
        assert len(chunks) > 1
        assert statistics.mean(chunk.tokens for chunk in chunks) > MAX_TOKENS / 3

    def test_an_introduction_stays_with_what_it_introduces(self) -> None:
        filler = "Relleno. " * 40
        for start, end in (("Ejemplo:", ""), ('<Tab label="uno">', "</Tab>")):
            text = "# A\n\n" + f"{filler}\n\n{start}\n\n{code(8)}\n{end}\n\n" * 20
            for chunk in chunk_markdown(text, mdx=True):
                assert chunk.text.count(start) == chunk.text.count("```py")


class TestSections:
    def test_a_short_section_of_prose_joins_its_next_sibling(self) -> None:
        text = "# A\n\n## B\n\nCorto.\n\n## C\n\nTambién.\n\n## D\n\n" + "Largo. " * 60 + "Fin."
        (chunk,) = chunk_markdown(text)
        assert chunk.heading_path == "A > B"
        assert chunk.text == text[text.index("Corto") :]

    @pytest.mark.parametrize(
        "text",
        [
            "# A\n\nCorto.\n\n## B\n\nHijo.",
            "## B\n\nCorto.\n\n# A\n\nTío.",
            "## B\n\n```\ncódigo\n```\n\n## C\n\nHermano.",
            "## B\n\n- x\n\n  ```\n  y\n  ```\n\n## C\n\nHermano.",
            "## B\n\n> ```\n> y\n\n## C\n\nHermano.",
            "## B\n\nCorto.\n\n## C\n\n### D\n\nSobrino.",
            "# A\n\n## B\n\nCorto.\n\n# A2\n\n## B2\n\nPrimo.",
            sections("B", "C"),
            "## B\n\nCorto.\n\n## C\n\n" + "x" * 1590,
            "## B\n\nCorto.\n\n## C\n\n" + table(200),
            "## B\n\n<!-- nada -->\n\n## C\n\nHermano.\n\n# D\n\nOtro.",
        ],
    )
    def test_others_do_not(self, text: str) -> None:
        for chunk in chunk_markdown(text):
            assert not re.search(r"^#", chunk.text, re.MULTILINE)

    @pytest.mark.parametrize(
        "nothing",
        [
            *("---", "***\n\n___", "<!-- patrocinadores -->", "<!--\n\nx\n-->", "{/* x */}"),
            *("<br/>\n</div>", "</Box>", "```\n```", "\0", "\ufeff", "\u00a0", "\u2028"),
        ],
    )
    def test_what_says_nothing_makes_no_chunk(self, nothing: str) -> None:
        assert chunk_markdown(nothing) == chunk_markdown(f"# A\n\n{nothing}\n\n# B\n\n{nothing}\n") == []
        long = code(60)
        chunks = chunk_markdown(f"{long}\n\n{nothing}\n\n{long}")
        assert all("valor" in chunk.body for chunk in chunks)

    @pytest.mark.parametrize(
        "something", ["- ¿?", "{}", "✓", "```\n{}\n```", '<img alt="Plano">', "<b>Sí</b>", "$"]
    )
    def test_what_is_short_and_says_something(self, something: str) -> None:
        assert [chunk.text for chunk in chunk_markdown(f"# A\n\n{something}\n")] == [something]

    def test_imports_alone_are_no_chunk_of_mdx(self) -> None:
        text = "import A from 'a';\nimport B from 'b';\n\nexport const c = 1;\n\n# A\n\nTexto.\n"
        assert [chunk.text for chunk in chunk_markdown(text, mdx=True)] == ["Texto."]
        assert len(chunk_markdown(text)) == 2

    def test_imports_at_the_head_of_a_section_are_left_out_of_mdx(self) -> None:
        text = "import A from 'a';\n\nPrimero.\n\nimport es lo que se paga.\n\n# B\n\nexport const c = 1;\n\nTexto.\n"
        texts = [chunk.text for chunk in chunk_markdown(text, mdx=True)]
        assert texts == ["Primero.\n\nimport es lo que se paga.", "Texto."]
        assert chunk_markdown(text)[0].text.startswith("import A")


class TestInsertion:
    """What an edit costs in embeddings."""

    def test_a_new_paragraph_in_a_long_section(self) -> None:
        # At every position of two sections of about 40 chunks. Over six such sections: mean 1.5, more than 3 in 0.2 %.
        anew: list[int] = []
        for seed in range(2):
            source = random.Random(seed)
            before, paragraphs, after = ([*_paragraphs(source, size)] for size in (2_000, 38_000, 2_000))

            def built(middle: list[str], before: list[str] = before, after: list[str] = after) -> str:
                parts = zip(("Antes", "Larga", "Después"), (before, middle, after), strict=True)
                return "# Manual\n\n" + "\n\n".join(
                    f"## {name}\n\n" + "\n\n".join(part) for name, part in parts
                )

            old = _contents(built(paragraphs))
            assert 35 <= sum(path == "Manual > Larga" for path, _ in old) <= 45
            for position in range(len(paragraphs) + 1):
                (new,) = _paragraphs(source, 1)
                made = _contents(built([*paragraphs[:position], new, *paragraphs[position:]])) - old
                assert {path for path, _ in made} == {"Manual > Larga"}
                anew.append(len(made))
        assert len(anew) > 300
        assert statistics.mean(anew) <= 2
        assert sum(count > 3 for count in anew) <= 0.01 * len(anew)

    @pytest.mark.parametrize(
        ("start", "line", "end"),
        [
            ("| Clave | Valor |\n| --- | --- |\n", "| {0} | valor de {0} |\n", ""),
            ("```py\n", "valor_{0} = calcular({0})\n", "```\n"),
            ("", "- Elemento {0} de la lista\n", ""),
        ],
    )
    def test_a_new_line_in_a_long_block(self, start: str, line: str, end: str) -> None:
        source = random.Random(0)
        lines = [line.format(source.randrange(10**9)) for _ in range(900)]
        old = _contents(start + "".join(lines) + end)
        anew = []
        for position in range(0, 901, 60):
            new = line.format(source.randrange(10**9))
            text = start + "".join([*lines[:position], new, *lines[position:]]) + end
            anew.append(len(_contents(text) - old))
        assert statistics.mean(anew) <= 2
        assert max(anew) <= 5


def _paragraphs(source: random.Random, characters: int) -> Iterator[str]:
    """Paragraphs of one to five sentences, until they hold that many characters."""
    while characters > 0:
        sentences = (
            " ".join(source.choices(WORDS, k=source.randint(6, 18))).capitalize() + "."
            for _ in range(source.randint(1, 5))
        )
        paragraph = " ".join(sentences)
        characters -= len(paragraph)
        yield paragraph


def _contents(text: str) -> set[tuple[str, str]]:
    return {(chunk.heading_path, chunk.body) for chunk in chunk_markdown(text)}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: "palabra " * 250_000, id="2 MB in a line"),
        pytest.param(lambda: "a" * 2_000_000, id="2 MB in a word"),
        pytest.param(lambda: "e\u0301a " * 150_000, id="a long line in NFD"),
        pytest.param(lambda: "e" + "\u0301" * 300_000, id="accents without end"),
        pytest.param(lambda: "\u1112\u1161\u11ab" * 150_000, id="Hangul in parts"),
        pytest.param(lambda: "> " * 500_000, id="1 MB of > > >"),
        pytest.param(lambda: "> " * 500_000 + "a", id="1 MB of > > > a"),
        pytest.param(lambda: ("> " * 50 + "a\n") * 10_000, id="deep quotes"),
        pytest.param(lambda: "```\n" * 75_000, id="300 kB of fences"),
        pytest.param(lambda: "```\nx\n```\n\n" * 10_000, id="small fences"),
        pytest.param(lambda: "```\n" + "\n" * 300_000 + "```", id="a fence of blank lines"),
        pytest.param(lambda: "```\n" + "x" * 1_000_000 + "\n```", id="a fence of one line"),
        pytest.param(lambda: "\n".join("  " * n + "- x" for n in range(1_000)), id="deep list"),
        pytest.param(lambda: "- " * 5_000 + "x", id="list of lists in a line"),
        pytest.param(lambda: "- hola\n" * 10_000, id="list"),
        pytest.param(lambda: "# a\n" * 15_000, id="headings"),
        pytest.param(lambda: "hola\n\n" * 10_000, id="paragraphs"),
        pytest.param(lambda: "a:\n\n" * 10_000, id="introductions"),
        pytest.param(lambda: "|a" * 1_000 + "\n" + "|-" * 1_000 + "\n" + "|b\n" * 1_000, id="wide table"),
        pytest.param(lambda: "[" * 500_000, id="brackets"),
        pytest.param(lambda: "[a]: b\n" * 20_000, id="link definitions"),
        pytest.param(lambda: "<!--" * 100_000, id="comments never closed"),
        pytest.param(lambda: "<a " * 100_000, id="tags never closed"),
        pytest.param(lambda: "\r" * 300_000, id="blank lines"),
    ],
)
def test_hostile_text_takes_linear_time(make: Callable[[], str]) -> None:
    text = make()
    chunk_markdown("Texto. " * 1_000)
    started = time.process_time()
    chunks = chunk_markdown(text)
    # Each takes under a second on an idle core; what is quadratic takes minutes.
    assert time.process_time() - started < 6
    assert all(isinstance(chunk, Chunk) and chunk.tokens <= MAX_TOKENS for chunk in chunks)
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
