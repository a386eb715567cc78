"""A/B runs as files, written once, and their loading into `ab_runs` and `ab_results`.

`runs/<run id>/` holds `results.json` (the contract's output and the gate) and `results.parquet`, whose bytes
follow from the questions, the index and the settings alone, and `run.json` with what does not: the run's
id, when it was, how long each question took.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.evaluation.ab_test import AbRun
from bib_orchestration.biblioteca.evaluation.gate import Gate
from bib_orchestration.biblioteca.index.generations import Generation
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, as_table, insert_rows

RESULTS_JSON = "results.json"
RESULTS_PARQUET = "results.parquet"
RUN_JSON = "run.json"
AD_HOC = "adhoc"
# What `ab_runs` keeps of a run's settings and of its summary.
_SETTINGS = (
    "variants",
    "top_k",
    "trim_mode",
    "trim_threshold",
    "trim_min_sentences",
    "trim_window",
    "ranking",
    "source_type",
    "app",
)
# What runs of before there was a choice had.
_FORMER = {"trim_mode": "cosine"}
_FIGURES = ("avg_tokens_baseline", "avg_tokens_trim", "token_reduction_pct", "avg_overlap_vs_baseline")

# What a file that is no run's, or was damaged, may raise; pyarrow's own errors are among them.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that was written: its id and its folder."""

    run_id: str
    folder: Path


def write_run(
    folder: Path,
    run: AbRun,
    verdict: Gate,
    generation: Generation,
    *,
    day: date | None,
    golden_hash: str | None,
) -> StoredRun:
    """Write a run into a folder of its own below `folder`, which appears whole or not at all."""
    now = datetime.now(UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{day or AD_HOC}-{uuid.uuid4().hex[:8]}"
    made = folder / f".{run_id}.{os.getpid()}"
    made.mkdir(parents=True)
    try:
        _write_json(made / RESULTS_JSON, output_with_gate(run, verdict))
        _write_parquet(made / RESULTS_PARQUET, run)
        _write_json(
            made / RUN_JSON,
            {
                "run_id": run_id,
                "day": day.isoformat() if day else None,
                "golden_hash": golden_hash,
                "at": now.isoformat(),
                "settings": asdict(run.settings),
                "generation": asdict(generation),
                "latencies_ms": [round(latency, 3) for latency in run.latencies_ms],
            },
        )
        made.replace(folder / run_id)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return StoredRun(run_id, folder / run_id)


def output_with_gate(run: AbRun, verdict: Gate) -> dict[str, Any]:
    """The contract's output, and beside it the gate and its verdict."""
    return {
        **run.output,
        "gate": {
            "verdict": verdict.verdict,
            "conditions": [asdict(condition) for condition in verdict.conditions],
        },
    }


@dataclass(frozen=True, slots=True)
class LoadedRuns:
    """What loading runs did: how many it added, and the folders that hold none, with the reason."""

    added: int
    unreadable: list[str]


def load_runs(warehouse: Warehouse, folder: Path) -> LoadedRuns:
    """Load the runs that `ab_runs` lacks, with their rows of `ab_results`. All of both can be rebuilt this way.

    A run that cannot be read costs only itself.
    """
    present = {path.parent.name: path for path in sorted(folder.glob(f"[!.]*/{RUN_JSON}"))}
    with warehouse.lock():
        with warehouse.read() as connection:
            loaded = {row[0] for row in connection.sql("SELECT run_id FROM ab_runs").fetchall()}
        runs: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        unreadable: list[str] = []
        for run_id, path in present.items():
            if run_id in loaded:
                continue
            try:
                row, rows = _run_row(run_id, path.parent), _result_rows(run_id, path.parent)
                # A value of another type is to cost its own run, not the rows of all.
                as_table("ab_runs", [row])
                as_table("ab_results", rows)
            except _UNREADABLE as error:
                unreadable.append(f"{path.parent}: {type(error).__name__}: {error}")
            else:
                runs.append(row)
                results += rows
        if runs:
            with warehouse.transaction() as connection:
                # A warehouse of an older version has rows of runs that it does not list.
                connection.execute(
                    "DELETE FROM ab_results WHERE run_id IN (SELECT unnest($ids::VARCHAR[]))",
                    {"ids": [row["run_id"] for row in runs]},
                )
                insert_rows(connection, "ab_runs", runs)
                insert_rows(connection, "ab_results", results)
    return LoadedRuns(len(runs), unreadable)


def _run_row(run_id: str, folder: Path) -> dict[str, Any]:
    """The row of `ab_runs` of a stored run."""
    run = json.loads((folder / RUN_JSON).read_text(encoding="utf-8"))
    output = json.loads((folder / RESULTS_JSON).read_text(encoding="utf-8"))
    settings, generation, summary = _FORMER | run["settings"], run["generation"], output["summary"]
    return {
        "run_id": run_id,
        "ran_at": datetime.fromisoformat(run["at"]),
        "day": _day(run),
        "golden_hash": run["golden_hash"],
        "questions": summary["questions"],
        "generation": generation["table"],
        "model": generation["model"],
        "corpus": generation["corpus"],
        "verdict": output["gate"]["verdict"],
        **{name: settings[name] for name in _SETTINGS},
        **{name: summary[name] for name in _FIGURES},
    }


def _result_rows(run_id: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of `ab_results` of a stored run."""
    import pyarrow.parquet as parquet

    day = _day(json.loads((folder / RUN_JSON).read_text(encoding="utf-8")))
    rows: list[dict[str, Any]] = parquet.read_table(folder / RESULTS_PARQUET).to_pylist()
    return [row | {"run_id": run_id, "day": day} for row in rows]


def _day(run: dict[str, Any]) -> date | None:
    return date.fromisoformat(run["day"]) if run["day"] else None


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _write_parquet(path: Path, run: AbRun) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    schema = pa.schema(
        [
            ("rank", pa.int64()),
            ("question", pa.string()),
            ("variant", pa.string()),
            ("chunk_ids", pa.list_(pa.string())),
            ("top_score", pa.float64()),
            ("tokens", pa.int64()),
            ("tokens_before", pa.int64()),
            ("overlap_vs_baseline", pa.float64()),
            ("answer", pa.string()),
        ]
    )
    rows = [asdict(result) | {"answer": None} for result in run.results]
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)
