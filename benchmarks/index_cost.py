"""What a full index costs beside the encoder, and what a run costs when little changed, or nothing.

    python benchmarks/index_cost.py --data DIR      (or BIB_DATA=DIR)

DIR holds `wiki-astro-es/` (the Spanish pages of withastro/docs) and `docs-fastapi/` (fastapi's repository); steps are
changes to a copy of their pages. Each run is a process of its own, on one core and thread, with the built-in model.
Prints Markdown tables; times are CPU seconds, medians. Most of the time goes into `--full-runs`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import steps
from steps import ONE_CORE, ONE_THREAD, Pages, middle, shown

OURS = "peer_bib.py"
TICKS = 20
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BIB_DATA"))
    parser.add_argument("--full-runs", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="of each other step")
    parser.add_argument("--ticks-of", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ticks_of:
        print(json.dumps(measure_ticks(given.ticks_of)))
        return
    if given.data is None:
        parser.error("name the data by --data or BIB_DATA")
    with tempfile.TemporaryDirectory(prefix="bib-index-cost-") as scratch:
        home = Path(scratch).resolve()
        pages = Pages.copied(given.data.absolute(), home / "pages")
        print(f"{len(pages.paths())} pages.\n")
        full_index(pages, home, given.full_runs)
        state = home / f"state{given.full_runs - 1}"
        small_runs(pages, state, given.runs)
        ticks(state)


def full_index(pages: Pages, home: Path, runs: int) -> None:
    """The whole index against the same texts given to the encoder in one call, in the same process."""
    print("## A full index\n")
    print("| run | contents | texts | whole run | encoder alone | ratio | beside the encoder | true |")
    print("|---|---|---|---|---|---|---|---|")
    results = []
    for number in range(runs):
        result = steps.run_process(sys.executable, OURS, "index", pages, home / f"state{number}", bare=True)
        result["ratio"] = result["work"] / result["bare"]
        results.append(result)
        print(f"| {number + 1} | {_full_cells(result)} | {_truth([result])} |", flush=True)
    medians = {key: middle(results, key) for key in ("work", "bare", "ratio", "beside")}
    print(f"| **median** | {_full_cells(results[0] | medians)} | {_truth(results)} |")


def _full_cells(result: dict[str, Any]) -> str:
    figures = " | ".join(shown(result[key]) for key in ("work", "bare", "ratio", "beside"))
    return f"{result['contents']} | {result['texts']} | {figures}"


def small_runs(pages: Pages, state: Path, runs: int) -> None:
    """What `bib index` does by hand after each kind of change."""
    print("\n## When little changed\n")
    print(
        "| step | start-up | model | encoder | beside the encoder | its most | wall "
        "| contents embedded (needed) | texts embedded | true |\n|" + "---|" * 10
    )
    by_step: dict[str, list[dict[str, Any]]] = {}
    known = set(_content_ids(state))
    for step, result in steps.upkeep(sys.executable, OURS, pages, state, runs):
        now = set(_content_ids(state))
        result["needed"] = len(now - known)
        known |= now
        result["encoder"] = result["work"] - result["beside"]
        by_step.setdefault(step, []).append(result)
    for step, results in by_step.items():
        times = (middle(results, key) for key in ("start_up", "model", "encoder", "beside"))
        exact = ", ".join(f"{result['embedded']} ({result['needed']})" for result in results)
        cells = [
            step,
            *map(shown, times),
            shown(max(result["beside"] for result in results)),
            shown(middle(results, "wall")),
            exact if any(result["embedded"] for result in results) else "0",
            ", ".join(str(result["texts"]) for result in results) if step == "edit" else "0",
            _truth(results),
        ]
        print("| " + " | ".join(cells) + " |")


def _content_ids(state: Path) -> list[str]:
    import lancedb

    (table,) = (state / "home" / "index").glob("chunks__*.lance")
    rows = (
        lancedb.connect(str(table.parent)).open_table(table.stem).search().select(["content_id"]).to_arrow()
    )
    ids: list[str] = rows["content_id"].to_pylist()
    return ids


def _truth(results: list[dict[str, Any]]) -> str:
    wrong = [result.get("error") or result["faults"] for result in results]
    return "; ".join(filter(None, wrong)) or "yes"


def ticks(state: Path) -> None:
    """Ticks of a schedule whose sources are as they were at its last run."""
    print("\n## Nothing changed: a tick in a warm code server\n")
    command = [*ONE_CORE, sys.executable, __file__, "--ticks-of", str(state)]
    done = subprocess.run(
        command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True
    )
    print(
        "| circuit | start-up | the tick that asks for a run | that run, nothing to do | first tick after it "
        "| next ticks | their most | runs asked for |\n|" + "---|" * 8
    )
    for row in json.loads(done.stdout.splitlines()[-1]):
        times = ("start_up", "asking", "run", "first", "next", "most")
        print(
            f"| `{row['circuit']}` | {' | '.join(shown(row[key], 3) for key in times)} | {row['asked']} of {TICKS} |"
        )


def measure_ticks(state: Path) -> list[dict[str, Any]]:
    """Each circuit runs once, and is recorded in an instance on disk; then its ticks are evaluated as a code
    server does: with an instance opened anew for each."""
    import dagster as dg

    from bib_orchestration.biblioteca.settings import load_settings
    from bib_orchestration.build import build_definitions

    settings = load_settings(state / "bib.toml", environ={"BIB_HOME": str(state / "home")})
    definitions = build_definitions(settings)
    schedules = {name: definitions.resolve_schedule_def(name) for name in ("chunks", "wiki")}
    start_up = time.process_time()
    folder = state / "dagster"
    folder.mkdir()
    measured = []
    with dg.DagsterInstance.local_temp(str(folder)) as instance:

        def tick(name: str) -> Any:
            with dg.build_schedule_context(
                instance_ref=instance.get_ref(), scheduled_execution_time=datetime.now(UTC)
            ) as context:
                return schedules[name].evaluate_tick(context)

        for name, schedule in schedules.items():
            asking, asked = _cpu(lambda name=name: tick(name).run_requests)
            (request,) = asked
            job = definitions.resolve_job_def(schedule.job_name)
            ran, _ = _cpu(
                lambda job=job, request=request: job.execute_in_process(
                    instance=instance, run_config=request.run_config | QUIET, tags=request.tags
                )
            )
            assert instance.get_runs(dg.RunsFilter(job_name=schedule.job_name))[0].is_success
            skipped = [_cpu(lambda name=name: tick(name).run_requests or []) for _ in range(TICKS)]
            measured.append(
                {
                    "circuit": name,
                    "start_up": start_up,
                    "asking": asking,
                    "run": ran,
                    "first": skipped[0][0],
                    "next": statistics.median(spent for spent, _ in skipped[1:]),
                    "most": max(spent for spent, _ in skipped[1:]),
                    "asked": sum(len(asked) for _, asked in skipped),
                }
            )
    return measured


def _cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and what it gives."""
    started = time.process_time()
    given = call()
    return time.process_time() - started, given


if __name__ == "__main__":
    main()
