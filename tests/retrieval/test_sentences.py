"""What `split_spans` promises: exact spans, the settled cases, no torn fence, and linear time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION, split_sentences, split_spans

from .random_markdown import LINED_MARKDOWN, MARKDOWN

CASES_FILE = Path(__file__).parent.parent / "cases" / "sentences.jsonl"
# Not str.splitlines(): one of the cases holds a U+2028.
CASES = [json.loads(line) for line in CASES_FILE.read_text(encoding="utf-8").split("\n") if line]

COMMONMARK = MarkdownIt("commonmark")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_settled_case(case: dict[str, str]) -> None:
    assert split_sentences(case["text"]) == case["expected"], case["why"]


def test_everything_at_once() -> None:
    text = (
        "El Sr. Gil instaló la v. 2.10.3 en 10.0.0.1 (p. ej. con Docker). ¿Funciona? Sí, véase el art. 5 "
        "y el n.º 7. Consulte https://ejemplo.es/a.html. Cuesta 1.234,56 € con IVA. Fin."
    )
    assert split_sentences(text) == [
        "El Sr. Gil instaló la v. 2.10.3 en 10.0.0.1 (p. ej. con Docker).",
        "¿Funciona?",
        "Sí, véase el art. 5 y el n.º 7.",
        "Consulte https://ejemplo.es/a.html.",
        "Cuesta 1.234,56 € con IVA.",
        "Fin.",
    ]


def test_version_is_a_string() -> None:
    assert SPLITTER_VERSION == "2"


# -- abbreviations and their likes ----------------------------------------------------------------------

ABBREVIATIONS = """
    Sr. Sra. Sres. Srta. D. Dña. D.ª Dr. Dra. Prof. Profa. Lic. Ing. Excmo. Ilma. Rvdo. Sta. Sto. Ud.
    Uds. Mr. Mrs. Ms. St. Jr. Rev. Gen. Sgt. Sen. art. arts. n.º núm. núms. Nº. pág. págs. pp. cap. vol.
    ed. eds. fig. figs. tít. párr. apdo. trad. tel. Tfno. av. Avda. c/ Pza. Ctra. dpto. etc. Cía. S.A.
    S.L. Inc. Ltd. Corp. Co. Bros. e.g. i.e. vs. cf. approx. aprox. máx. mín. al. ca. Fdo. a.m. p.m.
    a.C. d.C. EE.UU. U.S. Ph.D. ene. feb. abr. jun. jul. sept. oct. nov. dic. Jan. Aug. Dec. Fig. Vol.
    Eq. Dept. No.º Sr./Sra."""
SPACED_ABBREVIATIONS = (
    "p. ej.",
    "EE. UU.",
    "RR. HH.",
    "a. C.",
    "d. C.",
    "a. m.",
    "p. m.",
    "S. A.",
    "S. L.",
    "v. gr.",
)


@pytest.mark.parametrize("abbreviation", [*ABBREVIATIONS.split(), *SPACED_ABBREVIATIONS])
@pytest.mark.parametrize("space", [" ", "\xa0", "\n"])
def test_an_abbreviation_never_cuts(abbreviation: str, space: str) -> None:
    written = abbreviation.replace(" ", space)
    sentence = f"Aquí sale {written}{space}Gil y sigue."
    assert split_sentences(f"{sentence} Otra frase.") == [sentence, "Otra frase."]


@pytest.mark.parametrize(
    "sentence",
    [
        "Lo firmó J. R. R. Tolkien ayer.",
        "Vino (el Sr. Paz) y habló.",
        "Dijo «Sr. Paz» y calló.",
        "Salió el 3 mar. Madrid lo vio.",
        "Es la incidencia No. VII de hoy.",
        "Está en el 5.º piso y la 1.ª puerta.",
        "Sale el 12.03.2024 a las 10.30 h en punto.",
        "Quizá… Mañana lo vemos.",
        "I wait... I hope so.",
        "Bueno... Pero no lo sé.",
        "Primero: 1. Abre la caja ya.",
        "Es así.[1] Otros no lo ven.",
        "Es así. [1] Otros no lo ven.",
        "Cabe en S. A. de C. V. sin más.",
    ],
)
def test_stays_whole(sentence: str) -> None:
    assert split_sentences(f"{sentence} Otra frase.") == [sentence, "Otra frase."]


@pytest.mark.parametrize(
    "sentence",
    [
        "Abre motor-core.ts.",
        "Abre src/app/main.py.",
        "Abre a.py.",
        "Instala la v1.2.3.",
        "Instala la v2.0.0-rc.1.",
        "Está en 10.0.0.1.",
        "Mira https://ej.es/a?b=1.5&c=2.",
        "Escribe a ana@ej.es.",
        "Fue en 1990.",
        "Fue Felipe II.",
        "Vive junto al mar.",
        "Dijo que no.",
        "Iba a 120 km/h.",
        "Costó 5 € (poco).",
        "Lo llamó «raro».",
        'Lo llamó "raro".',
        "Usa **negrita**.",
        "Usa `código`.",
        "Está a 25 °C.",
        "¿De verdad?",
        "¡Sí!",
        "¿Qué?!",
        "Ya!!!",
        "Quizá...",
        "Vive en Macy's.",
    ],
)
@pytest.mark.parametrize(
    "following", ["Otra frase.", "¿Otra?", "¡Otra!", "«Otra».", "(Otra).", "**Otra** más."]
)
def test_ends_a_sentence(sentence: str, following: str) -> None:
    assert split_sentences(f"{sentence} {following}") == [sentence, following]


@pytest.mark.parametrize("following", ["otra", "3 más", "🎉 Va", "— Va", "… Va", ") Va", "* Va", "日本"])
def test_what_begins_no_sentence(following: str) -> None:
    assert len(split_sentences(f"Una frase. {following}")) == 1


@pytest.mark.parametrize(
    "inside",
    [
        "`a. B`",
        "``a ` b. B``",
        "[a. B](u)",
        "![a. B](u)",
        "[a. B][u]",
        '[a](u "b. B")',
        '<T a="b. B" />',
        "<T a={b. B} />",
        "<b>a. B</b>",
        "<!-- a. B -->",
        "$a. B$",
        "$$a. B$$",
        "«a. B»",
        "“a. B”",
        "‘a. B’",
        '"a. B"',
        "'a. B'",
        "(a. B)",
        "(a (b) a. B)",
        "[a. B]",
        "{a. B}",
        "**a. B**",
        "*a. B*",
        "__a. B__",
        "_a. B_",
        "~~a. B~~",
    ],
)
def test_never_cut_inside(inside: str) -> None:
    sentence = f"Esto es {inside} y nada más."
    assert split_sentences(f"{sentence} Otra frase.") == [sentence, "Otra frase."]


@pytest.mark.parametrize(
    "mark", ["(", "[", "{", "«", "“", "`", "``", "$", "$$$", "*", "**", "_", '"', "'", "<b", "<!--", "\\`"]
)
def test_a_mark_without_partner_encloses_nothing(mark: str) -> None:
    assert split_sentences(f"Una {mark}frase. Otra frase.") == [f"Una {mark}frase.", "Otra frase."]


# -- blocks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "units",
    [
        ["# Uno. Dos", "Tres.", "Cuatro."],
        ["Uno. Dos\n===", "Tres."],
        ["- Uno. Dos", "  - Tres. Cuatro", "- Cinco."],
        ["1. Uno. Dos\n\n   Tres. Cuatro", "2. Cinco."],
        ["* Uno. Dos", "+ Uno. Dos"],
        ["> Uno. Dos\n> - Tres. Cuatro\nperezosa. Sí"],
        ["- Uno.", "```\na. B\n```", "- Dos."],
        ["- Uno:", "  ~~~\n  a. B\n\n  c. D\n  ~~~", "  Dos. Tres", "# Cuatro", "Cinco."],
        ["> ```\n> a. B", "Fuera.", "Sí."],
        ["| a. B | c |", "| - | - |", "| `x`. Y | z |", "# Fin"],
        ["Texto antes.", "a | b", ":-: | -", "c. D | e"],
        ["a | b", "--- | ---", "===", "c. D | e", "--", "2. Uno. Dos\n   Tres. Cuatro"],
        ["a | b", "--- | ---", "c. D | e", "    f. G\n\n    h. I", "Fin."],
        ["[^1]: Uno. Dos\nTres. Cuatro", "[^2]: Cinco. Seis"],
        ["[a]: /u 'b. C'", "[b]: <u> (d. E)", "Fin."],
        ["<div>\nUno. Dos\n</div>\nTres. Cuatro"],
        ["<!-- Uno. Dos\n\nTres. Cuatro -->", "Cinco.", "Seis."],
        ["<Card\n  title='a. B'\n/>"],
        ["export const a = {\n  b: 'C. D',\n}"],
        ["    a. B\n\n    c. D", "Fin."],
        ["***", "Uno.", "Dos."],
    ],
    ids=lambda units: units[0],
)
def test_block(units: list[str]) -> None:
    stripped = [unit.strip() for unit in units]
    loose = any(unit.startswith(("<div", "<Card", "export", "> ")) for unit in units)
    joined = ("\n\n" if loose else "\n").join(units)
    assert split_sentences(joined) == stripped


def test_front_matter_only_at_the_start_and_only_when_closed() -> None:
    assert split_sentences("---\na: B. C\n\nd: E. F\n---\nFin.") == ["---\na: B. C\n\nd: E. F\n---", "Fin."]
    assert split_sentences("---\nUno. Dos.") == ["---", "Uno.", "Dos."]


# -- exact spans ----------------------------------------------------------------------------------------


def assert_exact(text: str, spans: list[tuple[int, int]]) -> None:
    at = 0
    for start, end in spans:
        assert at <= start < end
        assert not text[at:start].strip()
        assert text[start:end] == text[start:end].strip()
        at = end
    assert not text[at:].strip()


@settings(max_examples=1000)
@given(st.one_of(MARKDOWN, LINED_MARKDOWN))
def test_spans_are_exact(text: str) -> None:
    spans = split_spans(text)
    assert_exact(text, spans)
    assert split_sentences(text) == [text[start:end] for start, end in spans]
    assert split_spans(text) == spans


# Words, abbreviations and marks, but nothing that opens a block.
PROSE = st.lists(
    st.sampled_from([
        "uno", "Dos", "Tres", "¿Cuatro", "¡Sí", "3", "1990", "Sr.", "EE. UU.", "p. ej.", "J. R. R.", "v1.2.3", "mar.",
        "3 de mar.", ".", ".", ".", "!", "?", "...", "…", "`a. B`", "[a. B](u)", "(a. B)", "«a. B»", "**a. B**", "(",
        ")", "«", "»", '"', "'", "*", "_", "`", "$", "[", "]", "\xa0", "1.", "II.", "No.", "etc.",
    ]),
    max_size=25,
).map(" ".join).map(lambda prose: f"Va {prose} fin.")  # fmt: skip


@settings(max_examples=1000)
@given(PROSE)
def test_a_sentence_of_prose_is_not_cut_further(prose: str) -> None:
    units = split_sentences(prose)
    assert [split_sentences(unit) for unit in units] == [[unit] for unit in units]


@settings(max_examples=300)
@given(st.lists(PROSE, max_size=4), st.sampled_from(["\n\n", "\r\n\r\n", "\n \n"]))
def test_a_paragraph_is_cut_the_same_among_others(paragraphs: list[str], blank: str) -> None:
    alone = [split_sentences(paragraph) for paragraph in paragraphs]
    assert split_sentences(blank.join(paragraphs)) == [unit for units in alone for unit in units]


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "\r\n\t\xa0\u2028", "x", ".", ">", "-", "\0", "\ud800. \ud800", ". A", "```"]
)
def test_spans_of_next_to_nothing(text: str) -> None:
    assert_exact(text, split_spans(text))


# -- fences ---------------------------------------------------------------------------------------------


def fences(text: str) -> Iterator[tuple[int, int]]:
    """The stripped spans of the fences, at any depth, that a CommonMark parser finds."""
    lines = [match.span() for match in LINE.finditer(text)]
    for token in COMMONMARK.parse(text):
        if token.type == "fence" and token.map:
            start, end = lines[token.map[0]][0], lines[token.map[1] - 1][1]
            fence = text[start:end]
            start += len(fence) - len(fence.lstrip())
            yield start, start + len(fence.strip())


# Front matter is no CommonMark: a text that begins with a rule may be read otherwise there.
@settings(max_examples=600)
@given(MARKDOWN.filter(lambda text: not text.startswith(("---", "\ufeff---"))))
def test_no_fence_is_torn(text: str) -> None:
    spans = split_spans(text)
    for start, end in fences(text):
        assert any(first <= start and end <= last for first, last in spans), (
            text[start:end],
            split_sentences(text),
        )


@given(st.integers(3, 6), st.sampled_from("`~"), MARKDOWN)
def test_a_fence_longer_than_any_inside_is_one_unit(more: int, mark: str, inside: str) -> None:
    marks = mark * (len(inside) + more)
    text = f"Uno.\n{marks}\n{inside}\n{marks}\nDos. Tres."
    assert split_sentences(text) == ["Uno.", f"{marks}\n{inside}\n{marks}", "Dos.", "Tres."]


# -- linear time ----------------------------------------------------------------------------------------

SMALL, RATIO = 40_000, 3.0
MEGABYTE, LIMIT_S = 1_000_000, 4.0
HOSTILE = {
    "dots": ".",
    "stops": "?! ",
    "open code": "`. A",
    "open links": "[a. B",
    "open fences": "```\n",
    "fences of both kinds": "```\n~~~\n",
    "nested quotes": "> ",
    "lines of nested quotes": "> " * 500 + "a. B\n",
    "parentheses": "(",
    "closed and open": "(. A)) ",
    "dollars": "$",
    "open math": "$a. B ",
    "open tags": "<a ",
    "tags in quotes": "<a \"'. B ",
    "tags in braces": "<a {. B",
    "comments": "<!-- . B ",
    "list": "- a. B\n",
    "nested list": "- ",
    "empty items": "-\n\n",
    "blank lines": "\n",
    "spaces": " ",
    "stops and spaces": ". \n",
    "sentences": "A. Bc. ",
    "asterisks": ". *B",
    "quotes": '. "B',
    "rows": "| a |\n",
    "pipes": "|",
    "html blocks": "<div>\n",
    "escapes": "\\. A",
    "definitions": "[a\\",
    "urls": "http://",
    "fences in tags": "<b>\n```\na. B\n\n",
    "open fences in tags": "<b>\n```x\n\n",
    "tags in items": "- <b>\n  ```\n",
    "tags and rows": "<b>\n| a |\n|---|\n2. A. B\n",
    "indented tags": "    <b>\n",
    "setext": "a. B\n=\n",
    "front matter": "---\na. B\n",
}


def seconds(text: str) -> float:
    begin = time.process_time()
    split_spans(text)
    return time.process_time() - begin


def grows_linearly(small: str, large: str) -> bool:
    """Tell if twice the text takes about twice the time; asked again before the answer is no."""
    return any(seconds(large) < RATIO * seconds(small) + 0.02 for _ in range(4))


def within(limit_s: float, text: str) -> bool:
    """Tell if a text takes less than `limit_s` seconds of CPU; asked again before the answer is no."""
    return any(seconds(text) < limit_s for _ in range(3))


def growing_runs(size: int) -> str:
    """Runs of back quotes, no two alike: none closes any other."""
    return "".join("`" * length + ". A " for length in range(1, int((2 * size) ** 0.5)))


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("before", ["", "Texto. "], ids=["at the start", "in a paragraph"])
def test_time_is_linear(piece: str, before: str) -> None:
    small, large = (before + (piece * (size // len(piece) + 1))[:size] for size in (SMALL, 2 * SMALL))
    assert grows_linearly(small, large)


def shrinking_fences(size: int) -> str:
    """Fences in tags, each of fewer marks than the one before it: none closes any other."""
    return "<b>\n" + "".join("`" * length + "x\n" for length in range(int((2 * size) ** 0.5), 3, -1))


@pytest.mark.parametrize("made", [growing_runs, shrinking_fences])
def test_time_is_linear_in_runs_of_back_quotes(made: Callable[[int], str]) -> None:
    assert grows_linearly(made(SMALL), made(2 * SMALL))


@pytest.mark.parametrize("piece", [".", "`. A", "[a. B", "```\n", "> ", "> > > a. B\n", "<b>\n```x\n"])
def test_a_hostile_megabyte(piece: str) -> None:
    assert within(LIMIT_S, (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE])


@pytest.mark.parametrize(
    "text", ["import a" + " " * SMALL + "x", "- " * 40 + "x\n" + "\n" * SMALL, "<a " + "b " * SMALL]
)
def test_a_long_run_after_a_beginning(text: str) -> None:
    assert seconds(text) < 1
