"""What sample/ promises: a wiki worth searching, a query log as people type, and labels that hold."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from bib_orchestration.biblioteca.corpus.chunks import DocumentText, Occurrence, occurrences
from bib_orchestration.biblioteca.corpus.documents import Document, read_document
from bib_orchestration.biblioteca.corpus.sources import Problem, read_source
from bib_orchestration.biblioteca.settings import Settings, load_settings
from bib_orchestration.biblioteca.warehouse.query_log import LoggedQuery, from_row

SAMPLE = Path(__file__).parents[1] / "sample"
HELP_PREFIX = "crearack--"
# Pages that were announced and never written, as real wikis have them.
BROKEN_WIKILINKS = {"altillos", "tarifa-2027"}
# As golden sets tell them from questions: too short, or blank.
NOISE = re.compile(r"(?i)\s*(ok|hola|gracias|test|asdf|vale|si|prueba|\?\?|\.)?\s*")
WIKILINK = re.compile(r"\[\[([^\]|]+)(?:\|[^\]]+)?\]\]")
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)\)")
FENCE = re.compile(r"(?ms)^(`{3,})[^\n]*\n.*?^\1")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

pytestmark = pytest.mark.skipif(not SAMPLE.is_dir(), reason="installed without the example")


@cache
def settings() -> Settings:
    return load_settings(SAMPLE / "bib.toml", environ={"BIB_HOME": str(SAMPLE / "no-home")})


@cache
def corpus() -> tuple[dict[str, Document], list[Problem]]:
    """All documents, by their path relative to sample/, and what could not be read."""
    documents, problems = {}, []
    for source in settings().sources:
        snapshot = read_source(source, SAMPLE / "no-checkouts")
        problems += snapshot.problems
        for file in snapshot.files:
            folder = PurePosixPath(Path(source.path).relative_to(SAMPLE).as_posix())
            documents[str(folder / file.path)] = read_document(source, file, snapshot.commit)
    return documents, problems


def pages(source: str) -> dict[str, Document]:
    return {path: page for path, page in corpus()[0].items() if page.source == source}


@cache
def chunks(path: str) -> list[Occurrence]:
    page = corpus()[0][path]
    text = DocumentText(
        page.doc_id, page.source, page.path, page.kind, page.own_title, page.text, page.content_hash
    )
    chunking = settings().chunks
    return occurrences(text, max_tokens=chunking.max_tokens, min_tokens=chunking.min_tokens)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").split("\n") if line]


@cache
def queries() -> list[LoggedQuery]:
    return [from_row(row) for row in rows("query_log.jsonl")]


def plain(text: str) -> str:
    """Without case, accents, punctuation and runs of white space: what is left when spelling does not count."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", bare))


class TestDocuments:
    def test_their_number(self) -> None:
        counts = Counter(page.source for page in corpus()[0].values())
        assert counts["wiki"] >= 60
        assert counts["docs"] >= 10
        assert counts["supercontext"] >= 10
        assert counts["metodo"] >= 6

    def test_none_is_skipped_or_odd(self) -> None:
        documents, problems = corpus()
        assert problems == []
        assert {path: page.warnings for path, page in documents.items() if page.warnings} == {}

    def test_sessions_leave_out_log_reports_and_archive(self) -> None:
        assert {"LOG.md", "reports", "_archive"} <= {
            place.name for place in (SAMPLE / "supercontext").iterdir()
        }
        assert all(page.path.startswith("briefing-2026-") for page in pages("supercontext").values())

    def test_wikilinks_lead_to_pages_of_the_wiki(self) -> None:
        wiki = pages("wiki").values()
        names = {page.slug for page in wiki} | {PurePosixPath(page.path).stem for page in wiki}
        links = {link for page in wiki for link in WIKILINK.findall(FENCE.sub("", page.text))}
        assert len(links) > 20
        assert links - names == BROKEN_WIKILINKS

    def test_relative_links_lead_to_files(self) -> None:
        for path, page in corpus()[0].items():
            for link in RELATIVE_LINK.findall(FENCE.sub("", page.text)):
                assert (SAMPLE / path).parent.joinpath(link).is_file(), f"{path}: {link}"

    def test_slugs_and_names_are_unambiguous_in_the_wiki(self) -> None:
        wiki = pages("wiki").values()
        for names in ([page.slug for page in wiki], [PurePosixPath(page.path).stem for page in wiki]):
            assert [name for name, count in Counter(names).items() if count > 1] == []

    def test_only_pages_for_clients_have_slugs_of_the_help(self) -> None:
        of_help = {path for path, page in corpus()[0].items() if page.slug.startswith(HELP_PREFIX)}
        assert len(of_help) >= 10
        assert all(path.startswith(("wiki/crearack/ayuda/", "docs/")) for path in of_help)
        own = [page.front_matter.get("slug") for path, page in corpus()[0].items() if path in of_help]
        assert all(own)

    def test_nobody_can_be_written_to(self) -> None:
        for path, page in corpus()[0].items():
            for address in EMAIL.findall(FENCE.sub("", page.text)):
                assert address.endswith((".test", "@example.com")), f"{path}: {address}"


class TestCopies:
    """Pages that stand in the wiki and in docs, as deduplication should find them."""

    @pytest.mark.parametrize("name", ["compartir-un-plano.md", "no-puedo-entrar.md"])
    def test_the_same_bytes(self, name: str) -> None:
        one, other = f"wiki/crearack/ayuda/{name}", f"docs/{name}"
        assert (SAMPLE / one).read_bytes() == (SAMPLE / other).read_bytes()
        assert corpus()[0][one].content_hash == corpus()[0][other].content_hash
        assert [chunk.content_id for chunk in chunks(one)] == [chunk.content_id for chunk in chunks(other)]

    def test_the_same_body_below_another_heading(self) -> None:
        one, other = chunks("wiki/posventa/garantia.md"), chunks("docs/garantia.md")
        assert not {chunk.content_id for chunk in one} & {chunk.content_id for chunk in other}
        assert {chunk.text_hash for chunk in one} & {chunk.text_hash for chunk in other}

    def test_edited_slightly(self) -> None:
        one, other = (
            {chunk.content_id for chunk in chunks(path)}
            for path in ("wiki/crearack/ayuda/guardar-y-versiones.md", "docs/guardar-y-versiones.md")
        )
        assert one & other
        assert one - other
        assert other - one


class TestLabels:
    @pytest.mark.parametrize("label", rows("labels.jsonl"), ids=lambda label: label["question"][:40])
    def test_the_quote_stands_in_the_first_page(self, label: dict[str, Any]) -> None:
        documents = corpus()[0]
        assert set(label["paths"]) <= documents.keys()
        assert label["quote"] in documents[label["paths"][0]].text
        assert "\n" not in label["quote"]

    def test_each_question_stands_once(self) -> None:
        questions = [plain(label["question"]) for label in rows("labels.jsonl")]
        assert len(questions) == len(set(questions)) == 40


class TestQueryLog:
    def test_rows_are_in_order_and_unique(self) -> None:
        log = queries()
        assert [query.ts for query in log] == sorted(query.ts for query in log)
        assert len({query.query_id for query in log}) == len(log)

    def test_it_covers_sixty_days_from_the_first_day_of_the_evaluation(self) -> None:
        first, last = (
            query.ts.astimezone(settings().schedules.zone).date() for query in (queries()[0], queries()[-1])
        )
        assert first == settings().evaluation.first_day
        assert last - first == timedelta(days=59)

    def test_most_questions_come_at_work(self) -> None:
        times = [query.ts.astimezone(settings().schedules.zone) for query in queries()]
        assert all(6 <= time.hour <= 21 for time in times)
        assert sum(_is_weekend(time) for time in times) < len(times) / 10

    def test_pages_that_answered_exist_and_only_answers_have_some(self) -> None:
        documents = corpus()[0].keys()
        for query in queries():
            assert set(query.paths) <= documents, query
            assert query.answered == bool(query.paths), query

    def test_each_mode_answers_from_its_own_pages(self) -> None:
        documents = corpus()[0]
        for query in queries():
            found = [documents[path] for path in query.paths]
            if query.mode == "help":
                assert all(page.slug.startswith(HELP_PREFIX) for page in found), query
            if query.mode == "ask":
                assert all(page.source in ("wiki", "docs") for page in found), query
        assert {query.mode for query in queries()} == {"ask", "help", "oracle"}

    def test_a_session_is_not_cited_before_it_was_written(self) -> None:
        for query in queries():
            for written in re.findall(r"briefing-(\S+)\.md", " ".join(query.paths)):
                assert written <= query.ts.date().isoformat(), query

    def test_people_repeat_themselves_and_type_noise(self) -> None:
        asked = Counter(query.question for query in queries() if query.paths)
        assert sum(count > 1 for count in asked.values()) >= 20
        assert max(asked.values()) >= 4
        assert sum(bool(NOISE.fullmatch(query.question or "")) for query in queries()) >= 15
        assert any(not (query.question or "").strip() for query in queries())

    def test_questions_differ(self) -> None:
        assert len(queries()) >= 340
        assert len({plain(query.question or "") for query in queries()}) >= 170

    def test_some_questions_have_no_answer(self) -> None:
        unanswered = {query.question for query in queries() if not query.paths}
        assert len([text for text in unanswered if not NOISE.fullmatch(text or "")]) >= 20


def _is_weekend(time: datetime) -> bool:
    return time.isoweekday() > 5
