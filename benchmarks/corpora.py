"""The real documentation that benchmarks index, and the questions with known answers that they ask.

`--data DIR` (or BIB_DATA) names a folder with `wiki-astro-es/` and `docs-fastapi/`, beside which is
`cases/questions.jsonl`; the SOURCE files in them say where each comes from, and none is in this repository.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import load_settings

# All figures are of one thread, whenever NumPy was imported.
os.environ |= {"OMP_NUM_THREADS": "1", "LANCE_CPU_THREADS": "1"}
threadpool_limits(1)

# By name: below the data folder, what bib.toml says of it.
SOURCES = {
    "astro": 'path = "{data}/wiki-astro-es"\nsource_type = "wiki"\n',
    "fastapi": 'path = "{data}/docs-fastapi"\ninclude = ["/docs/es/**/*.md"]\nsource_type = "docs"\n',
    "fastapi-en": 'path = "{data}/docs-fastapi"\ninclude = ["/docs/en/**/*.md"]\nsource_type = "docs"\n'
    'language = "en"\n',
}


@dataclass(frozen=True, slots=True)
class Case:
    """A question as people type it. gold: paths, in their source, of the pages that answer it."""

    case_id: str
    question: str
    gold: tuple[str, ...]


def data_folder(description: str) -> Path:
    """What the command line or BIB_DATA names."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("BIB_DATA"), required="BIB_DATA" not in os.environ
    )
    data: Path = parser.parse_args().data
    return data.absolute()


def make_library(
    data: Path, scratch: Path, sources: Sequence[str], more: Mapping[str, str] | None = None
) -> Library:
    """A knowledge base in `scratch` of some of SOURCES, and of `more` like them; nothing is indexed yet."""
    wanted = {name: SOURCES[name].format(data=data) for name in sources} | dict(more or {})
    config = scratch / "bib.toml"
    config.write_text(
        '[retrieval]\nranking = "hybrid"\n'
        + "".join(f'[[sources]]\nname = "{name}"\n{lines}' for name, lines in wanted.items()),
        encoding="utf-8",
    )
    return Library(load_settings(config, environ={"BIB_HOME": str(scratch / "home")}))


def answerable(data: Path) -> list[Case]:
    """The questions that some page answers."""
    lines = (data.parent / "cases" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Case(each["id"], each["question"], tuple(path.split("/", 1)[1] for path in each["gold_paths"]))
        for each in map(json.loads, lines)
        if each["gold_paths"]
    ]


def share(ranks: Sequence[int | None], k: int) -> float:
    """recall@k: of how many the rank is k or better."""
    return sum(rank is not None and rank <= k for rank in ranks) / len(ranks)


def reciprocal(ranks: Sequence[int | None]) -> float:
    """MRR: the mean of 1 / rank, 0 where nothing was found."""
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


@contextmanager
def cpu() -> Iterator[Callable[[], float]]:
    """CPU seconds since the block began; after it, those that it took."""
    started = time.process_time()
    ended: list[float] = []
    yield lambda: (ended[0] if ended else time.process_time()) - started
    ended.append(time.process_time())


def log(line: str) -> None:
    print(line, file=sys.stderr)
