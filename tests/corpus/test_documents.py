"""What decoding.py, front_matter.py and documents.py promise: text, front matter, titles and names."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus import documents
from bib_orchestration.biblioteca.corpus.blocks import MAX_TITLE
from bib_orchestration.biblioteca.corpus.documents import (
    Document,
    UnreadableDocument,
    decode,
    decoded,
    make_document,
    parse_front_matter,
    read_document,
    slug_of,
)
from bib_orchestration.biblioteca.corpus.markdown import chunk_markdown
from bib_orchestration.biblioteca.corpus.normal_text import normal
from bib_orchestration.biblioteca.corpus.sources import RawFile
from bib_orchestration.biblioteca.settings import Source

WIKI = Source(name="wiki", path="wiki", source_type="docs", app="crearack", language="es")
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
)
GIF = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00"
TAR = b"docs/a.md" + b"\0" * 91 + b"0000644\0" + b"0001750\0" * 2 + b"# Hola\n" + b"\0" * 505


def document(data: bytes | str, path: str = "guia.md") -> Document:
    data = data.encode() if isinstance(data, str) else data
    return read_document(WIKI, RawFile(path, data), "c0ffee")


class TestDecode:
    @pytest.mark.parametrize(
        ("data", "text", "encoding"),
        [
            (b"", "", "utf-8"),
            ("Añadir".encode(), "Añadir", "utf-8"),
            (b"\xef\xbb\xbfA\xc3\xb1adir", "Añadir", "utf-8"),
            (b"\xef\xbb\xbf\xef\xbb\xbfdos", "dos", "utf-8"),
            (b"a\r\nb\rc\nd", "a\r\nb\rc\nd", "utf-8"),
            (b"a\xc2\x85b\xe2\x80\xa8c", "a\x85b\u2028c", "utf-8"),
            (b"stray\0NUL", "stray\0NUL", "utf-8"),
            (b"Configuraci\xf3n \x96 \x8010", "Configuración – €10", "cp1252"),
            ("Añadir".encode("utf-16"), "Añadir", "utf-16"),
            (b"\xfe\xff" + "Añadir".encode("utf-16-be"), "Añadir", "utf-16"),
            ("Añadir".encode("utf-32"), "Añadir", "utf-32"),
        ],
    )
    def test_text_and_encoding(self, data: bytes, text: str, encoding: str) -> None:
        assert decode(data) == (text, encoding)

    def test_one_wrong_byte_does_not_garble_a_utf8_text(self) -> None:
        text, encoding = decode("Añadir a la configuración ".encode() + b"m\xe1s")
        assert (text, encoding) == ("Añadir a la configuración más", "utf-8 with cp1252 bytes")

    @pytest.mark.parametrize(
        "data", [PNG, GIF, TAR, b"MZ\0\0\0\0PE\0\0 text", b"caf\xe9\0", bytes(range(256))]
    )
    def test_binary_files(self, data: bytes) -> None:
        with pytest.raises(UnreadableDocument, match=r"^binary file"):
            decode(data)

    def test_bytes_that_cp1252_leaves_undefined(self) -> None:
        with pytest.raises(UnreadableDocument, match=r"byte 2 \(0x81\)"):
            decode(b"a\xe9\x81")

    def test_broken_utf16(self) -> None:
        with pytest.raises(UnreadableDocument, match="utf-16"):
            decode(b"\xff\xfea\x00b")

    def test_many_nuls_in_a_long_text_are_still_stray(self) -> None:
        text = "palabra " * 1000 + "\0" * 10
        assert decode(text.encode())[0] == text

    @given(st.binary())
    def test_arbitrary_bytes_give_text_or_unreadable(self, data: bytes) -> None:
        try:
            text, _ = decode(data)
        except UnreadableDocument:
            return
        text.encode("utf-8")  # no lone surrogates

    @given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
    def test_utf8_comes_back(self, text: str) -> None:
        assert decode(text.encode())[0] == text.lstrip("\ufeff")


class TestReadDocument:
    def test_fields(self) -> None:
        text = "---\ntitle: Alta de usuario\nslug: alta\n---\n# Otra\n"
        read = document(text, "crearack/Alta.mdx")
        assert (read.source, read.path, read.kind) == ("wiki", "crearack/Alta.mdx", "mdx")
        assert (read.source_type, read.app, read.language) == ("docs", "crearack", "es")
        assert (read.title, read.own_title, read.slug) == ("Alta de usuario", "Alta de usuario", "alta")
        assert (read.bytes, read.tokens, read.commit) == (len(text), -(-len(text) // 4), "c0ffee")
        assert read.text[read.body_start :] == "# Otra\n"
        assert read.warnings == ()
        assert len(read.doc_id) == 32

    def test_in_two_stages(self) -> None:
        raw = RawFile("a.md", b"\xef\xbb\xbf# Uno\r\n")
        file = decoded(raw)
        assert (file.path, file.text, file.encoding, file.bytes) == ("a.md", "# Uno\r\n", "utf-8", 10)
        assert make_document(WIKI, file, "c0ffee") == read_document(WIKI, raw, "c0ffee")
        assert file.content_hash == document("# Uno\r\n").content_hash

    def test_an_unchanged_file_is_not_parsed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(documents, "read_blocks", None)
        monkeypatch.setattr(documents, "parse_front_matter", None)
        assert decoded(RawFile("a.md", b"---\ntitle: x\n---\n# Uno\n")).text

    def test_doc_id_is_of_source_and_path(self) -> None:
        assert document("a", "a.md").doc_id == document("b", "a.md").doc_id
        assert document("a", "a.md").doc_id != document("a", "b.md").doc_id
        # sha256 of "wiki", NUL, "a.md"
        assert document("a", "a.md").doc_id == "0dd1712c718d5d9a82aaad45af1f98df"

    def test_same_text_same_hash(self) -> None:
        text = "# Añadir\n\ncódigo\n"
        same = [text.encode(), b"\xef\xbb\xbf" + text.encode(), text.encode("cp1252"), text.encode("utf-16")]
        assert len({document(data).content_hash for data in same}) == 1
        # Offsets are of the text as it is, so these are other texts, though no embedding is made for them.
        others = [text + "\n", text.replace("\n", "\r\n"), "# An\u0303adir\n\nco\u0301digo\n"]
        assert len({document(data).content_hash for data in (text, *others)}) == 1 + len(others)

    def test_text_keeps_crlf_and_offsets(self) -> None:
        read = document(b"\xef\xbb\xbf---\r\ntitle: A\r\n---\r\nUno\r\nDos\r\n")
        assert read.text == "---\r\ntitle: A\r\n---\r\nUno\r\nDos\r\n"
        assert read.text[read.body_start :] == "Uno\r\nDos\r\n"

    @pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
    def test_empty(self, data: bytes) -> None:
        with pytest.raises(UnreadableDocument, match=r"^empty file$"):
            document(data)

    @pytest.mark.parametrize("data", [b"\n \t\r\n", "\u00a0\n".encode(), b"\0\0"])
    def test_blank(self, data: bytes) -> None:
        with pytest.raises(UnreadableDocument, match=r"^blank file$"):
            document(data)

    def test_front_matter_alone_is_a_document(self) -> None:
        read = document("---\ntitle: Solo\n---\n")
        assert (read.title, read.body_start) == ("Solo", len(read.text))

    def test_warnings(self) -> None:
        assert document(b"caf\xe9").warnings == ("read as cp1252",)
        assert document(b"un NUL \0 suelto en un texto").warnings == ("holds NUL characters",)
        assert document("---\na: [\n---\n").warnings[0].startswith("front matter is not valid YAML: line ")

    def test_a_line_of_two_megabytes(self) -> None:
        started = time.monotonic()
        for line in ("x" * 2_000_000, "# " + "[ #*`" * 400_000, "---" + " " * 2_000_000, "é\\" * 1_000_000):
            assert document(line).tokens == -(-len(line) // 4)
        assert time.monotonic() - started < 5


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("# Uno\n\n# Dos\n", "Uno"),
            ("## Dos\n# Uno", "Uno"),
            ("intro\r\n\r\n# Uno ##\r\n", "Uno"),
            ("\r# Uno\r", "Uno"),
            ("   # Uno", "Uno"),
            ("Uno\n===\n", "Uno"),
            ("Uno\ny medio\n=\n", "Uno y medio"),
            ("#\n# Uno", "Uno"),
            ("```sh\n# no\n```\n# Uno", "Uno"),
            ("~~~\n```\n# no\n~~~~\n# Uno", "Uno"),
            ("````\n```\n# no\n````\n# Uno", "Uno"),
            ("- ```sh\n  # no\n  ```\n\n# Uno", "Uno"),
            ("<!--\n# no\n-->\n# Uno", "Uno"),
            ("<!-- no -->\n# Uno", "Uno"),
            (
                "# Uso de `bib index` y **negrita** con [enlace](x.md) {#ancla}",
                "Uso de bib index y negrita con enlace",
            ),
            ("# C\\# y snake_case_name", "C# y snake_case_name"),
            ("# C#", "C#"),
            ("#hashtag\n    # código\n\t# código\n#! no", ""),
            ("```\n# sin cerrar", ""),
            ("- lista\n===\n", ""),
            ("a\n\n===\n", ""),
            ("# a\u2028b", "a b"),
        ],
    )
    def test_first_heading(self, text: str, title: str) -> None:
        assert document(text).own_title == title

    def test_file_name_is_the_last_resort(self) -> None:
        read = document("sin título", "a/Guía rápida.v2.md")
        assert (read.title, read.own_title) == ("Guía rápida.v2", "")

    def test_heading_inside_front_matter_is_none(self) -> None:
        assert document("---\n# comentario\nslug: x\n---\n# Uno").title == "Uno"

    @pytest.mark.parametrize(
        ("typed", "title"),
        [("1.10", "1.10"), ("007", "007"), ("No", "No"), ("2026-01-02", "2026-01-02"), ('"a: b"', "a: b")],
    )
    def test_front_matter_title_is_as_typed(self, typed: str, title: str) -> None:
        assert document(f"---\ntitle: {typed}\n---\n# Uno").title == title

    @pytest.mark.parametrize("typed", ["", "~", "[a]", "{a: 1}", '""', '"  "'])
    def test_no_title_in_front_matter(self, typed: str) -> None:
        assert document(f"---\ntitle: {typed}\n---\n# Uno").title == "Uno"

    @given(st.text(max_size=50))
    def test_any_text(self, text: str) -> None:
        # Among many words, no control characters make it a binary file.
        title = document("palabra " * 1000 + f"\n\n# {text}").own_title
        assert title == " ".join(title.split())
        assert len(title) <= MAX_TITLE

    def test_headings_that_are_none(self) -> None:
        assert document("<div>\n# no\n</div>\n\n> # tampoco\n\n- # ni\n").own_title == ""

    def test_cut_at_a_length(self) -> None:
        assert document("# " + "a " * 500).own_title == ("a " * 150).rstrip()

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize(
        "heading",
        [
            "# Uso de `bib_index` y **negrita _con_** [enlace](x.md) {#ancla} ##",
            "Uno\ny *medio*\n===",
            "# C\\# y snake_case_name, 2 * 3 { #c }",
            "# con NUL \0 dentro",
            "# Cañón cafe\u0301",
            "# " + "largo " * 100,
        ],
    )
    def test_the_title_is_the_first_heading_of_the_chunks(self, heading: str, end: str) -> None:
        text = f"---\nlayout: x\n---\n\n{heading}\n\nTexto.\n".replace("\n", end)
        read = document(text)
        (chunk,) = chunk_markdown(read.text)
        assert normal(read.own_title) == chunk.heading_path != ""


class TestSlug:
    @pytest.mark.parametrize(
        ("path", "slug"),
        [
            ("crearack/Alta de Usuario.md", "crearack--alta-de-usuario"),
            ("crearack/index.md", "crearack"),
            ("a/index/b.md", "a--index--b"),
            ("index.md", "index"),
            ("a/Index.mdx", "a"),
            ("Año 2026/¿Qué?.md", "ano-2026--que"),
            ("Cañón.md", "canon"),
            ("Can\u0303o\u0301n.md", "canon"),
            ("v1.2/notas.finales.md", "v1-2--notas-finales"),
        ],
    )
    def test_from_path(self, path: str, slug: str) -> None:
        assert slug_of(path) == slug

    def test_never_empty(self) -> None:
        assert slug_of("日本語.md") != slug_of("中文.md")
        assert len(slug_of("日本語.md")) == 8

    @pytest.mark.parametrize("typed", ["", "12", "[a]", '" "'])
    def test_front_matter_slug_must_be_a_string(self, typed: str) -> None:
        assert document(f"---\nslug: {typed}\n---\n", "a/b.md").slug == "a--b"


class TestFrontMatter:
    def values(self, block: str) -> dict[str, Any]:
        front = parse_front_matter(f"---\n{block}\n---\nbody")
        assert front.warnings == ()
        return front.values

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("closing", ["---", "...", "---  "])
    def test_line_ends_and_closings(self, end: str, closing: str) -> None:
        text = end.join(["---", "a: 1", closing, "body"])
        front = parse_front_matter(text)
        assert front.values == {"a": 1}
        assert text[front.body_start :] == "body"

    def test_values_are_as_json_holds_them(self) -> None:
        values = self.values(
            "day: 2026-01-02\nat: 2026-01-02T03:04:05Z\nnan: .nan\ninf: -.inf\n2: two\ntrue: yes\n~: null\n"
            "2026-01-02: key\ntags: [a, b]\nset: !!set {b, a}\nnot_a_day: 2026-02-30\neq: =\n"
            'bin: !!binary YQ==\nn: !!int x\nm: !!timestamp x\nface: "\\ud83d\\ude00"\nlone: "\\ud800"'
        )
        assert values == {
            "day": "2026-01-02",
            "at": "2026-01-02T03:04:05+00:00",
            "nan": "nan",
            "inf": "-inf",
            "2": "two",
            "true": True,
            "null": None,
            "2026-01-02": "key",
            "tags": ["a", "b"],
            "set": ["a", "b"],
            "not_a_day": "2026-02-30",
            "eq": "=",
            "bin": "YQ==",
            "n": "x",
            "m": "x",
            "face": "\U0001f600",
            "lone": "\ufffd",
        }
        json.dumps(values, allow_nan=False).encode()

    def test_toml(self) -> None:
        text = '+++\ntitle = "Uno"\ndate = 2026-01-02\nat = 03:04:05\nx = nan\n[params]\na = [1]\n+++\nbody'
        front = parse_front_matter(text)
        assert front.values == {
            "title": "Uno",
            "date": "2026-01-02",
            "at": "03:04:05",
            "x": "nan",
            "params": {"a": [1]},
        }
        assert (front.title, text[front.body_start :], front.warnings) == ("Uno", "body", ())

    @pytest.mark.parametrize(
        ("text", "warning"),
        [
            ("---\na: 1\nb: [\nc: 2\n---\nbody", "front matter is not valid YAML: line 3: "),
            ("---\r\na: 1\r\nb: 'x\r\n---\r\nbody", "front matter is not valid YAML: line 3: "),
            ("---\na: 1\nb: \x01\n---\nbody", "front matter is not valid YAML: line 3: character"),
            (
                "---\na: &x 1\nb: *x\n---\nbody",
                "front matter is not valid YAML: line 3: aliases (*name) are not read",
            ),
            ("---\ntitle: {{ page.title }}\n---\nbody", "front matter is not valid YAML: line 2: "),
            ("---\na: !!python/object:os.system x\n---\nbody", "front matter is not valid YAML: line 2: "),
            ("---\na: " + "[" * 70 + "\n---\nbody", "front matter is not valid YAML: line 2: nested over 64"),
            (
                "---\na: " + "[" * 60_000 + "\n---\nbody",
                "front matter is not valid YAML: line 2: nested over 64",
            ),
            ('---\na: "\\Uffffffff"\n---\nbody', "front matter is not valid YAML: "),
            ("+++\na = 1\nb = = 2\n+++\nbody", "front matter is not valid TOML: line 3: "),
            ("+++\na = " + "[" * 60_000 + "\n+++\nbody", "front matter is not valid TOML: nested too deeply"),
            ("+++\na" + ".a" * 30_000 + " = 1\n+++\nbody", "front matter is not valid TOML: nested over 64"),
        ],
    )
    def test_broken_block_warns_and_the_body_begins_after_it(self, text: str, warning: str) -> None:
        front = parse_front_matter(text)
        assert front.warnings[0].startswith(warning)
        assert (front.values, text[front.body_start :]) == ({}, "body")

    def test_billion_laughs(self) -> None:
        laughs = "a: &a [x]\n" + "".join(
            f"{b}: &{b} [*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        )
        assert "aliases" in parse_front_matter(f"---\n{laughs}---\n").warnings[0]

    @pytest.mark.parametrize(
        ("text", "warned"),
        [
            ("---\ntitle: x\n\nbody", True),
            ("---\n\nbody: no\n", False),
            ("+++\ntitle = 'x'\n", True),
            ("---\na: 1\n" + "b: 2\n" * 20_000 + "---\n", True),
            ("---", False),
            ("---\n", False),
        ],
    )
    def test_block_that_is_not_closed_is_body(self, text: str, warned: bool) -> None:
        front = parse_front_matter(text)
        assert (front.values, front.body_start, bool(front.warnings)) == ({}, 0, warned)

    @pytest.mark.parametrize(
        "text",
        [
            "body\n---\na: 1\n---\n",
            " ---\na: 1\n---\n",
            "----\na: 1\n---\n",
            "---\nJust prose between two rules.\n---\n",
            "---\n**Bold** prose between two rules.\n---\n",
            "---\n- a\n- b\n---\n",
            "---\u2028a: 1\u2028---\n",
        ],
    )
    def test_what_is_no_front_matter_is_body(self, text: str) -> None:
        front = parse_front_matter(text)
        assert (front.values, front.body_start, front.warnings) == ({}, 0, ())

    @pytest.mark.parametrize("block", ["", "\n", "# only a comment\n"])
    def test_empty_block(self, block: str) -> None:
        text = f"---\n{block}---\nbody"
        front = parse_front_matter(text)
        assert (front.values, text[front.body_start :], front.warnings) == ({}, "body", ())

    @settings(max_examples=300)
    @given(
        st.sampled_from(["---", "+++"]),
        st.one_of(
            st.text(),
            st.lists(
                st.sampled_from(
                    [
                        *"abt:-?!&*#{}[],|>%@`'\"=<~.019_+",
                        "\n",
                        " ",
                        "\r",
                        "\t",
                        ": ",
                        "- ",
                        "<<",
                        "!!int ",
                        "\\u",
                    ]
                )
            ).map("".join),
        ),
    )
    def test_arbitrary_text_never_raises(self, rule: str, block: str) -> None:
        text = f"{rule}\n{block}\n{rule}\nbody"
        front = parse_front_matter(text)
        assert 0 <= front.body_start <= len(text)
        json.dumps(front.values, allow_nan=False, ensure_ascii=False).encode()

    @given(st.text())
    def test_any_text_never_raises(self, text: str) -> None:
        parse_front_matter(text)
