"""The pages that are indexed, what is done to them between two runs, and the process of each run.

For `compare` and for `index_cost`, which measure the same steps.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
UPKEEP = ("idle", "edit", "move", "delete")
# Unless whoever started this has chosen one.
ONE_CORE = ("taskset", "-c", "0") if shutil.which("taskset") and len(os.sched_getaffinity(0)) > 1 else ()
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LANCE_CPU_THREADS": "1",
}
SUFFIXES = (".md", ".mdx")
MOVED = "movidos"


@dataclass
class Pages:
    """A copy of the pages, which the steps change.

    folder: where it is; a folder in it for each source.
    written: what was inserted into a page, by its path: the index must have it.
    """

    folder: Path
    written: dict[str, str] = field(default_factory=dict)

    @classmethod
    def copied(cls, data: Path, folder: Path) -> Pages:
        """Astro's documentation and FastAPI's, both in Spanish, copied from `data`."""
        for name, root in (
            ("wiki-astro-es", data / "wiki-astro-es"),
            ("docs-fastapi-es", data / "docs-fastapi" / "docs" / "es"),
        ):
            for page in root.rglob("*"):
                if page.suffix in SUFFIXES:
                    target = folder / name / page.relative_to(root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(page, target)
        return cls(folder)

    def paths(self) -> list[str]:
        return sorted(
            page.relative_to(self.folder).as_posix()
            for page in self.folder.rglob("*")
            if page.suffix in SUFFIXES
        )

    def change(self, step: str, round_: int) -> None:
        """Do a step of `UPKEEP`; each round takes other pages."""
        if step == "edit":
            for path in self._some(max(1, round(len(self.paths()) / 100)), round_):
                self._edit(path, round_)
        elif step == "move":
            (path,) = self._some(1, 40 + round_)
            page = self.folder / path
            target = self.folder / path.split("/")[0] / MOVED / f"{round_}-{page.name}"
            target.parent.mkdir(exist_ok=True)
            page.rename(target)
        elif step == "delete":
            (path,) = self._some(1, 80 + round_)
            (self.folder / path).unlink()

    def _some(self, count: int, offset: int) -> list[str]:
        """Pages that no step has touched, evenly spread."""
        free = [path for path in self.paths() if f"/{MOVED}/" not in path and path not in self.written]
        stride = len(free) // count
        return [free[(place * stride + offset * 7 + 3) % len(free)] for place in range(count)]

    def _edit(self, path: str, round_: int) -> None:
        """A paragraph of one sentence, in the middle of the page."""
        page = self.folder / path
        parts = page.read_text(encoding="utf-8").split("\n\n")
        said = f"Aviso de la revisión {round_} en {page.stem}"
        parts.insert(max(1, len(parts) // 2), f"{said}.")
        page.write_text("\n\n".join(parts), encoding="utf-8")
        self.written[path] = said

    def faults(self, stored: Iterable[tuple[str, str]]) -> str:
        """What is not true of an index, given as (path, text) of all it holds; "" when all is."""
        texts: dict[str, list[str]] = {}
        for path, text in stored:
            # Contenders store paths from the root, or relative to the folder.
            texts.setdefault(path.removeprefix(f"{self.folder}/"), []).append(text)
        paths = set(self.paths())
        unseen = [path for path, said in self.written.items() if said not in "\n".join(texts.get(path, []))]
        counts = {
            "pages that are gone": len(set(texts) - paths),
            "pages absent": len(paths - set(texts)),
            "edits unseen": len(unseen),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def run_process(
    python: Path | str,
    script: str,
    action: str,
    pages: Pages,
    state: Path,
    *,
    bare: bool = False,
    environment: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One run of a contender in a process of its own, on one core; its result, or {"error": …}."""
    out = state.parent / "result.json"
    out.unlink(missing_ok=True)
    command = [*ONE_CORE, str(python), str(HERE / script), action]
    command += ["--source", str(pages.folder), "--state", str(state), "--out", str(out)]
    done = subprocess.run(
        command + ["--bare"] * bare,
        env={**os.environ, **ONE_THREAD, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        cwd=state.parent,
    )
    if not out.exists():
        print(done.stderr[-2000:], file=sys.stderr)
        return {"error": f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if "stored" in result:
        result["faults"] = pages.faults(map(tuple, result.pop("stored")))
    return result


def upkeep(
    python: Path | str, script: str, pages: Pages, state: Path, rounds: int, **options: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step of `UPKEEP`, `rounds` times, each in a process of its own: the step and its result."""
    for step in UPKEEP:
        for round_ in range(rounds):
            pages.change(step, round_)
            yield step, run_process(python, script, "index", pages, state, **options)


def middle(results: Iterable[dict[str, Any]], key: str) -> float | None:
    """The median of a figure, over those that have it."""
    values = [result[key] for result in results if result.get(key) is not None]
    return statistics.median(values) if values else None


def shown(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
