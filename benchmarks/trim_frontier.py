"""What trimming saves, and which answers it loses: each mode over all its settings, on questions with known answers.

    python benchmarks/trim_frontier.py --data DIR [--plot FILE] [--llama-index] [--docs]      (or BIB_DATA=DIR)

DIR holds `xquad/`, and for --docs also what corpora.py says. Six corpora are indexed: XQuAD's paragraphs in Spanish,
in English, and in Spanish for English questions; and each with chunks of two to three paragraphs. The top 5 of a
hybrid search are trimmed. Of the questions whose gold chunk was found, an answer is kept when its very span still
stands, whole, in what is left of that chunk. Prints Markdown tables, and draws the frontiers.

--llama-index also runs LlamaIndex's SentenceEmbeddingOptimizer, with the same vectors; it wants an environment of
its own (benchmarks/requirements-llama.txt). --docs also asks the questions of `cases/questions.jsonl` on the
documentation of Astro and FastAPI.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

# Before the project: it says where that is, and keeps all to one thread.
from corpora import SOURCES, answerable, log, reciprocal, share
from frontier import TARGETS, HeldOut, Outcomes, Sentences, outcomes
from numpy.typing import NDArray

from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.retrieval.calibration import calibrate, in_context
from bib_orchestration.biblioteca.retrieval.chunk import Question, Retrieval, RetrievalOptions, RetrievedChunk
from bib_orchestration.biblioteca.retrieval.margin import Weights, margin_scores
from bib_orchestration.biblioteca.retrieval.retrieve import retrieve
from bib_orchestration.biblioteca.retrieval.trim import trim_chunks, trim_retrieval
from bib_orchestration.biblioteca.settings import load_settings

TOP_K = 5
DEEP = 10
THRESHOLDS = np.arange(-0.2, 0.7, 0.01).round(2)
MARGINS = np.r_[np.arange(0, 10, 0.1), np.arange(10, 25, 0.5)].round(2)
# The first formula: half the weight for the chunk's words, a quarter for neighbours.
FIRST_WEIGHTS = Weights(chunk_words=0.5, neighbour=0.25)
CORPORA = {
    "Spanish": ("es", "es"),
    "English": ("en", "en"),
    "English questions, Spanish text": ("en", "es"),
}
SIZES = {"paragraphs": False, "2–3 paragraphs a chunk": True}
HYBRID = RetrievalOptions(ranking="hybrid")


@dataclass(frozen=True)
class Asked:
    """A question of XQuAD. gold: the path of its page. span: of its answer, in the page's text. article: a number."""

    text: str
    gold: str
    span: tuple[int, int]
    article: int


def main() -> None:
    parsed = arguments()
    outcome: dict[str, dict[str, Outcomes]] = {}
    for size, long in SIZES.items():
        for corpus, (questions, texts) in CORPORA.items():
            title = f"{corpus}, {size}"
            log(title)
            with tempfile.TemporaryDirectory(prefix="bib-trim-") as scratch:
                setting = build(parsed.data, Path(scratch), questions, texts, long=long)
                # On long chunks it would take ten minutes more to say the same.
                outcome[title] = report(title, setting, llama_index=parsed.llama_index and not long)
    draw(outcome, parsed.plot)
    if parsed.docs:
        documentation(parsed.data)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("BIB_DATA"), required="BIB_DATA" not in os.environ
    )
    parser.add_argument("--plot", type=Path, default=Path("trim_frontier.png"), help="where the PNG goes")
    parser.add_argument("--llama-index", action="store_true", help="beside LlamaIndex's optimiser")
    parser.add_argument("--docs", action="store_true", help="also on real documentation")
    parsed = parser.parse_args()
    parsed.data = Path(parsed.data).absolute()
    return parsed


# --- what is asked, and what is found


def build(data: Path, scratch: Path, questions: str, texts: str, *, long: bool) -> Setting:
    """Index XQuAD's `texts`, and ask its questions in the language `questions`."""
    asked = list(write_pages(data, scratch, questions, texts, long=long))
    (scratch / "bib.toml").write_text(
        # A page is a chunk.
        f'[chunks]\nmax_tokens = 8000\n[[sources]]\nname = "xquad"\npath = "pages"\nlanguage = "{texts}"\n',
        encoding="utf-8",
    )
    library = Library(load_settings(scratch / "bib.toml", environ={"BIB_HOME": str(scratch / "home")}))
    report = index_all(library)
    assert not report.errors, report.errors
    index = library.index.snapshot()
    vectors = [library.question(each.text, index) for each in asked]
    found = [retrieve(question, DEEP, HYBRID, index=index).chunks for question in vectors]
    return Setting(library, asked, vectors, found)


def write_pages(data: Path, scratch: Path, questions: str, texts: str, *, long: bool) -> Iterator[Asked]:
    read = {
        language: json.loads((data / "xquad" / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
        for language in {questions, texts}
    }
    wording = {
        asked["id"]: asked["question"]
        for article in read[questions]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    }
    for number, article in enumerate(read[texts]):
        paragraphs = article["paragraphs"]
        for first, end in groups(len(paragraphs)) if long else zip(*two_ranges(len(paragraphs)), strict=True):
            path, text = f"{number}/{first}.md", ""
            for paragraph in paragraphs[first:end]:
                text += ("\n\n" if text else "") + paragraph["context"]
                offset = len(text) - len(paragraph["context"])
                for asked in paragraph["qas"]:
                    (answer,) = asked["answers"]
                    start = offset + answer["answer_start"]
                    end_of_answer = start + len(answer["text"])
                    yield Asked(wording[asked["id"]], path, (start, end_of_answer), number)
            file = scratch / "pages" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def two_ranges(count: int) -> tuple[range, range]:
    return range(count), range(1, count + 1)


def groups(count: int) -> Iterator[tuple[int, int]]:
    """Runs of three paragraphs and of two, so that none is left alone.

    >>> list(groups(7))
    [(0, 3), (3, 5), (5, 7)]
    """
    first = 0
    while first < count:
        left = count - first
        end = first + (left if left <= 3 else 3 if left % 2 else 2)
        yield first, end
        first = end


@dataclass(frozen=True)
class Setting:
    """A corpus with its questions, and the best chunks for each."""

    library: Library
    asked: list[Asked]
    questions: list[Question]
    found: list[tuple[RetrievedChunk, ...]]

    @cached_property
    def ranks(self) -> list[int | None]:
        """Of each question's gold chunk."""
        return [
            next((rank for rank, chunk in enumerate(chunks, 1) if chunk.path == asked.gold), None)
            for asked, chunks in zip(self.asked, self.found, strict=True)
        ]

    @cached_property
    def scored(self) -> list[int]:
        """The questions that count: those whose gold chunk is among the first."""
        return [number for number, rank in enumerate(self.ranks) if rank is not None and rank <= TOP_K]

    def chunks(self, number: int) -> tuple[RetrievedChunk, ...]:
        return self.found[number][:TOP_K]

    @cached_property
    def article(self) -> NDArray[np.int64]:
        return np.array([self.asked[number].article for number in self.scored])

    @cached_property
    def before(self) -> NDArray[np.float64]:
        return np.array([float(sum(c.tokens for c in self.chunks(number))) for number in self.scored])

    @cached_property
    def sentences(self) -> Sentences:
        rows = []
        chunk_number = 0
        for place, number in enumerate(self.scored):
            asked = self.asked[number]
            for chunk in self.chunks(number):
                for start, end in chunk.spans:
                    answers = chunk.path == asked.gold and start < asked.span[1] and asked.span[0] < end
                    lines = (chunk.text.count("\n", 0, start), chunk.text.count("\n", 0, end))
                    outside = len(chunk.text) - chunk.spans[-1][1] + chunk.spans[0][0]
                    rows.append((place, chunk_number, start, end, *lines, outside, answers))
                chunk_number += 1
        columns = zip(*rows, strict=True)
        return Sentences(*(np.array(column) for column in columns))

    def cosines(self, *, with_neighbours: bool) -> NDArray[np.float64]:
        made = []
        for number in self.scored:
            for chunk in self.chunks(number):
                assert chunk.sentence_vectors is not None
                vectors = in_context(chunk.sentence_vectors) if with_neighbours else chunk.sentence_vectors
                made.append(vectors @ self.questions[number].vector)
        return np.concatenate(made)

    def margin_scores(self, weights: Weights) -> NDArray[np.float64]:
        made = []
        for number in self.scored:
            chunks = self.chunks(number)
            cosines = np.concatenate(
                [each.sentence_vectors @ self.questions[number].vector for each in chunks]
            )
            made.append(
                margin_scores(
                    self.questions[number], chunks, cosines, np.ones(len(cosines), np.bool_), weights
                ).round(6)
            )
        return np.concatenate(made)


# --- ways of trimming


def by_threshold(
    setting: Setting, scores: NDArray[np.float64], thresholds: Sequence[float], window: int
) -> Outcomes:
    sentences = setting.sentences
    best = sentences.best_of_chunk(scores)
    choices = [
        sentences.neighbours((scores >= np.float32(threshold)) | best, window) for threshold in thresholds
    ]
    return outcomes(sentences, choices, setting.before, setting.article)


def by_margin(setting: Setting, weights: Weights, min_sentences: int) -> Outcomes:
    sentences, scores = setting.sentences, setting.margin_scores(weights)
    limit = sentences.best_of_question(scores)
    least = sentences.best_of_chunk(scores) if min_sentences else np.zeros(len(scores), np.bool_)
    # As `kept_sentences` compares.
    exact = scores.astype(np.float32)
    choices = [(exact >= (limit - margin).astype(np.float32)) | least for margin in MARGINS]
    return outcomes(sentences, choices, setting.before, setting.article)


def by_fewer_chunks(setting: Setting) -> Outcomes:
    """The first k chunks, whole; and those whose score is near the first's."""
    sentences = setting.sentences
    rank = np.concatenate(
        [
            np.repeat(np.arange(TOP_K), [len(c.spans) for c in setting.chunks(number)])
            for number in setting.scored
        ]
    )
    behind = np.concatenate(
        [
            np.repeat(
                [chunks[0].score - chunk.score for chunk in chunks], [len(chunk.spans) for chunk in chunks]
            )
            for chunks in map(setting.chunks, setting.scored)
        ]
    )
    choices = [rank < count for count in range(1, TOP_K + 1)]
    choices += [behind <= limit for limit in np.arange(0, 2.01, 0.02)]
    return outcomes(sentences, choices, setting.before, setting.article)


def oracle(setting: Setting) -> Outcomes:
    """The sentences that hold the answer, and nothing else."""
    return outcomes(setting.sentences, [setting.sentences.answers], setting.before, setting.article)


def auto(setting: Setting, window: int) -> tuple[Outcomes, list[float]]:
    """Mode cosine-auto, calibrated to the questions of half of the articles and scored on the others, both ways."""
    scores = setting.cosines(with_neighbours=True)
    index = setting.library.index.snapshot()
    contents = [stored.sentence_vectors for stored in index.texts(range(len(index)))]
    odd = setting.article % 2 == 1
    made, thresholds = [], []
    for half in (odd, ~odd):
        logged = [
            setting.questions[number].vector
            for number, used in zip(setting.scored, half, strict=True)
            if used
        ]
        calibration = calibrate(np.array(logged), contents, of=len(contents))
        assert calibration is not None
        thresholds.append(calibration.threshold)
        made.append(by_threshold(setting, scores, [calibration.threshold], window))
    tokens = np.where(odd, made[1].tokens, made[0].tokens)
    kept = np.where(odd, made[1].kept, made[0].kept)
    return Outcomes(tokens, kept, setting.before, setting.article), thresholds


# --- the tables


def report(title: str, setting: Setting, *, llama_index: bool) -> dict[str, Outcomes]:
    verify(setting)
    ranks = setting.ranks
    print(
        f"\n### {title}\n\n{len(setting.library.index.snapshot())} chunks of "
        f"{setting.before.mean() / TOP_K:.0f} tokens, {len(setting.asked)} questions; "
        f"recall@5 {share(ranks, 5):.3f}, MRR@10 {reciprocal(ranks):.3f}; {len(setting.scored)} questions count.\n"
    )
    alone = setting.cosines(with_neighbours=False)
    ways = {
        "margin, min_sentences 0": by_margin(setting, Weights(), 0),
        "margin, min_sentences 1": by_margin(setting, Weights(), 1),
        "the first formula of margin, 0": by_margin(setting, FIRST_WEIGHTS, 0),
        "the first formula of margin, 1": by_margin(setting, FIRST_WEIGHTS, 1),
        "cosine, window 0": by_threshold(setting, alone, THRESHOLDS, 0),
        "cosine, window 1": by_threshold(setting, alone, THRESHOLDS, 1),
        "sentences seen with neighbours, window 0": by_threshold(
            setting, setting.cosines(with_neighbours=True), THRESHOLDS, 0
        ),
        "fewer whole chunks": by_fewer_chunks(setting),
    }
    if llama_index:
        from llama_index_trim import by_llama_index

        ways["LlamaIndex's optimiser"] = by_llama_index(setting)
    print(
        f"| way of trimming | {' | '.join(f'{target:.0%} kept' for target in TARGETS)} |\n|---|---|---|---|"
    )
    for name, each in ways.items():
        print(f"| {name} | {' | '.join(cell(each.held_out(target)) for target in TARGETS)} |")
    best = oracle(setting).at(0)
    print(f"| oracle | {best.reduction:.1%} at {best.retention:.0%} | | |")
    print("\n| as it is set | threshold or margin | tokens saved | answers kept |\n|---|---|---|---|")
    fixed: list[tuple[str, str, HeldOut]] = []
    for window in (0, 1):
        of_auto, thresholds = auto(setting, window)
        fixed.append(
            (f"cosine-auto, window {window}", ", ".join(f"{each:.3f}" for each in thresholds), of_auto.at(0))
        )
    for window in (0, 1):
        place = int(np.argmin(np.abs(THRESHOLDS - 0.38)))
        fixed.append((f"cosine, window {window}", "0.38", ways[f"cosine, window {window}"].at(place)))
    for least in (0, 1):
        place = int(np.argmin(np.abs(MARGINS - HYBRID.trim_margin)))
        fixed.append(
            (
                f"margin, min_sentences {least}",
                f"{MARGINS[place]:g}",
                ways[f"margin, min_sentences {least}"].at(place),
            )
        )
    for name, value, at in fixed:
        print(
            f"| {name} | {value} | {at.reduction:.1%} [{at.reduction_interval[0]:.1%}, "
            f"{at.reduction_interval[1]:.1%}] | {at.retention:.1%} [{at.retention_interval[0]:.1%}, "
            f"{at.retention_interval[1]:.1%}] |"
        )
    cost(setting)
    return ways


def cell(found: HeldOut | None) -> str:
    if found is None:
        return "–"
    low, high = found.reduction_interval
    return f"{found.reduction:.1%} [{low:.1%}, {high:.1%}] ({found.retention:.2%})"


def verify(setting: Setting) -> None:
    """What is swept here is what the library does: the same tokens and answers, question by question."""
    cosines = setting.cosines(with_neighbours=False)
    checks = [
        (RetrievalOptions(trim=True, trim_window=1), by_threshold(setting, cosines, [0.38], 1)),
        (
            RetrievalOptions(trim=True, trim_mode="margin", trim_min_sentences=0),
            by_margin(setting, Weights(), 0),
        ),
        (RetrievalOptions(trim=True, trim_mode="margin"), by_margin(setting, Weights(), 1)),
    ]
    for options, made in checks:
        row = 0 if options.trim_mode == "cosine" else int(np.argmin(np.abs(MARGINS - options.trim_margin)))
        for place, number in enumerate(setting.scored):
            chunks = trim_chunks(setting.questions[number], setting.chunks(number), options)
            start, end = setting.asked[number].span
            stands = any(
                chunk.path == setting.asked[number].gold
                and any(first <= start and end <= last for first, last in chunk.kept)
                for chunk in chunks
            )
            tokens = sum(chunk.tokens for chunk in chunks)
            assert (tokens, stands) == (made.tokens[row, place], made.kept[row, place]), (options, number)


def cost(setting: Setting) -> None:
    """CPU milliseconds of trimming 5 chunks, beyond the search that found them."""
    print("\n| CPU of trimming 5 chunks | p50, ms | p95, ms |\n|---|---|---|")
    found = {number: Retrieval(setting.chunks(number)) for number in setting.scored}
    for mode in ("cosine", "cosine-auto", "margin"):
        options = RetrievalOptions(trim=True, trim_mode=mode)
        times = []
        for number, retrieval in found.items():
            started = time.process_time()
            trim_retrieval(setting.questions[number], retrieval, options)
            times.append((time.process_time() - started) * 1000)
        print(f"| {mode} | {np.median(times):.2f} | {np.percentile(times, 95):.2f} |")


def draw(outcome: dict[str, dict[str, Outcomes]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(15, 9), sharex=True, sharey=True)
    for panel, (title, ways) in zip(panels.flat, outcome.items(), strict=True):
        for name, each in ways.items():
            order = np.lexsort((-each.reduction, each.retention))
            # Of all settings that keep so much, the one that saves most.
            best = np.maximum.accumulate(each.reduction[order][::-1])[::-1]
            panel.plot(100 * each.retention[order], 100 * best, label=name, linewidth=1.5)
        panel.set_title(title, fontsize=10)
        panel.set_xlim(90, 100)
        panel.set_ylim(0, 100)
        panel.grid(alpha=0.3)
    for panel in panels[-1]:
        panel.set_xlabel("answers kept, % (all questions, not held out)")
    for panel in panels[:, 0]:
        panel.set_ylabel("tokens saved, %")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(file, dpi=110)
    log(f"drawn: {file}")


# --- real documentation


def documentation(data: Path) -> None:
    """The modes as they are set, on the questions of `cases/questions.jsonl`: whether the quote that holds the answer
    still stands. The questions themselves are the log that calibrates."""
    lines = (data.parent / "cases" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    quotes = {each["id"]: plain(each["gold_quote"]) for each in map(json.loads, lines) if each["gold_paths"]}
    with tempfile.TemporaryDirectory(prefix="bib-trim-docs-") as scratch:
        folder = Path(scratch)
        (folder / "bib.toml").write_text(
            "".join(
                f'[[sources]]\nname = "{name}"\n{text.format(data=data)}' for name, text in SOURCES.items()
            ),
            encoding="utf-8",
        )
        library = Library(load_settings(folder / "bib.toml", environ={"BIB_HOME": str(folder / "home")}))
        write_log(library, [case.question for case in answerable(data)])
        index_all(library)
        index = library.index.snapshot()
        cases = []
        for case in answerable(data):
            question = library.question(case.question, index)
            found = retrieve(question, TOP_K, HYBRID, index=index)
            holders = {c.content_id for c in found.chunks if quotes[case.case_id] in plain(c.text)}
            cases.append((question, found, quotes[case.case_id], holders))
    counted = sum(bool(holders) for *_, holders in cases)
    calibration = index.calibration
    assert calibration is not None
    print(
        f"\n### Documentation of Astro and FastAPI\n\n{len(index)} chunks, {len(cases)} questions as people type them; "
        f"the quote that answers is in the top {TOP_K} of {counted}. Calibrated threshold {calibration.threshold:.3f} "
        f"({calibration.alone:.3f} of sentences alone).\n\n"
        "| mode | tokens saved | quotes kept |\n|---|---|---|"
    )
    for count in range(1, TOP_K):
        tokens = sum(sum(chunk.tokens for chunk in found.chunks[:count]) for _, found, *_ in cases)
        before = sum(found.tokens_before for _, found, *_ in cases)
        kept = sum(
            any(c.content_id in holders for c in found.chunks[:count]) for _, found, _, holders in cases
        )
        print(f"| the first {count}, whole | {1 - tokens / before:.1%} | {kept} of {counted} |")
    for name, options in {
        "cosine, 0.38, window 0": replace(HYBRID),
        "cosine, 0.38, window 1": replace(HYBRID, trim_window=1),
        "cosine-auto, window 0": replace(HYBRID, trim_mode="cosine-auto"),
        "cosine-auto, window 1": replace(HYBRID, trim_mode="cosine-auto", trim_window=1),
        **{
            f"margin {margin:g}, min_sentences {least}": replace(
                HYBRID, trim_mode="margin", trim_margin=margin, trim_min_sentences=least
            )
            for least in (0, 1)
            for margin in (4.0, 5.0, 6.0, 7.0)
        },
    }.items():
        tokens = before = kept = 0
        for question, found, quote, holders in cases:
            trimmed = trim_retrieval(question, found, options)
            tokens += trimmed.tokens_in_context
            before += found.tokens_before
            kept += any(quote in plain(c.text) for c in trimmed.chunks if c.content_id in holders)
        print(f"| {name} | {1 - tokens / before:.1%} | {kept} of {counted} |")


def write_log(library: Library, questions: Sequence[str]) -> None:
    rows = [
        {"query_id": str(number), "ts": "2026-10-01T10:00:00Z", "question": question}
        for number, question in enumerate(questions)
    ]
    file = library.settings.home.parent / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    from bib_orchestration.biblioteca.warehouse.query_import import import_log

    import_log(file, library.settings.query_log)


def plain(text: str) -> str:
    """Without marks of Markdown and runs of white space, which a quote leaves out."""
    import re

    return re.sub(r"[\s*_`>#-]+", " ", text).strip()


if __name__ == "__main__":
    main()
