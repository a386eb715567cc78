"""The cases of `cases/upkeep.jsonl` that go step by step: each from a public report on a tool of this kind.

Their `steps` are carried out on a real warehouse and a real LanceDB table; `expected` is read from the case.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.retrieval.retrieve import RetrievalOptions, RetrievedChunk, retrieve
from bib_orchestration.biblioteca.settings import load_settings

CASES = {
    case["id"]: case
    for line in (Path(__file__).parent / "cases" / "upkeep.jsonl").read_text(encoding="utf-8").splitlines()
    if (case := json.loads(line))
}
BIB_TOML = """\
[[sources]]
name = "all"
path = "files"
"""


class Driver:
    """Carries out the steps of a case and keeps what happened in each, by its number."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.files.mkdir()
        (folder / "bib.toml").write_text(BIB_TOML, encoding="utf-8")
        settings = load_settings(folder / "bib.toml", environ={"BIB_HOME": str(folder / "home")})
        self.embedder = CountingEmbedder()
        self.library = Library(settings)
        self.library.embedder = self.embedder
        self.step = 0
        self.embedded: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.failed: dict[int, bool] = {}
        self.rows_after: dict[int, list[dict[str, Any]]] = {}
        self.found_after: dict[int, list[RetrievedChunk]] = {}

    def run(self, steps: Sequence[dict[str, Any]], query: str | None = None) -> None:
        for self.step, step in enumerate(steps, start=1):
            getattr(self, f"do_{step['op']}")(step)
            self.rows_after[self.step] = self.rows()
            if query and self.rows_after[self.step]:
                self.found_after[self.step] = self.search(query)

    def do_write(self, step: dict[str, Any]) -> None:
        file = self.files / step["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(step["text"], encoding="utf-8", newline="")

    def do_write_b64(self, step: dict[str, Any]) -> None:
        file = self.files / step["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(step["data"]))

    def do_move(self, step: dict[str, Any]) -> None:
        target = self.files / step["to"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.files / step["from"], target)

    def do_delete(self, step: dict[str, Any]) -> None:
        (self.files / step["path"]).unlink()

    def do_embedder(self, step: dict[str, Any]) -> None:
        def refuse(texts: Sequence[str]) -> None:
            raise RuntimeError(step["message"])

        self.embedder.fail = refuse if step["mode"] == "raise" else lambda texts: None

    def do_index(self, step: dict[str, Any]) -> None:
        given, versions = len(self.embedder.texts), self.versions()
        self.failed[self.step] = False
        try:
            report = index_all(self.library)
            self.failed[self.step] = bool(report.errors)
        except RuntimeError:
            if not step.get("may_fail"):
                raise
            self.failed[self.step] = True
        self.embedded[self.step] = len(self.embedder.texts) - given
        self.written[self.step] = self.versions() - versions

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the live index."""
        generation = self.library.store.current()
        if generation is None:
            return []
        rows: list[dict[str, Any]] = self.library.store.open(generation.table).to_arrow().to_pylist()
        return rows

    def versions(self) -> int:
        """How often any table of the index was written to."""
        store = self.library.store
        return sum(len(store.open(name).list_versions()) for name in store.tables())

    def search(self, query: str) -> list[RetrievedChunk]:
        self.library.index._looked_at = float("-inf")  # A reader may be a second behind; a test may not.
        index = self.library.index.snapshot()
        question = self.library.question(query)
        return list(retrieve(question, 5, RetrievalOptions(ranking="hybrid"), index=index).chunks)

    def with_path(self, path: str, step: int) -> list[dict[str, Any]]:
        return [row for row in self.rows_after[step] if path in row["paths"]]

    def text_after(self, step: int) -> str:
        return "\n".join(row["text"] for row in self.rows_after[step])


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def test_a_moved_file_neither_vanishes_nor_is_embedded_again(driver: Driver) -> None:
    case = CASES["H01-move"]
    expected = case["expected"]
    driver.run(case["input"]["steps"], expected["search"]["query"])
    old, new = "wiki/vacaciones.md", "wiki/rrhh/vacaciones.md"
    assert not driver.with_path(old, 5)
    assert len(driver.with_path(new, 5)) == len(driver.with_path(old, 2)) > 0
    assert {str(step): driver.embedded[step] for step in (4, 5)} == expected["texts_embedded_in_step"]
    assert driver.written[5] == expected["rows_written_in_step"]["5"]
    assert driver.found_after[5][0].path == expected["search"]["top_path"]


def test_deleting_one_of_two_files_that_share_a_paragraph_keeps_it(driver: Driver) -> None:
    case = CASES["H02-shared-text"]
    text = case["expected"]["after_step"]["3"]["search"]["query"]
    driver.run(case["input"]["steps"], text)
    for step in (3, 5):
        assert [chunk.text for chunk in driver.found_after[step]] == [text]
    assert driver.found_after[3][0].path == "wiki/a.md"
    assert driver.found_after[5][0].path == "wiki/b.md"
    assert not driver.with_path("wiki/a.md", 5)


def test_a_failed_embedding_neither_counts_as_done_nor_loses_the_old_text(driver: Driver) -> None:
    case = CASES["H03-failed-embedding"]
    driver.run(case["input"]["steps"])
    for number, expected in case["expected"]["after_step"].items():
        step = int(number)
        text = driver.text_after(step)
        assert driver.failed[step] == expected.get("run_reported_failure", False)
        assert len(driver.rows_after[step]) >= expected.get("rows_min", 0)
        if "rows" in expected:
            assert len(driver.rows_after[step]) == expected["rows"]
        assert expected.get("contains", "") in text
        assert "absent" not in expected or expected["absent"] not in text


def test_a_text_twice_in_a_file_is_one_row_now_and_on_the_next_run(driver: Driver) -> None:
    case = CASES["H04-duplicate-key"]
    driver.run(case["input"]["steps"], case["expected"]["search"]["query"])
    for rows in driver.rows_after.values():
        assert len({row["content_id"] for row in rows}) == len(rows)
    texts = [chunk.text for chunk in driver.found_after[5]]
    assert len(texts) == len(set(texts)) > 0


def test_quotes_in_a_path_neither_break_nor_widen_a_delete(driver: Driver) -> None:
    case = CASES["H05-quote-in-path"]
    driver.run(case["input"]["steps"])
    for number, paths in case["expected"]["paths_after_step"].items():
        found = {path for row in driver.rows_after[int(number)] for path in row["paths"]}
        assert sorted(found) == sorted(paths)


def test_bom_and_line_ends_hide_no_front_matter_and_change_no_id(tmp_path: Path) -> None:
    case = CASES["H08-bom-crlf"]
    ids = []
    for name in ("files_b64", "twin_b64"):
        (tmp_path / name).mkdir()
        driver = Driver(tmp_path / name)
        steps = [
            {"op": "write_b64", "path": path, "data": data} for path, data in case["input"][name].items()
        ]
        driver.run([*steps, {"op": "index"}])
        rows = driver.rows()
        assert {row["title"] for row in rows} == {case["expected"]["title"]}
        for absent in case["expected"]["absent_in_every_chunk"]:
            assert all(absent not in row["text"] for row in rows)
        ids.append([row["content_id"] for row in rows])
    assert ids[0] == ids[1]
    assert ids[0]


@pytest.mark.parametrize(
    "block",
    ["---\nid: 0x{}\n---\n".format("a" * 4000), "+++\na = 0x{}\n+++\n".format("f" * 5000)],
    ids=["yaml", "toml"],
)
def test_a_number_that_json_cannot_hold_stops_nothing(driver: Driver, block: str) -> None:
    driver.run([{"op": "write", "path": "a.md", "text": block + "Hola a todos.\n"}, {"op": "index"}])
    assert driver.text_after(2) == "Hola a todos."


def test_offsets_follow_a_document_whose_line_ends_change(driver: Driver) -> None:
    text = "Uno dos.\r\n\r\n# H\r\n\r\ntres cuatro.\r\n"
    driver.run([{"op": "write", "path": "c.md", "text": text}, {"op": "index"}])
    lines = [{"op": "write", "path": "c.md", "text": text.replace("\r\n", "\n")}, {"op": "index"}]
    driver.run(lines)
    assert driver.embedded[2] == 0
    with driver.library.warehouse.read() as connection:
        wrong = connection.sql(
            "SELECT c.text FROM bib_chunks AS c JOIN bib_docs AS d USING (doc_id)"
            ' WHERE substr(d.text, c.start + 1, c."end" - c.start) <> c.text'
        ).fetchall()
    assert wrong == []


@pytest.mark.parametrize("content", ["{}", "", '{"day": 5}'])
def test_a_run_that_cannot_be_read_costs_only_itself(driver: Driver, content: str) -> None:
    driver.run([{"op": "write", "path": "a.md", "text": "Hola a todos.\n"}])
    folder = driver.library.settings.runs / "x"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(content, encoding="utf-8")
    report = index_all(driver.library)
    assert report.index.added == 1
    assert [str(folder) in line for line in report.runs.unreadable] == [True]
    assert driver.library.warehouse.read_copy.exists()
