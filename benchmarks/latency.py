"""How long a warm search takes, beside the embedding of its question.

    python benchmarks/latency.py --data DIR      (or BIB_DATA=DIR)

DIR: see corpora.py. Indexes the Spanish documentation of Astro and FastAPI, then asks all questions, in turn
embedding each and retrieving for it, in one process on one thread. Prints Markdown tables of CPU milliseconds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Before the project: it says where that is, and keeps all to one thread.
from corpora import answerable, data_folder, log, make_library

from bib_orchestration.biblioteca.evaluation.ab_test import AbSettings, run_ab
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.biblioteca.retrieval.retrieve import Filters, RetrievalOptions, retrieve

REPEATS = 5
AB_QUESTIONS = 15
SEARCHES = {
    "vector": (RetrievalOptions(), Filters()),
    "vector, filtered by source type": (RetrievalOptions(), Filters("docs")),
    "hybrid": (RetrievalOptions(ranking="hybrid"), Filters()),
    "hybrid with trim": (RetrievalOptions(ranking="hybrid", trim=True, trim_window=1), Filters()),
}


def main() -> None:
    data = data_folder(__doc__)
    with tempfile.TemporaryDirectory(prefix="bib-latency-") as scratch:
        library = make_library(data, Path(scratch), ["astro", "fastapi"])
        index_all(library, progress=ProgressLog("embedding", "contents", log))
        questions = [case.question for case in answerable(data)]
        first = first_question(library, questions[0])
        searching(library, questions)
        print(f"\nThe first question of a process, index opened and texts not held yet: {first:.0f} ms.\n")
        evaluating(library, questions[:AB_QUESTIONS])


def first_question(library: Library, text: str) -> float:
    # The model is loaded already: it has embedded the corpus.
    started = time.process_time()
    retrieve(library.question(text), 5, SEARCHES["hybrid with trim"][0], index=library.index.snapshot())
    return (time.process_time() - started) * 1000


def searching(library: Library, questions: list[str]) -> None:
    """Embedding and searching by turns, so that what disturbs one disturbs the others."""
    index = library.index.snapshot()
    spent: dict[str, list[float]] = {"embedding": [], **{name: [] for name in SEARCHES}}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.process_time()
        result = work()
        spent[name].append((time.process_time() - started) * 1000)
        return result

    for _ in range(REPEATS):
        for text in questions:
            question = timed("embedding", lambda text=text: library.question(text, index))
            for name, (options, filters) in SEARCHES.items():
                timed(name, lambda o=options, f=filters, q=question: retrieve(q, 5, o, f, index=index))
    embedding = np.median(spent["embedding"])
    print(
        f"{len(index)} contents, {len(questions)} questions, {REPEATS} times each, top 5.\n\n"
        "| | p50, ms | p95, ms | p50, with the embedding, by that of the embedding alone |\n|---|---|---|---|"
    )
    for name, times in spent.items():
        by = "" if name == "embedding" else f"{(embedding + np.median(times)) / embedding:.2f}"
        print(f"| {name} | {np.median(times):.2f} | {np.percentile(times, 95):.2f} | {by} |")


def evaluating(library: Library, questions: list[str]) -> None:
    index = library.index.snapshot()
    print(
        f"| A/B run: {len(questions)} questions, baseline and trim | CPU s | of which embedding |\n|---|---|---|"
    )
    for ranking in ("vector", "hybrid"):
        runs = []
        for _ in range(REPEATS):
            embedding = 0.0

            def embed(text: str) -> np.ndarray:
                nonlocal embedding
                started = time.process_time()
                vector = library.question(text, index).vector
                embedding += time.process_time() - started
                return vector

            started = time.process_time()
            run_ab(questions, AbSettings(ranking=ranking), index=index, embed_question=embed)
            runs.append((time.process_time() - started, embedding))
        whole, part = sorted(runs)[len(runs) // 2]
        print(f"| {ranking} | {whole:.3f} | {part:.3f} |")


if __name__ == "__main__":
    main()
