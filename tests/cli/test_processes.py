"""`bib` as a process of its own: what it imports, what a pipe that closes early does to it, what a user sees.

Each process costs seconds of CPU, so each is asked several things.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from .conftest import BIB, Base

# Runs a command of `bib`, and says on stderr, as its last line, how it ended and what it had imported.
WATCHED = """\
import json, sys
from bib_orchestration import cli
try:
    status = cli.main(sys.argv[1:])
except SystemExit as left:
    status = left.code
heavy = ["dagster", "torch", "google.genai", "sentence_transformers"]
print(json.dumps([status, [name for name in heavy if name in sys.modules]]), file=sys.stderr)
"""


def run(base: Base, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=base.environ | environ, cwd=base.folder, capture_output=True, text=True, timeout=120
    )


def watched(base: Base, *arguments: str, **environ: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    done = run(base, sys.executable, "-c", WATCHED, *arguments, **environ)
    return done, json.loads(done.stderr.rstrip("\n").split("\n")[-1])


@pytest.fixture(scope="module")
def indexed(shared: Base) -> Base:
    """Indexed by a process of its own, with the model that bib.toml names."""
    done, (status, imported) = watched(shared, "index")
    assert (status, imported) == (0, [])
    assert "3 embedded" in done.stdout
    assert "Warning" not in done.stderr
    return shared


def test_search_imports_no_dagster_and_a_pipe_that_closes_early_is_no_fault(indexed: Base) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, "search", "¿Cómo se piden las vacaciones?"],
        env=indexed.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read().rstrip("\n").split("\n")
    process.stderr.close()
    process.wait(timeout=60)
    assert re.match(r"1\. wiki/vacaciones\.md:\d+  score ", first)
    # It may have written all before the pipe closed.
    status, imported = json.loads(said[-1])
    assert status in (0, 1)
    assert imported == []
    assert said[:-1] == []


def test_status_imports_no_dagster_and_no_colour_means_none(indexed: Base) -> None:
    on_a_terminal = "import io, sys\nsys.stdout.isatty = lambda: True\n" + WATCHED
    environ = {"NO_COLOR": "1", "TERM": "xterm-256color"}
    done = run(indexed, sys.executable, "-c", on_a_terminal, "status", **environ)
    assert json.loads(done.stderr.rstrip("\n").split("\n")[-1]) == [0, []]
    assert "index: 3 contents by use-multilingual" in done.stdout
    # Bold and dim are no colours; codes from 30 on are. That there are some shows that it took a terminal.
    codes = {
        int(code)
        for found in re.findall(r"\x1b\[([\d;]*)m", done.stdout)
        for code in found.split(";")
        if code
    }
    assert codes
    assert codes <= {0, 1, 2}


def test_backfill_runs_in_dagster_and_prints_each_partitions_figures(indexed: Base) -> None:
    indexed.write("wiki/nueva.md", "# Nueva\n\nUna página que llegó después.\n")
    indexed.write("home/query_log/asked.jsonl", (indexed.folder / "log.jsonl").read_text(encoding="utf-8"))
    done = run(indexed, str(BIB), "backfill", "--sources", "all", "--days", "2025-10-01..2025-10-03")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.split("\n") if line.strip()]
    assert rows[0] == ["asset", "partition", "rows", "figures"]
    made = {(row[0], row[1]): row[2] for row in rows if len(row) > 2}
    assert (made["documents", "docs"], made["documents", "wiki"]) == ("1", "3")
    assert [made["golden_set", f"2025-10-0{day}"] for day in (1, 2, 3)] == ["0", "1", "2"]
    assert [made["retrieval_ab", f"2025-10-0{day}"] for day in (1, 2, 3)] == ["0", "2", "4"]
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.split("\n") if len(line.rstrip()) > 80] == []
    # Nothing that a user would wince at: no log, no warning.
    assert done.stderr == ""
    assert (indexed.folder / "home" / "dagster" / "dagster.yaml").is_file()


def test_a_bad_setting_is_one_line(indexed: Base) -> None:
    done = run(indexed, str(BIB), "status", RETRIEVAL_TRIM_THRESHOLD="0,4")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("bib: RETRIEVAL_TRIM_THRESHOLD: '0,4' is no cosine")
    assert done.stderr.count("\n") == 1


def test_streams_that_cron_closed_are_no_fault(indexed: Base) -> None:
    for closed in ("2>&-", ">&-"):
        done = run(indexed, "sh", "-c", f"exec {sys.executable} -m bib_orchestration.cli index {closed}")
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
