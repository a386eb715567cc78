"""Which pages are found for questions as people type them: by vectors, by BM25 alone, and by both.

    python benchmarks/questions.py --data DIR      (or BIB_DATA=DIR)

DIR: see corpora.py. Indexes the documentation of Astro (Spanish) and FastAPI (Spanish and English: a few
questions are answered by pages that are not translated). A page counts by its best chunk. Prints Markdown
tables: the figures, then each question whose page is not among the first five.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

# Before the project: it says where that is, and keeps all to one thread.
from corpora import Case, answerable, data_folder, log, make_library, reciprocal, share

from bib_orchestration.biblioteca.index.vector_index import Snapshot
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.biblioteca.retrieval.lexical import question_stems
from bib_orchestration.biblioteca.retrieval.retrieve import RetrievalOptions, retrieve

# Chunks looked at, and pages that count, a question.
CHUNKS = 60
PAGES = 20
MISSED = 5
SHOWN = 90

Ranking = Callable[[str], list[str]]


def main() -> None:
    data = data_folder(__doc__)
    cases = answerable(data)
    with tempfile.TemporaryDirectory(prefix="bib-questions-") as scratch:
        library = make_library(data, Path(scratch), ["astro", "fastapi", "fastapi-en"])
        index_all(library, progress=ProgressLog("embedding", "contents", log))
        rankings = rankings_of(library)
        found = {name: [ranking(case.question) for case in cases] for name, ranking in rankings.items()}
    print(f"{len(cases)} questions.\n\n| ranking | recall@1 | recall@5 | MRR@{PAGES} |\n|---|---|---|---|")
    ranks = {
        name: [rank_of(case, pages) for case, pages in zip(cases, each, strict=True)]
        for name, each in found.items()
    }
    for name, each in ranks.items():
        print(f"| {name} | {share(each, 1):.3f} | {share(each, 5):.3f} | {reciprocal(each):.3f} |")
    misses(cases, ranks, found)


def rankings_of(library: Library) -> dict[str, Ranking]:
    """Functions that give the pages found for a question, best first."""
    index = library.index.snapshot()

    def by(options: RetrievalOptions) -> Ranking:
        def ranked(text: str) -> list[str]:
            found = retrieve(library.question(text, index), CHUNKS, options, index=index)
            return list(dict.fromkeys(chunk.path for chunk in found.chunks))[:PAGES]

        return ranked

    return {
        "vector": by(RetrievalOptions()),
        "BM25 alone": lambda text: by_bm25(text, index),
        "hybrid": by(RetrievalOptions(ranking="hybrid")),
    }


def by_bm25(text: str, index: Snapshot) -> list[str]:
    """No option of `retrieve`: its lexical leg, for comparison. Texts count once there, too."""
    scores = index.lexical.scores(question_stems(text, index.languages)).round(6)
    best = [row for row in np.lexsort((np.arange(len(index)), -scores)) if scores[row] > 0]
    texts = {int(index.text_numbers[row]): int(row) for row in reversed(best)}
    rows = sorted(texts.values(), key=lambda row: (-scores[row], row))[:CHUNKS]
    return list(dict.fromkeys(index.occurrences.at(row, 0)["paths"] for row in rows))[:PAGES]


def rank_of(case: Case, pages: list[str]) -> int | None:
    return next((rank for rank, page in enumerate(pages, 1) if page in case.gold), None)


def misses(cases: list[Case], ranks: dict[str, list[int | None]], found: dict[str, list[list[str]]]) -> None:
    names = list(ranks)
    print(
        f"\nPages that hybrid search has not among the first {MISSED}, and where each ranking has them "
        f"(–: not in {PAGES}).\n\n| question | page | {' | '.join(names)} | hybrid's first |\n"
        + "|---" * (len(names) + 3)
        + "|"
    )
    for number, case in enumerate(cases):
        rank = ranks["hybrid"][number]
        if rank is not None and rank <= MISSED:
            continue
        places = " | ".join(str(ranks[name][number] or "–") for name in names)
        first = short((found["hybrid"][number] or ["nothing"])[0])
        gold = ", ".join(map(short, case.gold))
        text = case.question if len(case.question) <= SHOWN else case.question[:SHOWN] + "…"
        print(f"| {case.case_id}: {text} | {gold} | {places} | {first} |")
    both = sum(rank is not None and rank <= MISSED for rank in ranks["hybrid"])
    for name in ("vector", "BM25 alone"):
        gained = [
            case.case_id
            for case, rank, with_both in zip(cases, ranks[name], ranks["hybrid"], strict=True)
            if rank is not None and rank <= MISSED and (with_both is None or with_both > MISSED)
        ]
        print(f"\nFound by {name} in the first {MISSED} and not by hybrid: {', '.join(gained) or 'none'}.")
    print(f"\nHybrid finds {both} of {len(cases)} in the first {MISSED}.")


def short(path: str) -> str:
    """A path without what all have in common."""
    return path.removeprefix("src/content/docs/es/").removeprefix("docs/")


if __name__ == "__main__":
    main()
