"""A/B runs as files, written once, and their loading into `ab_results`.

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
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows

RESULTS_JSON = "results.json"
RESULTS_PARQUET = "results.parquet"
RUN_JSON = "run.json"
AD_HOC = "adhoc"


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
    """Load the runs that `ab_results` lacks. All of it can be rebuilt this way.

    A run without questions has no rows, and is none of them. One that cannot be read costs only itself.
    """
    present = {path.parent.name: path for path in sorted(folder.glob(f"[!.]*/{RUN_JSON}"))}
    with warehouse.lock():
        with warehouse.read() as connection:
            loaded = {row[0] for row in connection.sql("SELECT DISTINCT run_id FROM ab_results").fetchall()}
        missing = {run_id: path for run_id, path in present.items() if run_id not in loaded}
        rows: list[dict[str, Any]] = []
        unreadable: list[str] = []
        for run_id, path in missing.items():
            try:
                rows += _rows(run_id, path)
            except (OSError, ValueError, KeyError, TypeError) as error:
                # pyarrow's own errors are ValueErrors.
                unreadable.append(f"{path.parent}: {type(error).__name__}: {error}")
        if rows:
            with warehouse.transaction() as connection:
                insert_rows(connection, "ab_results", rows)
    return LoadedRuns(len({row["run_id"] for row in rows}), unreadable)


def _rows(run_id: str, path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as parquet

    day = json.loads(path.read_text(encoding="utf-8"))["day"]
    rows: list[dict[str, Any]] = parquet.read_table(path.parent / RESULTS_PARQUET).to_pylist()
    return [row | {"run_id": run_id, "day": date.fromisoformat(day) if day else None} for row in rows]


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
