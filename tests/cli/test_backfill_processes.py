"""Backfills as processes: Dagster's own commands as the README has them, and `bib backfill`.

Each process costs seconds of CPU; together they build on each other, as a user's would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import load_settings
from bib_orchestration.biblioteca.warehouse import query_log

from .conftest import BIB, Base

DAGSTER = Path(sys.executable).with_name("dagster")
DAYS = ["2025-10-01", "2025-10-02", "2025-10-03"]


def run(base: Base, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=base.environ, cwd=base.folder, capture_output=True, text=True, timeout=120
    )


def materialize(base: Base, *options: str) -> subprocess.CompletedProcess[str]:
    return run(base, str(DAGSTER), "asset", "materialize", "-m", "bib_orchestration.definitions", *options)


def recorded(base: Base, asset: str) -> dict[str | None, dict[str, Any]]:
    """What Dagster's event log has of an asset's partitions: the newest figures of each."""
    with dg.DagsterInstance.from_config(str(base.folder / "home" / "dagster")) as instance:
        events = instance.fetch_materializations(dg.AssetKey(asset), limit=100, ascending=True).records
    made = [event.asset_materialization for event in events]
    return {
        each.partition: {name: value.value for name, value in each.metadata.items()}
        for each in made
        if each is not None
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """With its query log loaded."""
    made = Base(tmp_path_factory.mktemp("raw"))
    made.write("home/query_log/asked.jsonl", (made.folder / "log.jsonl").read_text(encoding="utf-8"))
    (made.folder / "home" / "dagster").mkdir()
    library = Library(load_settings(made.folder / "bib.toml", environ=made.environ))
    query_log.load(library.warehouse, library.settings.query_log)
    return made


def test_dagsters_own_commands_backfill_partitions_and_ranges_of_sources_and_days(base: Base) -> None:
    one = materialize(base, "--select", "documents,chunks,unique_chunks,chunk_index", "--partition", "wiki")
    assert one.returncode == 0, one.stderr
    assert {
        name: made["dagster/partition_row_count"] for name, made in recorded(base, "documents").items()
    } == {"wiki": 2}

    sources = materialize(base, "--select", "documents,chunks", "--partition-range", "docs...wiki")
    assert sources.returncode == 0, sources.stderr
    documents, chunks = recorded(base, "documents"), recorded(base, "chunks")
    assert {name: made["added"] for name, made in documents.items()} == {"docs": 1, "wiki": 0}
    assert {name: made["dagster/partition_row_count"] for name, made in chunks.items()} == {
        "docs": 1,
        "wiki": 2,
    }

    days = materialize(
        base, "--select", "golden_set,retrieval_ab", "--partition-range", f"{DAYS[0]}...{DAYS[2]}"
    )
    assert days.returncode == 0, days.stderr
    golden, runs = recorded(base, "golden_set"), recorded(base, "retrieval_ab")
    assert {name: made["dagster/partition_row_count"] for name, made in golden.items()} == dict(
        zip(DAYS, (0, 1, 2), strict=True)
    )
    assert {name: made["questions"] for name, made in runs.items()} == dict(zip(DAYS, (0, 1, 2), strict=True))
    assert runs[DAYS[0]]["verdict"] == "cannot conclude"
    assert len({made["run"] for made in runs.values()}) == 3

    # `bib backfill` writes into the same history.
    listed = f"{DAYS[0]},{DAYS[2]}..2025-10-04"
    done = run(base, str(BIB), "backfill", "--days", listed, "--assets", "golden_set", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert len(said["run_ids"]) == 2
    assert {
        made["partition"]: made["figures"]["dagster/partition_row_count"] for made in said["materialised"]
    } == {
        DAYS[0]: 0,
        DAYS[2]: 2,
        "2025-10-04": 2,
    }
    assert set(recorded(base, "golden_set")) == {*DAYS, "2025-10-04"}
