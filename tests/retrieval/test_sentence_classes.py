"""Each settled case, as the class of things that it stands for, in Spanish and English.

A class is a row of ways to write one thing, with `|` between them: things that never cut the sentence they stand
in, things that end one like any word, what stands between two sentences, and blocks, which are units.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from bib_orchestration.biblioteca.retrieval.sentences import split_sentences

CASES_FILE = Path(__file__).parent.parent / "cases" / "sentences.jsonl"
LANGUAGES = ("es", "en")
WITHIN = {"es": "Aquí sale {} Gil y sigue.", "en": "Here comes {} Gil and more."}
PHRASE = {"es": "Dice {} en la página.", "en": "It says {} on the page."}
NEXT = {"es": "Otra frase.", "en": "Another one."}

# Written in the middle of a sentence, before a capital. Each row: a class, what it is in each language.
BEFORE_A_NAME = {
    "titles": {
        "es": "Sr.|Sra.|Sres.|Srta.|D.|Dña.|D.ª|Dr.|Dra.|Dres.|Prof.|Profa.|Lic.|Licda.|Ing.|Arq.|Abg.|Mtro.|"
        "Gral.|Cnel.|Tte.|Sgto.|Cmdte.|Alte.|Excmo.|Exma.|Ilmo.|Ilma.|Rvdo.|Mons.|Pbro.|Sto.|Sta.|Ntra.|Vda.|Ud.|"
        "Uds.|Vd.|Hno.|Hnas.|Pdte.|Dtor.|Fr.|Sr./Sra.|(Sr.|«Dr.|**Sr.|_Dra.",
        "en": "Mr.|Mrs.|Ms.|Messrs.|Dr.|Drs.|Prof.|St.|Jr.|Sr.|Rev.|Hon.|Gen.|Col.|Capt.|Lt.|Sgt.|Maj.|Cmdr.|Gov.|"
        "Sen.|Rep.|Reps.|Pres.|Fr.|Esq.|Supt.|Atty.|Mr./Mrs.|(Mr.|“Dr.|**Mr.|_Dr.",
    },
    "doubled capitals": {
        "es": "EE. UU.|EE.UU.|RR. HH.|FF. AA.|CC. OO.|JJ. OO.|SS. MM.|AA. VV.|FF. CC.|(EE. UU.",
        "en": "U.S.|U.K.|U.S.A.|U. S.|U.N.|E.U.|D.C.|(U.S.",
    },
    "companies": {
        "es": "S.A.|S. A.|S.L.|S. L.|S. A. de C. V.|Cía.|Ltda.|Hnos.|S. Coop.",
        "en": "Inc.|Ltd.|Corp.|Co.|Bros.|LLC.|L.L.C.|P.L.C.|Assn.|Govt.|Univ.",
    },
    "for example": {
        "es": "p. ej.|p.ej.|P. ej.|v. gr.|v.gr.|esp.|i. e.|(p. ej.|—p. ej.",
        "en": "e.g.|i.e.|e. g.|esp.|viz.|cf.|vs.|(e.g.|—e.g.",
    },
    "lists cut short": {
        "es": "etc.|et al.|y cols. al.|aprox.|máx.|mín.",
        "en": "etc.|et al.|approx.|max.",
    },
    "places in works": {
        "es": "art.|arts.|n.º|N.º|núm.|núms.|Nº.|pág.|págs.|pp.|p.|cap.|caps.|vol.|ed.|eds.|fig.|figs.|tít.|párr.|"
        "apdo.|trad.|ibíd.|op. cit.|ref.|secc.|ec.|5.º|1.ª|3.er|art. 5.º",
        "en": "art.|No. 5.º|pp.|p.|ch.|chap.|vol.|ed.|eds.|fig.|figs.|Fig.|eq.|eqs.|sec. 3|Sec.|cit.|ibid.|ref.|"
        "seq.",
    },
    "addresses": {
        "es": "Avda.|Av.|c/|Pza.|Pl.|Ctra.|Urb.|Pol. Ind.|Edif.|Esc.|izda.|dcha.|dpto.|Apdo.|tel.|Tfno.|Teléf.|"
        "Prov.|Bda.|Gta.|Ayto.",
        "en": "Ave.|Av.|Blvd.|Rd.|St.|Apt.|Ste.|Bldg.|Dept.|tel.|ext.|Mt.|Ft.|Hwy.|Rte.|Pkwy.|Calif.|Wash.|Mass.",
    },
    "months and days": {
        "es": "3 ene.|3 feb.|3 mar.|3 abr.|3 may.|3 jun.|3 jul.|3 ago.|3 sept.|3 set.|3 oct.|3 nov.|3 dic.|"
        "3 de mar.|el lun.|el mié.|el jue.|el vie.|el sáb.",
        "en": "Jan.|Feb.|3 Mar.|Apr.|Jun.|Jul.|Aug.|Sept.|Sep.|Oct.|Nov.|Dec.|Mon.|Tue.|Tues.|Wed.|Thu.|Thurs.|"
        "Fri.|Sat.",
    },
    "hours": {"es": "9 a. m.|9 p. m.|9 a.m.|9 p.m.|9 hrs.", "en": "9 a.m.|9 p.m.|9 A.M.|9 a. m.|2 hrs."},
    "eras": {"es": "a. C.|d. C.|a.C.|d.C.|a. de C.|a. e. c.", "en": "B.C.|A.D.|B.C.E.|b. c.|ca."},
    "initials": {
        "es": "J. R. R.|J.R.R.|Á.|M.ª|José M.ª|Fco. J.|Ch.|(J.",
        "en": "J. R. R.|J.R.R.|M.|George W.|H. G.|(J.",
    },
    "degrees": {"es": "Ph.D.|Dr. Ing.|D.E.A.", "en": "Ph.D.|M.D.|B.A.|M.Sc.|D.Phil."},
    "numbers": {"es": "No. VII|Nos. VII|No. B-12", "en": "No. VII|Nos. VII|No. A-12"},
    "ellipses": {"es": "quizá…|quizá... y|quizá...y", "en": "maybe…|maybe... or|wait... I and"},
}

# Written in the middle of a sentence, whole: nothing in it cuts.
INSIDE = {
    "versions": "v1.2.3|v2.0.0-rc.1|v. 2.10.3|1.0.0-beta.2|Python 3.11.4|^4.2.0|>=1.26,<2.0",
    "addresses of machines": "192.168.1.1|10.0.0.25:8080|10.0.0.0/8|fe80::1|::1",
    "web addresses": "https://ej.es/guia.v2/i.html?x=1.5&y=2|http://a.b/c?d=e!f|www.ej.es|<https://ej.es/a.B>|"
    "ana@ej.es|https://es.wikipedia.org/wiki/Sr._Gil_(A._B)",
    "file names": "motor-core.ts|src/app/main.py|.env|a.tar.gz|C:\\dir\\a.B|README.md|__init__.py|..\\x",
    "figures": "1.234,56 €|1,234.56|3.14|12.03.2024|10.30 h|.5|$5.00|50 % de 3.5",
    "inline code": "`a. B`|``a ` b. B``|`` `a. B` ``|`¿a? B`|`a! B`|`a.\nB`",
    "links": "[a. B](u)|[a? B][u]|[a! B]|![a. B](u.png)|[a](u \"b. B\")|[**a.** B](u)|[a. B](<u v>)|[`a. B`](u)|"
    "[a [b. C] d](u)",
    "tags": "<b>a. B</b>|<Nota texto=\"Ojo. Cuidado\" />|<a href='x. Y'>a. B</a>|<T a={b. B} />|<!-- a. B -->|"
    "<kbd>A. B</kbd>|<img alt=\"a. B\">",
    "maths": "$a. B$|$$a. B$$|$x_1. Y$|$\\alpha. B$",
    "quotations": "«a. B»|“a. B”|‘a. B’|\"a. B\"|'a. B'|‹a. B›|«a «b. C» d. E»|«¿a? ¡B!»",
    "brackets": "(a. B)|(a (b) a. B)|[a. B]|{a. B}|(¿a? B)|(véase a. B; c. D)",
    "emphasis": "**a. B**|*a. B*|__a. B__|_a. B_|~~a. B~~|***a. B***|**a *b. C* d**",
}  # fmt: skip

# A word like any other: the stop after it ends the sentence.
LAST_WORDS = {
    "words": {
        "es": "libro|año|sí|no|mar|sol|él|día|ONU|km|kg|min",
        "en": "book|year|yes|no|in|sun|artwork|UN|km|maybe|min",
    },
    "figures": {"es": "1990|12|3,14|50 %|5 €|12.03.2024|25 °C|XX|II", "en": "1990|12|3.14|50%|$5|II|XX|5th"},
    "versions and machines": {"es": "v1.2.3|v2.0.0-rc.1|10.0.0.1", "en": "v1.2.3|v2.0.0-rc.1|10.0.0.1"},
    "web addresses": {
        "es": "https://ej.es|https://ej.es/a?b=1.5&c=2|ana@ej.es|<https://ej.es>",
        "en": "https://ex.org|https://ex.org/a?b=1.5&c=2|ann@ex.org|<https://ex.org>",
    },
    "file names": {
        "es": "motor-core.ts|src/main.py|a.py|.env|README",
        "en": "motor-core.ts|src/main.py|a.py|.env|README",
    },
    "what is closed": {
        "es": "`código`|[guía](u)|<b>eso</b>|$x$|$$$|«eso»|“eso”|(eso)|**eso**|_eso_|~~eso~~|\"eso\"|'eso'|[^1]",
        "en": "`code`|[guide](u)|<b>it</b>|$x$|$$$|“it”|‘it’|(it)|**it**|_it_|~~it~~|\"it\"|'it'|it's|[^1]",
    },
    "abbreviations without a dot": {"es": "5 cm|120 km/h|n.º 42|art. 5.º|5.º", "en": "5 cm|60 mph|5 ft high|BC|"
    "p 5"},
}  # fmt: skip

# What stands between two sentences.
STOPS = (".", "!", "?", "?!", "!!", "!!!", "...", ".)", "…")
SPACES = (" ", "  ", "\n", "\r\n", "\xa0", "\t", " \xa0", "\u2028", "\x0b")
OPENINGS = {
    "es": "¿Otra?|¡Otra!|«Otra».|“Otra”.|\"Otra\".|'Otra'.|(Otra).|[Otra](u).|`otra` va.|**Otra** va.|_Otra_ va.|"
    "***Otra***.|**¿Otra?**|Ábrela.|Él va.|Ñoño.|Única.|A.|Ǆ va.",
    "en": "“Another”.|\"Another\".|'Another'.|‘Another’.|(Another).|[Another](u).|`code` is.|**Another** is.|"
    "_Another_ is.|Élan.|I am.",
}  # fmt: skip
NO_OPENINGS = {
    "es": "otra va.|3 van.|12.5 van.|🎉 Va.|— Va.|– Va.|… Va.|) Va.|* Va.|+ Va.|] Va.|» Va.|, Va.|日本.|[1] Va.|"
    "[^1] Va.|(2) Va.|<b>Va</b>.|$5 va.|\\*Va.",
    "en": "another is.|3 are.|12.5 is.|🎉 It is.|— It is.|… It is.|) It is.|, It is.|日本.|[1] It is.|[^1] It is.|"
    "(2) It is.|<b>It</b> is.",
}  # fmt: skip
CLOSED_AFTER_STOP = "» ” ’ \" ' ) ] * ** _ ~~ ` [1] [^1] ¹ </b> ”)".split()

# `{}` stands for text that would be cut elsewhere.
BLOCKS = {
    "items": "- {}|* {}|+ {}|1. {}|1) {}|10) {}|0. {}|- [ ] {}|- [x] {}|   - {}|- {}\n  {}|- {}\nperezosa. Sí|"
    "1. {}\n   {}|-   {}|- {}\n\n  {}",
    "quotes": "> {}|>{}|> {}\n> {}|> {}\nperezosa. Sí|> > {}|> - {}\n> - {}|   > {}|> # {}\n> {}",
    "headings": "# {}|## {}|###### {}|# {} #|{}\n===|{}\n---|   # {}|{}\n{}\n=",
    "fences": "```\n{}\n```|~~~\n{}\n~~~|```py\n{}\n\n{}\n```|````md\n```\n{}\n```\n````|```\n~~~\n{}\n```|"
    "   ```\n{}\n   ```|``` {{. A}}\n{}\n```|```\n{}\n`````|```\n# {}\n- {}\n> {}\n```",
    "code": "    {}|\t{}|    {}\n\n    {}|    - {}\n    > {}",
    "HTML": "<details>\n<summary>{}</summary>\n</details>|<div>\n{}\n</div>|<!-- {} -->|<!-- {}\n\n{} -->|"
    "<Card>\n{}\n</Card>|<Card\n  title='{}'\n/>|<script>\n{}\n\n{}\n</script>|<pre>\n{}\n\n{}\n</pre>|<? {} ?>|"
    "</div>\n{}|<img\nalt='{}'>",
    "definitions": "[a]: https://x.y/z. \"{}\"|[a]: /u '{}'|[a]: <u v> ({})|[a. B]: /u|[^1]: {}|[^nota]: {}\n{}",
    "modules": "import {{A. B}} from './x';|import a from 'A. B'|export const a = '{}'|"
    "export default function () {{\n  return '{}'\n}}|import type {{A}} from 'a. B'",
    "rows": "| {} | b |",
}  # fmt: skip

TABLES = (
    "| a | {} |\n|---|---|\n| {} | 2.5 |",
    "a | {}\n--- | ---\n{} | 3",
    "| a |\n| :-: |\n| `x`. Y |\n| {} |",
    "a|b\n-|-\n{}|{}\n{}",
    "| a \\| b | {} |\n|:--|--:|\n| {} |",
)

# By settled case, the test below that its class is in.
GENERALISED = {
    "test_whole_before_a_name": "A05 A06 A07 A08 A09 A10 A11 A13 A21 D07",
    "test_whole_in_a_phrase": "A01 A02 A03 A04 A17 A18 A19 A20 D18",
    "test_may_also_end_a_sentence_and_does_not_cut": "D08 D09",
    "test_the_stop_after_a_word_ends_the_sentence": "A01 A02 A03 A04",
    "test_stops": "A14 D06 D07",
    "test_white_space": "A22 A23 D19 D20",
    "test_what_begins_a_sentence": "A12 A16",
    "test_what_begins_no_sentence": "A15 D11",
    "test_a_stop_before_a_closing_mark_does_not_cut": "D04 D05 D10",
    "test_a_block_is_one_unit": "A24 A25 A29 A30 D02 D03 D16 D17 D21 D22",
    "test_a_block_beside_text": "A24 A25 A27 D22",
    "test_an_open_fence_runs_to_the_end": "A26",
    "test_a_row_is_one_unit": "A28 D14",
    "test_each_item_is_a_unit": "D01",
    "test_a_fence_in_an_item_or_quote_is_a_unit": "D12 D13",
    "test_front_matter": "D15",
}


def in_each_language(table: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    return [
        (language, name, written)
        for name, by_language in table.items()
        for language in LANGUAGES
        for written in by_language[language].split("|")
    ]


def test_every_settled_case_is_generalised() -> None:
    lines = CASES_FILE.read_text(encoding="utf-8").split("\n")
    settled = {json.loads(line)["id"].split("-")[0] for line in lines if line}
    assert {case for cases in GENERALISED.values() for case in cases.split()} == settled
    assert all(name in globals() for name in GENERALISED)


# -- inside sentences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "kind", "written"), in_each_language(BEFORE_A_NAME))
@pytest.mark.parametrize("space", [" ", "\xa0", "\n"], ids=["space", "nbsp", "line end"])
def test_whole_before_a_name(language: str, kind: str, written: str, space: str) -> None:
    sentence = WITHIN[language].format(written).replace(" ", space)
    assert split_sentences(f"{sentence} {NEXT[language]}") == [sentence, NEXT[language]], kind


@pytest.mark.parametrize("written", [each for row in INSIDE.values() for each in row.split("|")])
@pytest.mark.parametrize("language", LANGUAGES)
def test_whole_in_a_phrase(language: str, written: str) -> None:
    sentence = PHRASE[language].format(written)
    assert split_sentences(f"{sentence} {NEXT[language]}") == [sentence, NEXT[language]]


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("es", f"Vive en {each}")
        for each in ("EE. UU.", "Acme S. A.", "la opción B.", "la C/ D.", "el s. IV d. C.")
    ]
    + [
        ("en", f"He is in {each}")
        for each in ("the U.S.", "Acme Inc.", "option B.", "Main St.", "May at 5 p.m.")
    ],
)
def test_may_also_end_a_sentence_and_does_not_cut(language: str, sentence: str) -> None:
    text = f"{sentence} {NEXT[language]}"
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(("language", "kind", "word"), in_each_language(LAST_WORDS))
@pytest.mark.parametrize("stop", [".", "!", "?"])
def test_the_stop_after_a_word_ends_the_sentence(language: str, kind: str, word: str, stop: str) -> None:
    before = {"es": "Aquí sale", "en": "Here comes"}[language]
    assert split_sentences(f"{before} {word}{stop} {NEXT[language]}") == [
        f"{before} {word}{stop}",
        NEXT[language],
    ], kind


# -- between sentences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("stop", STOPS)
def test_stops(language: str, stop: str) -> None:
    units = [f"Uno dos{stop}", NEXT[language]]
    assert split_sentences(" ".join(units)) == ([" ".join(units)] if stop in ("…", ".)") else units)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("space", SPACES, ids=map(repr, SPACES))
def test_white_space(language: str, space: str) -> None:
    units = ["Uno\ndos.", f"Tres{space}cuatro.", NEXT[language]]
    assert split_sentences(space.join(units)) == units
    assert split_sentences(f"Uno dos{space}Tres cuatro.") == [f"Uno dos{space}Tres cuatro."]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r", "\n \t\n", "\n\n\n"])
def test_a_blank_line_ends_a_paragraph(end: str) -> None:
    assert split_sentences(f"uno{end}dos{end}") == ["uno", "dos"]


@pytest.mark.parametrize(
    ("language", "following"),
    [(language, each) for language in LANGUAGES for each in OPENINGS[language].split("|")],
)
@pytest.mark.parametrize("stop", [".", "!", "?", "...", "?!"])
def test_what_begins_a_sentence(language: str, following: str, stop: str) -> None:
    if stop == "..." and following.startswith("I "):
        return  # settled otherwise: "I" is always a capital
    assert split_sentences(f"Uno dos{stop} {following}") == [f"Uno dos{stop}", following]


@pytest.mark.parametrize(
    ("language", "following"),
    [(language, each) for language in LANGUAGES for each in NO_OPENINGS[language].split("|")],
)
@pytest.mark.parametrize("stop", [".", "!", "?", "...", "?!"])
def test_what_begins_no_sentence(language: str, following: str, stop: str) -> None:
    assert split_sentences(f"Uno dos{stop} {following}") == [f"Uno dos{stop} {following}"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("closing", CLOSED_AFTER_STOP)
@pytest.mark.parametrize("stop", [".", "!", "?", "..."])
def test_a_stop_before_a_closing_mark_does_not_cut(language: str, closing: str, stop: str) -> None:
    text = f"Uno dos{stop}{closing} {NEXT[language]}"
    assert split_sentences(text) == [text]


# -- blocks ---------------------------------------------------------------------------------------------


def blocks() -> list[tuple[str, str]]:
    return [
        (kind, written.replace("{}", filling).replace("{{", "{").replace("}}", "}"))
        for kind, row in BLOCKS.items()
        for written, filling in product(row.split("|") if kind != "rows" else [row], ["Uno. Dos", "One? Two"])
    ] + [("fences", "```\n| a. B |\n|---|\n```")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("kind", "block"), blocks())
def test_a_block_is_one_unit(kind: str, block: str, line_end: str) -> None:
    block = block.replace("\n", line_end)
    blank = 2 * line_end
    assert split_sentences(f"Uno.{blank}{block}{blank}Dos. Tres.") == [
        "Uno.",
        block.strip(),
        "Dos.",
        "Tres.",
    ], kind


@pytest.mark.parametrize(
    ("kind", "block"),
    [each for each in blocks() if each[0] in ("fences", "headings", "rows") and "\n=" not in each[1]],
)
def test_a_block_beside_text(kind: str, block: str) -> None:
    if "\n---" in block:
        assert split_sentences(f"{block}\nDos. Tres.") == [block, "Dos.", "Tres."]
    else:
        assert split_sentences(f"Uno:\n{block}\nDos. Tres.") == ["Uno:", block.strip(), "Dos.", "Tres."], kind


@pytest.mark.parametrize("opening", ["```", "````", "~~~", "```py", "~~~ `a`", "   ```"])
@pytest.mark.parametrize("inside", ["uno. Dos", "uno. Dos\n\ntres. Cuatro", "~~\n``", "# A. B\n\n- C. D"])
def test_an_open_fence_runs_to_the_end(opening: str, inside: str) -> None:
    fence = f"{opening}\n{inside}"
    assert split_sentences(f"Antes.\n\n{fence}\n") == ["Antes.", fence.strip()]


@pytest.mark.parametrize("filling", ["Uno. Dos", "One? Two"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("before", ["", "Antes.\n\n", "# Antes\n"])
def test_a_row_is_one_unit(table: str, filling: str, before: str) -> None:
    rows = table.replace("{}", filling).split("\n")
    heading = [before.strip()] if before else []
    text = before + "\n".join([*rows, "", "Fin. Sí."])
    assert split_sentences(text) == [*heading, *rows, "Fin.", "Sí."]


@pytest.mark.parametrize("marks", ["- - -", "* * *", "1. 2. 3.", "1) 2) 3)", "- 1. *"])
@pytest.mark.parametrize("between", ["\n", "\n\n", "\n  a. B\n"])
def test_each_item_is_a_unit(marks: str, between: str) -> None:
    items = [f"{mark} Uno. Dos" for mark in marks.split()]
    continued = [item + between.rstrip("\n") for item in items[:-1]]
    assert split_sentences(between.join(items)) == [*continued, items[-1]]


@pytest.mark.parametrize("fence", ["```\n{0}a. B\n{0}```", "~~~py\n{0}a. B\n{0}\n{0}c. D\n{0}~~~"])
@pytest.mark.parametrize(
    ("first", "others"), [("- ", "  "), ("1. ", "   "), ("> ", "> "), ("- - ", "    "), ("> - ", ">   ")]
)
def test_a_fence_in_an_item_or_quote_is_a_unit(first: str, others: str, fence: str) -> None:
    written = others + fence.format(others)
    units = split_sentences(f"{first}Paso. Uno:\n{written}\n{others}Fin. Sí")
    assert units == [f"{first}Paso. Uno:", written.strip(), f"{others}Fin. Sí".strip()]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("end", ["---", "..."])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_front_matter(line_end: str, end: str, bom: str) -> None:
    matter = f"{bom}---\ntitle: Guía. Parte 1\n\n# a. B\n- c. D\n{end}".replace("\n", line_end)
    assert split_sentences(f"{matter}{line_end}Texto. Fin.") == [matter, "Texto.", "Fin."]


# -- MDX ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", ["", "  ", "    ", "\t"], ids=repr)
@pytest.mark.parametrize("tag", ["Fragment slot='a'", "details", "div"])
def test_a_fence_directly_after_a_tag_is_a_unit(tag: str, indent: str) -> None:
    """CommonMark ends the HTML at the blank line of the code, and reads the rest of it as prose."""
    fence = f"{indent}```js\n{indent}uno. Dos\n\n{indent}tres. Cuatro\n{indent}```"
    name = tag.split()[0]
    text = f"<{tag}>\n{fence}\n</{name}>\n<b>\n{fence}\n</b>\n\nFin. Sí."
    assert split_sentences(text) == [
        f"<{tag}>",
        fence.strip(),
        f"</{name}>\n<b>",
        fence.strip(),
        "</b>",
        "Fin.",
        "Sí.",
    ]


def test_a_fence_in_html_that_nothing_closes_is_html() -> None:
    assert split_sentences("<div>\n```\na. B\n</div>\n\nFin. Sí.") == [
        "<div>\n```\na. B\n</div>",
        "Fin.",
        "Sí.",
    ]
