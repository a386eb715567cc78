"""`bib backfill` in this process: its runs, its report, and days that are before or after all questions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.commands.backfill import show_backfill

from .conftest import LOG, Base, Run, Said

# The first question of the log is of the 2nd, the last of the 3rd of October.
BEFORE, FIRST, LAST, AFTER = "2025-10-01", "2025-10-02", "2025-10-03", "2025-10-20"


@pytest.fixture
def asked(shared: Base, bib: Run) -> Base:
    """An indexed knowledge base with its query log in the spool, which tests share; each has days of its own."""
    if not (shared.folder / "home").exists():
        shared.write("home/query_log/asked.jsonl", (shared.folder / "log.jsonl").read_text(encoding="utf-8"))
        assert bib(shared, "index").status == 0
    return shared


def partitions(said: Said, asset: str) -> dict[str | None, dict[str, Any]]:
    return {
        made["partition"]: made["figures"] for made in said.json["materialised"] if made["asset"] == asset
    }


def rows(said: Said, asset: str) -> list[list[str]]:
    return [line.split() for line in said.out.split("\n") if line.startswith(f"{asset} ")]


def test_a_check_that_only_warns_is_seen_and_fails_nothing(base: Base, bib: Run) -> None:
    (base.folder / "wiki" / "vacia.md").write_text("---\ntitle: Vacía\n---\n", encoding="utf-8")
    said = bib(base, "backfill", "--sources", "wiki")
    assert said.status == 0
    assert "warned: chunks: documents_have_chunks: 1 rows, which are on its page in the UI" in said.err
    (base.folder / "wiki" / "vacia.md").unlink()
    assert "warned" not in bib(base, "backfill", "--sources", "wiki").err


def test_lists_make_runs_of_neighbours_and_each_partition_has_its_own_figures(asked: Base, bib: Run) -> None:
    days = f"{LAST},{BEFORE},{AFTER},{LAST}"
    said = bib(asked, "backfill", "--sources", "wiki,docs", "--days", days, "--json")
    assert said.status == 0
    assert list(said.json) == ["materialised", "failures", "checks", "not_made", "left_out", "run_ids"]
    # One of the sources, one of each day, and one for the models of all days.
    assert len(said.json["run_ids"]) == 5
    documents = partitions(said, "documents")
    assert {name: made["dagster/partition_row_count"] for name, made in documents.items()} == {
        "docs": 1,
        "wiki": 2,
    }
    assert list(partitions(said, "unique_chunks")) == list(partitions(said, "oraculo_queries")) == [None]

    # A day before the first question has none, and no figure pretends to be one; a day after the last has
    # the golden set of the last.
    runs = partitions(said, "retrieval_ab")
    assert {day: made["questions"] for day, made in runs.items()} == {BEFORE: 0, LAST: 2, AFTER: 2}
    assert runs[BEFORE]["verdict"] == "cannot conclude"
    measured = {name for name in runs[LAST] if name.startswith(("avg_", "token_reduction"))}
    assert measured
    assert not measured & set(runs[BEFORE])
    (folder,) = (asked.folder / "home" / "runs").glob(f"*-{BEFORE}-*")
    empty = json.loads((folder / "results.json").read_text())
    assert (empty["results"], empty["summary"]["questions"]) == ([], 0)
    assert {empty["summary"][name] for name in measured} == {None}
    with duckdb.connect(str(asked.folder / "home" / "warehouse.read.duckdb"), read_only=True) as connection:
        last, after = connection.sql(
            "SELECT day::VARCHAR AS day, any_value(golden_hash), list(question ORDER BY rank) FROM golden_set"
            " GROUP BY day ORDER BY day"
        ).fetchall()
    assert (last[0], after[0]) == (LAST, AFTER)
    assert last[1:] == after[1:]


def test_a_day_whose_golden_set_was_never_extracted_is_no_run_of_no_questions(
    asked: Base, bib: Run, caplog: pytest.LogCaptureFixture
) -> None:
    day = "2025-10-25"
    said = bib(asked, "backfill", "--days", day, "--assets", "oraculo_queries,retrieval_ab", "--json")
    assert said.status == 0
    assert partitions(said, "retrieval_ab")[day]["questions"] == 2
    (told,) = [record.getMessage() for record in caplog.records if "golden set" in record.getMessage()]
    assert told.startswith(f"the golden set of {day} is not in the table; its 2 questions were asked for now")
    assert f"`bib backfill --days {day} --assets golden_set`" in told


def test_a_model_that_someone_added_is_backfilled_as_any_asset(
    asked: Base, bib: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = Path(shutil.copytree(MODELS_FOLDER, tmp_path / "models"))
    (models / "asked_by_day.sql").write_text(
        "-- Questions up to a day.\n-- partitions: day\n"
        "SELECT $day::DATE AS day, count(*) AS questions FROM oraculo_queries WHERE ts < $day_end\n"
    )
    (models / "asked.sql").write_text("-- Questions.\nSELECT count(*) AS questions FROM oraculo_queries\n")
    monkeypatch.setattr("bib_orchestration.biblioteca.library.MODELS_FOLDER", models)
    # Without sources or days when none of the assets has partitions.
    said = bib(asked, "backfill", "--assets", "asked,oraculo_queries", "--json")
    assert said.status == 0
    assert partitions(said, "oraculo_queries")[None]["dagster/row_count"] == len(LOG)
    assert len(said.json["run_ids"]) == 1
    said = bib(asked, "backfill", "--assets", "asked_by_day", "--days", f"{FIRST}..{LAST}", "--json")
    assert list(partitions(said, "asked_by_day")) == [FIRST, LAST]


def test_many_partitions_are_shortened_to_the_ends_and_all_in_one(asked: Base, bib: Run) -> None:
    said = bib(
        asked, "backfill", "--days", "2025-10-01..2025-10-16", "--assets", "oraculo_queries,golden_set"
    )
    assert said.status == 0
    golden = rows(said, "golden_set")
    assert [row[1] for row in golden] == [
        *(f"2025-10-0{day}" for day in (1, 2, 3)),
        "…",
        *(f"2025-10-{day}" for day in (14, 15, 16)),
        "all",
    ]
    assert golden[3][2:] == ["10", "more", "partitions"]
    assert golden[-1][1:4] == ["all", "16", str(0 + 1 + 14 * 2)]
    assert "Shortened: each partition is in `--json`, and in Dagster's UI (`make ui`)." in said.out
    assert [line for line in said.out.split("\n") if len(line.rstrip()) > 80] == []
    assert "\x1b" not in said.out + said.err


def test_figures_of_many_partitions_are_summed_where_a_sum_has_a_sense(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = [
        {
            "dagster/partition_row_count": 2,
            "added": n % 2,
            "moved": 0,
            "token_reduction_pct": n,
            "verdict": "no-go" if n else "cannot conclude",
            "run": f"run {n}",
        }
        for n in range(20)
    ]
    show_backfill([("ab", f"{n:02}", each) for n, each in enumerate(figures)])
    out = " ".join(capsys.readouterr().out.split())
    assert "ab 00 2 token_reduction_pct 0, verdict cannot conclude, run run 0" in out
    assert "ab 01 2 added 1, token_reduction_pct 1" in out
    assert (
        "ab all 20 40 added 10, token_reduction_pct 0 to 19, verdict no-go (19), cannot conclude (1)" in out
    )


def test_days_left_out_are_noted_and_the_rest_is_done(asked: Base, bib: Run) -> None:
    said = bib(asked, "backfill", "--assets", "golden_set", "--days", f"2025-09-29..{BEFORE},2999-01-01")
    assert said.status == 0
    assert [row[1] for row in rows(said, "golden_set")] == [BEFORE]
    assert re.search(r"^bib: --days: left out 2025-09-29\.\.2025-09-30 \(before", said.err, re.MULTILINE)
    assert re.search(r"^bib: --days: left out 2999-01-01 \(after yesterday", said.err, re.MULTILINE)


def test_what_failed_is_named_with_its_partitions_and_so_is_what_waited_for_it(
    asked: Base, bib: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("bib_orchestration.assets.corpus.refresh_chunks", broken)
    said = bib(asked, "backfill", "--sources", "all", "--json")
    assert said.status == 1
    failed = r"^failed: chunks \(docs\.\.wiki\): .*no space left on device$"
    assert re.search(failed, said.err, re.MULTILINE)
    assert re.search(r"^not made: unique_chunks: what it needs failed$", said.err, re.MULTILINE)
    assert "Traceback" not in said.err
    assert list(partitions(said, "documents")) == ["docs", "wiki"]
    (failure,) = said.json["failures"]
    assert (failure["step"], failure["partitions"]) == ("chunks", "docs..wiki")
    not_made = {each["asset"]: each["partitions"] for each in said.json["not_made"]}
    assert not_made == dict.fromkeys(
        ("unique_chunks", "chunk_index", "corpus_health", "duplicates_saved", "index_age"), ""
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--days", "2025-10-09..2025-10-01"], "it is reversed; 2025-10-01..2025-10-09 is right"),
        (["--days", "all", "--wait"], "--wait goes with --queue"),
        (["--days", "all", "--server", "http://127.0.0.1:1"], "--server goes with --queue"),
        (["--days", "all", "--queue", "--server", "localhost:3000"], "is no address; http://127.0.0.1:3000"),
        (["--sources", "all", "--queue", "--full"], "--assets documents,chunks, then --assets "),
        (["--days", "all", "--queue", "--full"], "can be told to verify all; leave it out"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_line_and_status_two(
    base: Base, bib: Run, arguments: list[str], said: str
) -> None:
    found = bib(base, "backfill", *arguments)
    assert (found.status, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not (base.folder / "home" / "dagster").exists(), "asking made something"
