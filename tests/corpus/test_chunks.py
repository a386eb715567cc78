"""What chunks.py promises: when two chunks are the same content, and that a path is no part of it."""

from __future__ import annotations

import base64
import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.corpus.chunks import (
    DocumentText,
    Occurrence,
    embedded_text,
    heading_line,
    occurrences,
    short_hash,
)
from bib_orchestration.biblioteca.corpus.documents import Document, read_document
from bib_orchestration.biblioteca.corpus.sources import RawFile
from bib_orchestration.biblioteca.settings import Source

CASES_FILE = Path(__file__).parent.parent / "cases" / "upkeep.jsonl"
CASES = {
    case["id"]: case
    for case in map(json.loads, filter(None, CASES_FILE.read_text(encoding="utf-8").split("\n")))
}
WIKI = Source(name="wiki", path="wiki")
PAGE = "# Sede\n\nAbre a las 9.\n\n## Horario de verano\n\n" + "En julio y agosto cierra a las 15. " * 12


def document(data: bytes | str, path: str = "sede.md") -> Document:
    return read_document(WIKI, RawFile(path, data.encode() if isinstance(data, str) else data), None)


def cut(made: Document) -> list[Occurrence]:
    text = DocumentText(
        made.doc_id, made.source, made.path, made.kind, made.own_title, made.text, made.content_hash
    )
    return occurrences(text, max_tokens=400, min_tokens=60)


def content_ids(data: bytes | str, path: str = "sede.md") -> list[str]:
    return [occurrence.content_id for occurrence in cut(document(data, path))]


def test_case_h08() -> None:
    case = CASES["H08-bom-crlf"]
    ((path, data),) = case["input"]["files_b64"].items()
    ((_, twin),) = case["input"]["twin_b64"].items()
    made = document(base64.b64decode(data), path)
    chunks = cut(made)
    assert made.title == case["expected"]["title"]
    assert chunks
    for chunk in chunks:
        embedded = embedded_text(chunk.title, chunk.heading_path, chunk.body)
        for absent in case["expected"]["absent_in_every_chunk"]:
            assert absent not in chunk.text
            assert absent not in embedded
    twin_chunks = cut(document(base64.b64decode(twin), path))
    assert [chunk.content_id for chunk in chunks] == [chunk.content_id for chunk in twin_chunks]
    assert [chunk.chunk_id for chunk in chunks] == [chunk.chunk_id for chunk in twin_chunks]


class TestContentId:
    @pytest.mark.parametrize(
        "twin",
        [
            PAGE.replace("\n", "\r\n"),
            PAGE.replace("\n", "\r"),
            "\ufeff" + PAGE,
            PAGE.replace("á", "a\u0301"),
            unicodedata.normalize("NFD", PAGE).encode("utf-16"),
            PAGE.replace("\n\n", "\n\n\n"),
            PAGE + "\n\n",
            "---\ntitle: Sede\ntags: [a]\n---\n" + PAGE,
        ],
    )
    def test_the_same_page_in_another_guise(self, twin: bytes | str) -> None:
        assert content_ids(twin) == content_ids(PAGE)

    def test_another_path_is_the_same_content_and_another_occurrence(self) -> None:
        one, other = cut(document(PAGE, "a.md")), cut(document(PAGE, "b/c.md"))
        assert [chunk.content_id for chunk in one] == [chunk.content_id for chunk in other]
        assert not {chunk.chunk_id for chunk in one} & {chunk.chunk_id for chunk in other}

    def test_a_title_from_the_file_name_is_not_embedded(self) -> None:
        assert content_ids("Abre a las 9.", "a.md") == content_ids("Abre a las 9.", "b.md")
        assert cut(document("Abre a las 9."))[0].title == ""

    def test_body_below_another_heading_or_title_is_another_content_with_the_same_text(self) -> None:
        pages = ["# A\n\nx", "# B\n\nx", "x", "---\ntitle: A\n---\n# B\n\nx", "# A\n\n## B\n\nx"]
        chunks = [chunk for page in pages for chunk in cut(document(page))]
        assert len({chunk.content_id for chunk in chunks}) == len(pages) - 1  # "B" below "A", twice
        assert len({chunk.text_hash for chunk in chunks}) == 1

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_another_body_is_another_content(self, one: str, other: str) -> None:
        chunks = [cut(replace(document("x"), text=text)) for text in (f"a {one}", f"a {other}")]
        bodies, ids, hashes = (
            [[getattr(chunk, name) for chunk in made] for made in chunks]
            for name in ("body", "content_id", "text_hash")
        )
        paths = [[chunk.heading_path for chunk in made] for made in chunks]
        assert (ids[0] == ids[1]) == ((paths[0], bodies[0]) == (paths[1], bodies[1]))
        assert (hashes[0] == hashes[1]) == (bodies[0] == bodies[1])

    def test_hashes_are_of_what_they_are_said_to_be(self) -> None:
        for ordinal, chunk in enumerate(cut(document(PAGE))):
            embedded = embedded_text("Sede", chunk.heading_path, chunk.body)
            assert chunk.content_id == short_hash(embedded)
            assert embedded.startswith(f"{chunk.heading_path}\n\n{chunk.body}")
            assert chunk.text_hash == short_hash(chunk.body)
            assert chunk.chunk_id == short_hash(f"wiki\0sede.md\0{ordinal}")
            assert chunk.ordinal == ordinal

    def test_ids_do_not_change_between_versions(self) -> None:
        # They are stored: if this fails, every vector is made anew.
        assert short_hash("Sede > Horario\n\nAbre a las 9.") == "a7d3f4d4e81ff4cd590204b049e03515"
        assert len(short_hash("")) == 32


class TestHeadingLine:
    @pytest.mark.parametrize(
        ("title", "path", "line"),
        [
            ("", "", ""),
            ("Sede", "", "Sede"),
            ("", "Sede > Horario", "Sede > Horario"),
            ("Sede", "Sede", "Sede"),
            ("Sede", "Sede > Horario", "Sede > Horario"),
            ("Sede", "Sede social", "Sede > Sede social"),
            ("Sede", "Horario > Sede", "Sede > Horario > Sede"),
            ("A > B", "A > B > C", "A > B > C"),
            ("A > B", "A > B", "A > B"),
        ],
    )
    def test_a_title_that_is_the_first_heading_stands_once(self, title: str, path: str, line: str) -> None:
        assert heading_line(title, path) == line


def test_lone_surrogates_have_a_hash() -> None:
    assert short_hash("\ud800") != short_hash("\ud801")
