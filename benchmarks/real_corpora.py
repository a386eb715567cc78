"""Index real documentation, search it, and run the A/B evaluation on real questions.

    python benchmarks/real_corpora.py --data DIR      (or BIB_DATA=DIR)

DIR holds `wiki-astro-es/`, `docs-fastapi/`, `xquad/` and, beside it, `cases/questions.jsonl`; the SOURCE files in
them say where each comes from, and none is in this repository. Prints Markdown tables. Times are CPU seconds on
one thread.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before the project: it says where that is, and keeps all to one thread.
from corpora import answerable, cpu, data_folder, log, make_library, reciprocal, share

from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_now
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.progress import ProgressLog
from bib_orchestration.biblioteca.retrieval.retrieve import Filters, Retrieval, RetrievalOptions, retrieve
from bib_orchestration.biblioteca.warehouse.query_import import import_log


def main() -> None:
    data = data_folder(__doc__)
    with tempfile.TemporaryDirectory(prefix="bib-benchmark-") as scratch:
        run(data, Path(scratch))


def run(data: Path, scratch: Path) -> None:
    xquad = json.loads((data / "xquad" / "xquad.es.json").read_text(encoding="utf-8"))
    questions = list(write_xquad(xquad, scratch))
    paragraphs = f'path = "{scratch / "xquad"}"\nsource_type = "xquad"\n'
    library = make_library(data, scratch, ["astro", "fastapi", "fastapi-en"], {"xquad": paragraphs})
    indexing(library)
    searching(library, data)
    evaluating(library, questions, scratch)


def write_xquad(xquad: dict[str, Any], scratch: Path) -> Iterator[dict[str, Any]]:
    """Write each paragraph as a page; gives its questions with page and answer."""
    number = 0
    for article in xquad["data"]:
        for place, paragraph in enumerate(article["paragraphs"]):
            path = f"{article['title']}/{place}.md"
            file = scratch / "xquad" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(paragraph["context"], encoding="utf-8")
            for asked in paragraph["qas"]:
                number += 1
                yield {
                    "query_id": asked["id"],
                    "ts": f"2026-10-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
                    "question": asked["question"],
                    "path": path,
                    "answer": asked["answers"][0]["text"],
                }


def indexing(library: Library) -> None:
    print(
        "## Indexing\n\n| run | documents | contents | embedded | texts | CPU s |\n|---|---|---|---|---|---|"
    )
    for name in ("first", "nothing changed"):
        with cpu() as spent:
            report = index_all(library, progress=ProgressLog("embedding", "contents", log))
        documents = sum(source.documents for source in report.sources)
        index = report.index
        print(
            f"| {name} | {documents} | {index.contents} | {index.embedded} | {index.texts} | {spent():.2f} |"
        )
        assert not report.errors, report.errors


def searching(library: Library, data: Path) -> None:
    asked = answerable(data)
    print(
        f"\n## Searching: {len(asked)} questions as people type them, on the Astro and FastAPI documentation\n"
    )
    print("| ranking | recall@1 | recall@5 | MRR@20 | CPU ms, p50 |\n|---|---|---|---|---|")
    index = library.index.snapshot()
    for ranking in ("vector", "hybrid"):
        ranks, times = [], []
        for case in asked:
            started = time.process_time()
            question = library.question(case.question)
            found = retrieve(question, 60, RetrievalOptions(ranking=ranking), index=index)
            times.append(time.process_time() - started)
            pages = list(dict.fromkeys(chunk.path for chunk in found.chunks if chunk.source_type != "xquad"))
            ranks.append(next((n for n, page in enumerate(pages[:20], 1) if page in case.gold), None))
        print(
            f"| {ranking} | {share(ranks, 1):.3f} | {share(ranks, 5):.3f} "
            f"| {reciprocal(ranks):.3f} | {sorted(times)[len(times) // 2] * 1000:.1f} |"
        )


def evaluating(library: Library, questions: list[dict[str, Any]], scratch: Path) -> None:
    log_file = scratch / "xquad.jsonl"
    log_file.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    import_log(log_file, library.settings.query_log)
    settings = ab_settings(library.settings, source_type="xquad")
    with cpu() as spent:
        evaluation = evaluate_now(library, settings, last=len(questions))
    print(
        f"\n## A/B run on XQuAD's {len(questions)} Spanish questions, loaded as a query log ({spent():.1f} CPU s)\n"
    )
    print("```json\n" + json.dumps(evaluation.run.summary, indent=2) + "\n```")
    print(f"\nverdict: {evaluation.gate.verdict}\n")
    retention(library, questions)


def retention(library: Library, questions: list[dict[str, Any]]) -> None:
    """How many questions find their paragraph, and what the gate's note says: how many of those keep their
    answer whole when chunks are trimmed."""
    index = library.index.snapshot()
    filters = Filters(source_type="xquad")
    asked = [library.question(question["question"], index) for question in questions]

    def retrieved(options: RetrievalOptions) -> Iterator[tuple[dict[str, Any], Retrieval]]:
        for gold, question in zip(questions, asked, strict=True):
            yield gold, retrieve(question, 5, options, filters, index=index)

    print("| ranking, among XQuAD's paragraphs | recall@5 | MRR@5 |\n|---|---|---|")
    for ranking in ("vector", "hybrid"):
        ranks = [
            next((n for n, chunk in enumerate(result.chunks, 1) if chunk.path == gold["path"]), None)
            for gold, result in retrieved(RetrievalOptions(ranking=ranking))
        ]
        print(f"| {ranking} | {share(ranks, 5):.3f} | {reciprocal(ranks):.3f} |")

    print("\n| trimming (threshold 0.38) | tokens saved | answers kept, of those found |\n|---|---|---|")
    for window in (0, 1):
        found = kept = tokens = before = 0
        for gold, result in retrieved(RetrievalOptions(ranking="hybrid", trim=True, trim_window=window)):
            tokens += result.tokens_in_context
            before += result.tokens_before
            chunks = [chunk for chunk in result.chunks if chunk.path == gold["path"]]
            found += bool(chunks)
            kept += any(gold["answer"] in chunk.text for chunk in chunks)
        print(f"| window {window} | {1 - tokens / before:.1%} | {kept / found:.1%} ({kept} of {found}) |")


if __name__ == "__main__":
    main()
