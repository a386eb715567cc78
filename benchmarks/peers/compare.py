"""The same pages through CocoIndex, LlamaIndex, a plain script and this project, in one run and one table.

    python benchmarks/peers/compare.py --data DIR --peer-python VENV/bin/python      (or BIB_DATA=DIR)

DIR holds `wiki-astro-es/` and `docs-fastapi/`; VENV has requirements.txt installed, and this script itself runs in
the project's environment. One thread, one core, the built-in model; each run is a process of its own, and steps
are changes to a copy of the pages. Times are CPU seconds, medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import steps
from steps import UPKEEP, Pages, middle, shown

HEAD = (
    "contender",
    "full ÷ bare encoder (texts)",
    "idle: work + start-up",
    "1 % edited: beside the encoder, embedded (new)",
    "a page moved",
    "deleted",
    "one retrieval ÷ its embedding",
    "the index after edit, move, delete",
)


@dataclass(frozen=True)
class Contender:
    """A row of the table.

    script: beside this one.
    ours: whether it runs in this project's environment.
    environment: what tells it from another row with the same script.
    after: the contender whose full index it goes on from, instead of building one.
    """

    name: str
    script: str
    ours: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    after: str | None = None


CONTENDERS = (
    Contender("this project", "peer_bib.py", ours=True),
    Contender("plain script", "peer_script.py"),
    Contender("CocoIndex", "peer_cocoindex.py"),
    Contender("LlamaIndex, its delete repaired", "peer_llama_index.py", environment={"PEER_REPAIRED": "1"}),
    Contender("LlamaIndex, as published", "peer_llama_index.py", after="LlamaIndex, its delete repaired"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("BIB_DATA"), required="BIB_DATA" not in os.environ
    )
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--full-runs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5, help="of each other step")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="such as peer_script.py")
    given = parser.parse_args()
    lines = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bib-peers-") as scratch:
        for contender in CONTENDERS:
            if given.only and contender.script not in given.only:
                continue
            home = Path(scratch).resolve() / contender.script.removesuffix(".py")
            measured = measure(contender, home, given)
            lines.append(row(contender.name, measured))
            for results in measured.values():
                versions |= next((result["versions"] for result in results if "versions" in result), {})
            print(lines[-1], file=sys.stderr)
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    print("\n".join(lines))
    print("\n" + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))


def measure(contender: Contender, home: Path, given: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """The results of each step."""
    python = sys.executable if contender.ours else given.peer_python.absolute()
    measured: dict[str, list[dict[str, Any]]] = {step: [] for step in ("full", "search", *UPKEEP)}
    state, whole = home / "state", home / "whole"
    shutil.rmtree(home / "pages", ignore_errors=True)
    pages = Pages.copied(Path(given.data).absolute(), home / "pages")

    def run(action: str, *, bare: bool = False) -> dict[str, Any]:
        return steps.run_process(
            python, contender.script, action, pages, state, bare=bare, environment=contender.environment
        )

    if contender.after is None:
        for _ in range(given.full_runs):
            shutil.rmtree(state, ignore_errors=True)
            measured["full"].append(run("index", bare=True))
        shutil.copytree(state, whole)
        measured["search"].append(run("search"))
    else:
        shutil.rmtree(state)
        shutil.copytree(whole, state)
    for step, result in steps.upkeep(
        python, contender.script, pages, state, given.runs, environment=contender.environment
    ):
        print(contender.name, step, result.get("error") or result.get("faults") or "true", file=sys.stderr)
        measured[step].append(result)
    return measured


def row(name: str, measured: dict[str, list[dict[str, Any]]]) -> str:
    full, search, idle = measured["full"], measured["search"], measured["idle"]
    ratios = [{"ratio": result["work"] / result["bare"]} for result in full if result.get("bare")]
    asked = [
        {"ratio": result["search_p50"] / result["embedding_p50"]}
        for result in search
        if "search_p50" in result
    ]
    cells = (
        name,
        f"{shown(middle(ratios, 'ratio'))} ({middle(full, 'texts'):.0f})" if full else "–",
        f"{shown(middle(idle, 'work'))} + {shown(middle(idle, 'start_up'))}",
        *(_upkeep(measured[step]) for step in ("edit", "move", "delete")),
        shown(middle(asked, "ratio")),
        _truth([*full, *(result for step in UPKEEP for result in measured[step])]),
    )
    return "| " + " | ".join(cells) + " |"


def _upkeep(results: Sequence[dict[str, Any]]) -> str:
    sound = [result for result in results if not result.get("error")]
    if not sound:
        return "raises"
    failed = f"; {len(results) - len(sound)} of {len(results)} raise" if len(sound) < len(results) else ""
    beside, texts, new = (middle(sound, key) for key in ("beside", "texts", "new_texts"))
    return f"{shown(beside)}, {texts:.0f} ({new:.0f}){failed}"


def _truth(results: Sequence[dict[str, Any]]) -> str:
    errors = [result["error"] for result in results if result.get("error")]
    faults = [result["faults"] for result in results if result.get("faults")]
    said = []
    if errors:
        said.append(f"{len(errors)} of {len(results)} runs raise ({errors[-1].splitlines()[0][:120]})")
    if faults:
        said.append(f"{len(faults)} of {len(results)} wrong (the last: {faults[-1]})")
    return "; ".join(said).replace("|", "/") or "yes"


if __name__ == "__main__":
    main()
