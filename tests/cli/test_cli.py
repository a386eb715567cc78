"""`bib`'s commands: what they print, as text and as JSON, and how they end. 0: done; 1: failed, or done in part;
2: asked for wrongly."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from .conftest import LOG, PAGES, Base, Run

WIDTH = 80


@pytest.fixture
def indexed(shared: Base, bib: Run) -> Base:
    """An indexed knowledge base with its query log loaded, which tests leave as it is."""
    if not (shared.folder / "home").exists():
        assert bib(shared, "index").status == 0
        assert bib(shared, "log", "import", str(shared.folder / "log.jsonl")).status == 0
    return shared


def has_escapes(text: str) -> bool:
    return "\x1b" in text


# --- each command


def test_index_as_json_and_a_second_time(base: Base, bib: Run) -> None:
    first, second = bib(base, "index", "--json"), bib(base, "index", "--json")
    assert (first.status, second.status) == (0, 0)
    assert list(first.json) == [
        "sources",
        "chunks",
        "removed_sources",
        "index",
        "queries",
        "runs",
        "errors",
    ]
    assert [source["source"] for source in first.json["sources"]] == ["wiki", "docs"]
    assert {
        "documents",
        "added",
        "changed",
        "moved",
        "deleted",
        "problems",
        "warnings",
        "error",
        "commit",
    } <= set(first.json["sources"][0])
    assert (first.json["index"]["contents"], first.json["index"]["embedded"]) == (3, 3)
    assert (second.json["index"]["embedded"], second.json["index"]["added"]) == (0, 0)
    full = bib(base, "index", "--full", "--json").json
    assert [chunks["documents_cut"] for chunks in full["chunks"]] == [2, 1]
    assert full["index"]["embedded"] == 0


def test_index_as_text(base: Base, bib: Run) -> None:
    said = bib(base, "index")
    header, wiki, docs, index = said.out.rstrip("\n").split("\n")
    assert header.split() == [
        "source",
        "documents",
        "chunks",
        "added",
        "changed",
        "moved",
        "deleted",
        "skipped",
    ]
    assert wiki.split()[:4] == ["wiki", "2", "2", "2"]
    assert docs.split()[:4] == ["docs", "1", "1", "1"]
    assert index.startswith("index: 3 contents; 3 added, 0 updated, 0 deleted; 3 embedded")
    assert index.endswith("went live")


def test_index_of_one_source(base: Base, bib: Run) -> None:
    assert [source["source"] for source in bib(base, "index", "docs", "--json").json["sources"]] == ["docs"]


def test_index_done_in_part_ends_with_one_and_names_the_source_and_the_bad_file(base: Base, bib: Run) -> None:
    (base.folder / "docs").rename(base.folder / "away")
    (base.folder / "wiki" / "roto.md").write_bytes(b"\x00\x01\x02\xff\xfe\x00")
    said = bib(base, "index")
    assert said.status == 1
    assert re.search(r"^failed: .*'docs'", said.err, re.MULTILINE)
    assert "Traceback" not in said.err
    assert re.search(r"^skipped wiki/roto\.md: \w", said.out, re.MULTILINE)
    assert bib(base, "index", "--json").json["errors"]


def test_search_as_text_shows_where_each_chunk_stands_and_prints_it_as_it_is(indexed: Base, bib: Run) -> None:
    said = bib(indexed, "search", "¿cómo escribo la plantilla?", "--top-k", "3")
    assert said.status == 0
    assert re.search(
        r"^1\. wiki/\[raro\]\.md:\d+  score \d\.\d{3}, cosine \d\.\d{3}$", said.out, re.MULTILINE
    )
    # Text of a page is no markup of ours.
    assert "   Escribe [bold]así[/bold] y [link=x]así[/link] en la plantilla." in said.out
    assert re.search(r"^\d+ tokens in context$", said.out, re.MULTILINE)


def test_search_as_json(indexed: Base, bib: Run) -> None:
    found = bib(indexed, "search", "¿Cómo se piden las vacaciones?", "--json").json
    assert list(found) == ["question", "chunks", "tokens_in_context", "tokens_before", "top_score"]
    best = found["chunks"][0]
    assert list(best) == [
        "content_id",
        "score",
        "cosine",
        "source",
        "path",
        "title",
        "heading_path",
        "tokens",
        "text",
        "kept",
    ]
    assert (best["source"], best["path"]) == ("wiki", "vacaciones.md")
    assert found["top_score"] == best["cosine"]
    assert (
        found["tokens_in_context"]
        == found["tokens_before"]
        == sum(chunk["tokens"] for chunk in found["chunks"])
    )


def test_search_trimmed_and_filtered(indexed: Base, bib: Run) -> None:
    question = "¿Cómo se piden las vacaciones?"
    trimmed = bib(
        indexed, "search", question, "--trim", "--threshold", "0.99", "--window", "0", "--json"
    ).json
    assert trimmed["tokens_in_context"] < trimmed["tokens_before"]
    best = ("--trim", "--trim-mode", "margin", "--min-sentences", "0", "--json")
    by_margin = bib(indexed, "search", question, *best).json
    assert len(by_margin["chunks"]) < len(trimmed["chunks"])
    assert by_margin["tokens_before"] == trimmed["tokens_before"]
    only = bib(indexed, "search", question, "--app", "crearack", "--json").json
    assert [chunk["path"] for chunk in only["chunks"]] == ["vpn.md"]
    nothing = bib(indexed, "search", question, "--source-type", "no-such")
    assert (nothing.status, nothing.out) == (0, "nothing found\n")
    none = bib(indexed, "search", question, "--source-type", "no-such", "--json").json
    assert (none["chunks"], none["top_score"], none["tokens_in_context"]) == ([], None, 0)


def test_eval_as_json(indexed: Base, bib: Run) -> None:
    made = bib(indexed, "eval", "--json")
    assert made.status == 0
    assert list(made.json) == ["summary", "results", "gate"]
    assert [result["question"] for result in made.json["results"]] == [
        row["question"] for row in reversed(LOG)
    ]
    assert made.json["gate"]["verdict"] in ("cannot conclude", "no-go")
    day = bib(indexed, "eval", "--day", "2025-10-02", "--json").json
    assert [result["question"] for result in day["results"]] == [LOG[0]["question"]]
    before = bib(indexed, "eval", "--day", "2025-10-01", "--json").json
    assert (before["results"], before["summary"]["token_reduction_pct"]) == ([], None)
    assert before["gate"]["verdict"] == "cannot conclude"


def test_eval_of_given_questions(indexed: Base, bib: Run) -> None:
    asked = indexed.write("questions.txt", "\ufeff¿Uno de ellos?\n\n¿Otro?\r\n¿Otro?\n")
    made = bib(indexed, "eval", "--question", "¿El primero?", "--questions-file", str(asked), "--json").json
    assert [result["question"] for result in made["results"]] == ["¿El primero?", "¿Uno de ellos?", "¿Otro?"]
    assert bib(indexed, "eval", "--last", "1", "--json").json["summary"]["questions"] == 1


def test_eval_as_text_says_no_data_and_states_the_two_traps(indexed: Base, bib: Run) -> None:
    said = bib(indexed, "eval", "--source-type", "no-such")
    assert said.status == 0
    assert re.search(r"^token_reduction_pct +no data$", said.out, re.MULTILINE)
    assert re.search(r"^verdict: cannot conclude$", said.out, re.MULTILINE)
    said = bib(indexed, "eval")
    assert re.search(r"^overlap: proves nothing: ", said.out, re.MULTILINE)
    assert re.search(r"^answers_as_good: unmeasured: ", said.out, re.MULTILINE)
    assert re.search(r"^answers_as_good +no data +unmeasured", said.out, re.MULTILINE)


def test_status_as_json_before_and_after(base: Base, indexed: Base, bib: Run) -> None:
    empty, full = bib(base, "status", "--json"), bib(indexed, "status", "--json")
    assert (empty.status, full.status) == (0, 0)
    assert (
        list(empty.json) == list(full.json) == ["config", "home", "sources", "index", "queries", "evaluation"]
    )
    assert (empty.json["index"], empty.json["queries"], empty.json["evaluation"]) == (None, None, None)
    assert not (base.folder / "home").exists(), "asking made something"
    assert [(row["source"], row["documents"]) for row in full.json["sources"]] == [("wiki", 2), ("docs", 1)]
    assert full.json["index"]["contents"] == len(PAGES)
    assert full.json["queries"]["questions"] == len(LOG)


def test_status_as_text(base: Base, indexed: Base, bib: Run) -> None:
    empty = bib(base, "status").out
    assert "index: none yet; `bib index` makes it" in empty
    assert "questions: none logged yet" in empty
    full = bib(indexed, "status").out
    assert re.search(r"^wiki +wiki +2 +2 +\d+ ", full, re.MULTILINE)
    assert "questions: 2 logged, the newest of 2025-10-03 08:00 UTC" in full
    assert "off; `schedules.enabled = true` in bib.toml turns them on" in full
    # What is not built yet is of no use to whoever asks.
    assert "heartbeat" not in full


def test_log_import_twice_adds_nothing(base: Base, bib: Run) -> None:
    file = str(base.folder / "log.jsonl")
    first, second = bib(base, "log", "import", file, "--json"), bib(base, "log", "import", file, "--json")
    assert list(first.json) == ["file", "questions", "added", "total", "bad_rows"]
    assert [(said.json["added"], said.json["total"]) for said in (first, second)] == [(2, 2), (0, 2)]
    assert (
        bib(base, "log", "import", file).out == "2 questions in the file, 0 of them new; 2 in the query log\n"
    )


def test_backfill_done_in_part_ends_with_one_and_names_the_source(base: Base, bib: Run) -> None:
    (base.folder / "docs").rename(base.folder / "away")
    said = bib(base, "backfill", "--sources", "docs, wiki")
    assert said.status == 1
    assert "Traceback" not in said.err
    assert re.search(r"^failed: .*'docs'", said.err, re.MULTILINE)
    assert re.search(r"^documents +docs +0 *$", said.out, re.MULTILINE)
    assert re.search(r"^documents +wiki +2 +added 2", said.out, re.MULTILINE)
    assert re.search(r"^chunk_index +2 ", said.out, re.MULTILINE)


# --- what is asked for wrongly, or cannot be done

WRONG: dict[str, tuple[Sequence[str], int, str]] = {
    "unknown source": (["index", "wikki"], 2, "no source named 'wikki'.*there are: wiki, docs"),
    "blank question": (["search", "  "], 2, "the question is blank; ask something"),
    "unknown ranking": (["search", "x", "--ranking", "best"], 2, "choose from.*vector"),
    "no such file of questions": (
        ["eval", "--questions-file", "none.txt"],
        2,
        "--questions-file: .*none.txt",
    ),
    "a day that is none": (["eval", "--day", "2026-13-01"], 2, "--day.*2026-13-01"),
    "no such log": (["log", "import", "none.csv"], 2, "none.csv: no such file"),
    "a log of an unknown kind": (["log", "import", "bib.toml"], 2, r"\.toml is not known; \.csv"),
    "unknown variant": (["eval", "--variants", "hyde"], 2, "'hyde'; any of 'baseline', 'trim' is right"),
    "top_k too large": (["eval", "--top-k", "21"], 2, "top_k is 21; 1 to 20 is right"),
    "no golden set": (["eval", "--last", "0"], 2, "a whole number from 1 up is right"),
    "unknown command": (["serch", "x"], 2, "invalid choice: 'serch'"),
    "no command": ([], 2, "COMMAND"),
    "backfill of nothing": (["backfill"], 2, "--sources all, or --days 2026-10-01..2026-10-31"),
    "backfill of an unknown source": (
        ["backfill", "--sources", "wikki"],
        2,
        "no source 'wikki'; there are: all, docs",
    ),
    "backfill of a bad day": (["backfill", "--days", "yesterday"], 2, "'yesterday'; 2026-10-01 or"),
    "backfill of a day too early": (
        ["backfill", "--days", "2024-01-01"],
        2,
        "no day in 2024-01-01; there are 2025-10",
    ),
    "backfill the wrong way round": (["backfill", "--days", "2025-10-09..2025-10-01"], 2, "no day in"),
    "backfill of an unknown asset": (
        ["backfill", "--sources", "all", "--assets", "chonks"],
        2,
        "no asset 'chonks'; there are: documents, chunks",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_one_readable_line_and_the_exit_status_says_whose_fault_it_is(
    indexed: Base, bib: Run, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(indexed.folder)
    arguments, status, pattern = WRONG[case]
    said = bib(indexed, *arguments)
    assert said.status == status, said.err
    assert said.out == ""
    *usage, line = said.err.rstrip("\n").split("\n")
    assert re.search(pattern, line), said.err
    assert re.match(r"bib( \w+)*: ", line)
    # argparse shows its usage above the error; we show the error alone.
    assert not usage or usage[0].startswith("usage: bib")


@pytest.mark.parametrize(
    "command", [["search", "vacaciones"], ["eval"], ["eval", "--question", "¿Vacaciones?"]]
)
def test_without_an_index_one_is_told_how_to_make_it(base: Base, bib: Run, command: list[str]) -> None:
    said = bib(base, *command)
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith("bib: nothing is indexed yet in ")
    assert said.err.endswith("run `bib index` first\n")


@pytest.mark.parametrize(
    "command", [["index"], ["search", "x"], ["eval"], ["status"], ["backfill", "--days", "x"]]
)
def test_a_bad_bib_toml_ends_every_command_with_its_file_and_key(
    base: Base, bib: Run, command: list[str]
) -> None:
    config = base.write("bib.toml", "[retreival]\ntop_k = 5\n" + (base.folder / "bib.toml").read_text())
    said = bib(base, *command)
    assert (said.status, said.out) == (2, "")
    assert said.err == f"bib: {config}: retreival: unknown key; did you mean 'retrieval'?\n"


def test_config_names_a_file(base: Base, bib: Run) -> None:
    other = base.write("other/other.toml", '[[sources]]\nname = "mine"\npath = "."\n')
    assert bib(base, "--config", str(other), "status", "--json").json["config"] == str(other)
    said = bib(base, "--config", str(base.folder / "none.toml"), "status")
    assert said.status == 2
    assert said.err.startswith(f"bib: {base.folder / 'none.toml'}: no such file")


def test_a_fault_of_ours_shows_its_trace(indexed: Base, bib: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("bib_orchestration.biblioteca.status.read_status", broken)
    with pytest.raises(ZeroDivisionError):
        bib(indexed, "status")


def test_an_interruption_is_no_trace(indexed: Base, bib: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bib_orchestration.biblioteca.status.read_status", interrupted)
    said = bib(indexed, "status")
    assert (said.status, said.err) == (1, "bib: interrupted; what was done is kept\n")


# --- what was once a fault


@pytest.mark.parametrize(
    "wrong",
    [["--top-k", "0"], ["--window", "-1"], ["--threshold", "7"], ["--threshold", "nan"]],
    ids=" ".join,
)
def test_search_refuses_what_cannot_be(indexed: Base, bib: Run, wrong: list[str]) -> None:
    said = bib(indexed, "search", "vacaciones", "--trim", *wrong)
    assert said.status == 2
    assert re.search(rf"error: argument {wrong[0]}: '{wrong[1]}'.* is right", said.err)


@pytest.mark.parametrize(
    "wrong",
    [["eval", "--variants", "x"], ["eval", "--top-k", "21"], ["log", "import", "none.csv"]],
    ids=" ".join,
)
def test_asked_for_wrongly_is_two(indexed: Base, bib: Run, wrong: list[str]) -> None:
    assert bib(indexed, *wrong).status == 2


def test_a_bad_day_says_what_would_be_right(indexed: Base, bib: Run) -> None:
    assert "2026-10-31" in bib(indexed, "eval", "--day", "31/10/2026").err


def test_a_line_that_ends_in_a_backslash_is_printed_as_it_is(base: Base, bib: Run) -> None:
    base.write("docs/curl.md", "# Curl\n\n```\ncurl -X POST https://x.example \\\n  -d 1\n```\n")
    bib(base, "index")
    assert "curl -X POST https://x.example \\\n" in bib(base, "search", "curl post").out


def test_what_documents_say_does_not_steer_the_terminal(base: Base, bib: Run) -> None:
    text = "# A\x1b[31m\u202e\n\nTexto \x1b[2J\x07 con [bold]marca[/bold].\n"
    base.write("docs/raro\x1b[2J\n.md", text)
    bib(base, "index")
    for command in (["search", "texto marca"], ["index", "--full"], ["status"]):
        said = bib(base, *command)
        assert said.status == 0
        assert not set("\x1b\x07\u202e") & set(said.out + said.err)
    assert "con [bold]marca[/bold]." in bib(base, "search", "texto marca").out


def test_colons_are_no_emoji(base: Base, bib: Run) -> None:
    base.write("docs/nota:key:.md", "# Claves\n\nUsa `a:b:c` y :warning: siempre.\n")
    bib(base, "index")
    said = bib(base, "search", "claves warning").out
    assert "nota:key:.md" in said
    assert "Usa `a:b:c` y :warning: siempre." in said


def test_a_filter_that_nothing_can_match_is_pointed_at(indexed: Base, bib: Run) -> None:
    said = bib(indexed, "search", "vacaciones", "--source-type", "wik")
    assert (said.status, said.out) == (0, "nothing found\n")
    assert said.err.startswith("bib: --source-type: no source has 'wik'; there are: ")


# --- how it looks


@pytest.mark.parametrize(
    "command", [["status"], ["eval"], ["index"], ["search", "vacaciones"], ["--help"]], ids=" ".join
)
def test_output_that_no_terminal_reads_has_no_escape_codes_and_its_tables_fit(
    indexed: Base, bib: Run, command: list[str]
) -> None:
    said = bib(indexed, *command)
    assert said.status == 0
    assert not has_escapes(said.out + said.err)
    # Paths and messages are never broken, so that they can be copied; tables are.
    tables = [
        line
        for line in said.out.split("\n")
        if re.search(r"\S {2,}\S", line) and not re.search(r"score|/", line)
    ]
    assert tables or command[0] == "search"
    assert [line for line in tables if len(line.rstrip()) > WIDTH] == []
