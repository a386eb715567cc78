"""Nearest vectors among 10,000 to 300,000: in memory, by LanceDB's scan, and by its IVF_RQ index.

    python benchmarks/vectors.py [--rows N ...] [--noise X] [--seed N] [--scratch DIR]

Vectors are made up: 1,024 dimensions, length 1, a cluster for each 50 rows. `--noise` is the length of what is
added to a cluster's centre, itself of length 1: at 1, rows of a cluster have cosines around .5 with each other
and below .15 with the rest; questions are made as rows are. Each way of searching is a process of its own, on
one thread, and is the code that `retrieve` calls. Prints Markdown tables; times are CPU, memory is the peak
above what the process takes before it opens the table. 300,000 rows take 3 GB of disk and 2 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "LANCE_CPU_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa

from bib_orchestration.biblioteca.index import approximate
from bib_orchestration.biblioteca.index.approximate import (
    EXACT_UP_TO_ROWS,
    IndexedVectors,
    keep_indexed,
    vectors_of,
)
from bib_orchestration.biblioteca.index.generations import LIST_COLUMNS, IndexStore
from bib_orchestration.biblioteca.index.neighbours import HeldVectors, Vectors
from bib_orchestration.biblioteca.index.occurrences import Matching, Occurrences
from bib_orchestration.biblioteca.retrieval.chunk import Filters

DIMENSION = 1024
ROWS_A_CLUSTER = 50
QUESTIONS = 100
# Of those, for LanceDB's scan, which takes seconds.
SCANNED = 10
TOP_K = 10
BATCH = 10_000
TABLE = "vectors"
# By source type, the share of the rows that are of it.
SHARES = {"wiki": 0.5, "docs": 0.45, "method": 0.05}
WAYS = {"held": "in memory", "flat": "LanceDB's scan", "index": "IVF_RQ"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000])
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where the tables are made")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one[0], Path(asked.one[1]))))
        return
    print(f"The code holds vectors in memory up to {EXACT_UP_TO_ROWS:,} rows. Noise {asked.noise}.\n")
    print(
        "| rows | way | the code's | to build, s | to open, s | memory, MB | ms a question | recall@10 "
        "| of 50 % of the rows: ms | recall@10 | of 5 %: ms | recall@10 |\n" + "|---" * 12 + "|"
    )
    for rows in asked.rows:
        with tempfile.TemporaryDirectory(prefix="bib-vectors-", dir=asked.scratch) as folder:
            compare(rows, asked.noise, asked.seed, Path(folder))


def compare(rows: int, noise: float, seed: int, folder: Path) -> None:
    table = write(rows, noise, seed, folder)
    found = {}
    for way, name in WAYS.items():
        building = build(table) if way == "index" else None
        found[way] = one(way, folder)
        columns = [
            f"{rows:,}",
            name,
            "yes" if way == ("held" if rows <= EXACT_UP_TO_ROWS else "index") else "",
            "" if building is None else f"{building:.1f}",
            f"{found[way]['opening_s']:.2f}",
            f"{found[way]['memory_mb']:.0f}",
        ]
        for of, exact in zip(found[way]["searches"], found["held"]["searches"], strict=True):
            columns += [f"{of['ms']:.1f}", f"{recall(of['found'], exact['found']):.3f}"]
        print(f"| {' | '.join(columns)} |", flush=True)
    more = 1000
    table.add(batches_of(more, noise, seed + 1, rows))
    after = one("index", folder)["searches"][0]
    print(
        f"| {rows:,} | IVF_RQ, and {more:,} rows not in it | | | | | {after['ms']:.1f} | | | | | |",
        flush=True,
    )


def write(rows: int, noise: float, seed: int, folder: Path) -> Any:
    made = batches_of(rows, noise, seed, 0)
    np.save(folder / "questions.npy", questions(rows, noise, seed))
    return IndexStore(str(folder)).db.create_table(TABLE, made)


def centres(rows: int, seed: int) -> Any:
    return unit(
        np.random.default_rng(seed).standard_normal((max(1, rows // ROWS_A_CLUSTER), DIMENSION), np.float32)
    )


def near(centre: Any, noise: float, random: Any) -> Any:
    away = random.standard_normal(centre.shape, np.float32) * np.float32(noise / DIMENSION**0.5)
    return unit(centre + away)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def questions(rows: int, noise: float, seed: int) -> Any:
    random = np.random.default_rng([seed, 1])
    all_centres = centres(rows, seed)
    return near(all_centres[random.integers(len(all_centres), size=QUESTIONS)], noise, random)


def batches_of(rows: int, noise: float, seed: int, first: int) -> pa.RecordBatchReader:
    """Rows with what a search by vector needs of them."""
    strings = pa.list_(pa.string())
    schema = pa.schema(
        [
            pa.field("content_id", pa.string()),
            *(pa.field(name, strings) for name in LIST_COLUMNS),
            pa.field("vector", pa.list_(pa.float32(), DIMENSION)),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng([seed, 2])
        all_centres = centres(rows, seed)
        for start in range(0, rows, BATCH):
            size = min(BATCH, rows - start)
            vectors = near(all_centres[random.integers(len(all_centres), size=size)], noise, random)
            types = random.choice(list(SHARES), size, p=list(SHARES.values())).tolist()
            lists = {
                name: pa.array(
                    [[kind] for kind in types] if name == "source_types" else [[""]] * size, strings
                )
                for name in LIST_COLUMNS
            }
            yield pa.record_batch(
                {
                    "content_id": [f"{first + start + number:032x}" for number in range(size)],
                    **lists,
                    "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
                },
                schema=schema,
            )

    return pa.RecordBatchReader.from_batches(schema, batches())


def build(table: Any) -> float:
    approximate.EXACT_UP_TO_ROWS = 0
    started = time.process_time()
    keep_indexed(table, dimension=DIMENSION)
    return time.process_time() - started


def one(way: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", way, str(folder)]
    environment = os.environ | {"RUST_LOG": "error"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(done.stdout))


def measure(way: str, folder: Path) -> dict[str, Any]:
    """Search in this process, which does nothing else."""
    table = IndexStore(str(folder)).open(TABLE)
    asked = np.load(folder / "questions.npy")
    before = memory_mb("VmRSS")
    started = time.process_time()
    columns = table.search().select(["content_id", *LIST_COLUMNS]).with_row_id(True).to_arrow()
    occurrences = Occurrences({name: columns[name].combine_chunks() for name in LIST_COLUMNS})
    row_ids = np.asarray(columns["_rowid"], np.uint64)
    search = searcher(way, table, row_ids)
    # What is laid out on first use belongs to opening.
    for filters in (Filters(), Filters("wiki"), Filters("method")):
        search(asked[0], occurrences.matching(filters))
    opening = time.process_time() - started
    searches = []
    for filters in (Filters(), Filters("wiki"), Filters("method")):
        found, spent = [], []
        for question in asked[: SCANNED if way == "flat" else QUESTIONS]:
            started = time.process_time()
            found.append(search(question, occurrences.matching(filters)))
            spent.append(time.process_time() - started)
        searches.append({"ms": float(np.median(spent)) * 1000, "found": found})
    return {"opening_s": opening, "memory_mb": memory_mb("VmHWM") - before, "searches": searches}


def memory_mb(name: str) -> float:
    """Of this process, as Linux counts it: VmRSS now, VmHWM at its peak."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024


def searcher(way: str, table: Any, row_ids: Any) -> Callable[[Any, Matching], list[int]]:
    """A function that gives the ids of the nearest rows, best first."""
    if way == "flat":

        def scan(question: Any, matching: Matching) -> list[int]:
            query = table.search(question, vector_column_name="vector").distance_type("cosine")
            query = query.bypass_vector_index().limit(TOP_K).select(["_rowid", "_distance"])
            if matching.where:
                query = query.where(matching.where)
            return list(query.to_arrow()["_rowid"].to_pylist())

        return scan
    vectors: Vectors
    if way == "held":
        held = np.empty((len(row_ids), DIMENSION), np.float32)
        first = 0
        for batch in table.search().select(["vector"]).to_batches():
            held[first : first + len(batch)] = vectors_of(batch["vector"], DIMENSION)
            first += len(batch)
        vectors = HeldVectors(held)
    else:
        texts = np.arange(len(row_ids), dtype=np.int32)
        vectors = IndexedVectors(table, row_ids, texts, DIMENSION)

    def nearest(question: Any, matching: Matching) -> list[int]:
        found = vectors.nearest(question, matching, TOP_K)
        cosines = found.cosines[found.near]
        best = np.argpartition(-cosines, TOP_K)[:TOP_K]
        return [int(row_id) for row_id in row_ids[found.near[best[np.argsort(-cosines[best])]]]]

    return nearest


def recall(found: list[list[int]], exact: list[list[int]]) -> float:
    """The share of the true nearest rows that were found."""
    pairs = list(zip(found, exact, strict=False))
    return sum(len(set(mine) & set(true)) for mine, true in pairs) / sum(len(true) for _, true in pairs)


if __name__ == "__main__":
    main()
