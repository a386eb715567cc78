"""How well and how fast texts are split into sentences.

    python benchmarks/sentences.py --data DIR      (or BIB_DATA=DIR)

DIR: see corpora.py, with `sentences/` beside the documentation: text files of one gold sentence a line. Five gold
sentences are joined by a space, split, and the boundaries between them looked for. Prints Markdown tables. Times
are CPU on one thread: the best and the median of several runs, since others use the machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median

# Before the project: it says where that is, and keeps all to one thread.
from corpora import cpu, data_folder

from bib_orchestration.biblioteca.retrieval.sentences import SPLITTER_VERSION, split_sentences, split_spans

JOINED = 5
RUNS = 9
HOSTILE_RUNS = 3
MEGABYTE = 1_000_000

# The contract's rule, in the words of the contract and not by the splitter's code.
ENDS_IN_STOP = re.compile(r"[.!?]\Z")
BEGINS_SENTENCE = re.compile(r"[*_~]*(?:[^\W\d_a-zß-öø-ÿ]|[¿¡«“‘‹„\"'(\[`])")

# Why an allowed boundary is not cut all the same.
ABBREVIATION = "after what may be an abbreviation"
HESITATION = '"I" or a conjunction after dots'
ENCLOSED = "in quotes, brackets or a list item"
WHY_NOT = (ABBREVIATION, HESITATION, ENCLOSED)
AFTER_DOTS = re.compile(r"(?:I|And|But|Or|Y|O|Ni|Pero|Sino)\b")

HOSTILE = {
    "dots": ".",
    "`` `. A ``": "`. A",
    "`[a. B`": "[a. B",
    "open fences": "```\n",
    "fences that nothing closes, in tags": "<b>\n```x\n\n",
    "nested quotes": "> ",
    "lines of nested quotes": "> " * 500 + "a. B\n",
    "nested lists": "- ",
    "open tags": "<a ",
    "quotation marks": '. "B',
    "white space": ". \n",
    "rows": "| a |\n",
}


def main() -> None:
    data = data_folder(__doc__)
    print(f"Splitter version {SPLITTER_VERSION}.\n")
    sets = {path.stem: gold(path) for path in sorted((data / "sentences").glob("*.txt"))}
    print(
        "| set | boundaries | cut | right | precision | recall | the rule allows | short of it "
        + "".join(f"| {why} " for why in WHY_NOT)
        + "|\n"
        + "|---" * (8 + len(WHY_NOT))
        + "|"
    )
    for name, sentences in sets.items():
        print(f"| {name} | {quality(sentences)} |")

    texts = {f"prose: {name}": ["\n\n".join(groups(sentences))] for name, sentences in sets.items()}
    for name, folder in {
        "Astro, es (.mdx)": "wiki-astro-es",
        "FastAPI, es": "docs-fastapi/docs/es",
        "FastAPI, en": "docs-fastapi/docs/en",
    }.items():
        paths = sorted(path for path in (data / folder).rglob("*") if path.suffix in (".md", ".mdx"))
        texts[f"documentation: {name}"] = [path.read_text(encoding="utf-8") for path in paths]
    print("\n| text | MB | units | MB/s, best | MB/s, median |\n" + "|---" * 5 + "|")
    for name, each in texts.items():
        print(f"| {name} | {speed(each)} |")

    print("\n| hostile text | 1 MB, s | 2 MB, s | ratio |\n" + "|---" * 4 + "|")
    for name, piece in HOSTILE.items():
        once, twice = (
            min(seconds(partial(split_spans, repeated(piece, size)), HOSTILE_RUNS))
            for size in (MEGABYTE, 2 * MEGABYTE)
        )
        print(f"| {name} | {once:.2f} | {twice:.2f} | {twice / once:.1f} |")


def gold(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def groups(sentences: list[str]) -> Iterator[str]:
    return (" ".join(sentences[at : at + JOINED]) for at in range(0, len(sentences), JOINED))


@dataclass(frozen=True, slots=True)
class Boundary:
    """Between two gold sentences of a group. at: where the second one starts in the group's text."""

    at: int
    before: str
    after: str

    def allowed(self) -> bool:
        """Whether the contract's rule could ever cut here: a stop, white space, a capital or an opening mark."""
        return bool(ENDS_IN_STOP.search(self.before) and BEGINS_SENTENCE.match(self.after))

    def why_not(self) -> str:
        """Which settled exception keeps an allowed boundary from being cut, by what its last word alone does."""
        if len(split_sentences(f"Va {self.before.split()[-1]} Otra")) == 1:
            return ABBREVIATION
        return HESITATION if self.before.endswith("..") and AFTER_DOTS.match(self.after) else ENCLOSED


def boundaries(sentences: list[str]) -> Iterator[Boundary]:
    starts = accumulate(len(sentence) + 1 for sentence in sentences)
    for at, before, after in zip(starts, sentences, sentences[1:], strict=False):
        yield Boundary(at, before, after)


def quality(sentences: list[str]) -> str:
    found: Counter[str] = Counter()
    for at in range(0, len(sentences), JOINED):
        group = sentences[at : at + JOINED]
        cuts = {start for start, _ in split_spans(" ".join(group))[1:]}
        found["cut"] += len(cuts)
        for boundary in boundaries(group):
            found["gold"] += 1
            found["allowed"] += boundary.allowed()
            found["right"] += boundary.at in cuts
            if boundary.allowed() and boundary.at not in cuts:
                found[boundary.why_not()] += 1
    recall, most = (found[kind] / found["gold"] for kind in ("right", "allowed"))
    return (
        f"{found['gold']} | {found['cut']} | {found['right']} | {found['right'] / found['cut']:.4f} | {recall:.4f} "
        f"| {most:.4f} | {100 * (most - recall):.1f} points | "
        + " | ".join(str(found[why]) for why in WHY_NOT)
    )


def speed(texts: list[str]) -> str:
    megabytes = sum(len(text.encode()) for text in texts) / MEGABYTE
    units = sum(len(split_spans(text)) for text in texts)
    spent = seconds(lambda: [split_spans(text) for text in texts], RUNS)
    return f"{megabytes:.2f} | {units} | {megabytes / min(spent):.1f} | {megabytes / median(spent):.1f}"


def seconds(work: Callable[[], object], runs: int) -> list[float]:
    """CPU seconds of each of `runs` runs."""
    spent = []
    for _ in range(runs):
        with cpu() as taken:
            work()
        spent.append(taken())
    return spent


def repeated(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


if __name__ == "__main__":
    main()
