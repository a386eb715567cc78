"""The plain script that a good engineer would write first: split, embed what is new by its hash, one matrix product."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import contender
import numpy as np
from semantic_text_splitter import MarkdownSplitter


def index(source: Path, state: Path, encoder: contender.Encoder) -> None:
    splitter = MarkdownSplitter(contender.CHUNK_CHARS)
    rows = [
        (contender.digest(text), path, text)
        for path, page in contender.read_pages(source).items()
        for text in splitter.chunks(page)
    ]
    had, vectors = _load(state)
    wanted = {key: text for key, _, text in rows}
    new = {key: text for key, text in wanted.items() if key not in had}
    kept = [place for key, place in had.items() if key in wanted]
    if new or len(kept) < len(had):
        keys = [key for key in had if key in wanted] + list(new)
        made = [encoder.encode(list(new.values()))] if new else []
        np.save(state / "vectors.npy", np.concatenate([vectors[kept], *made]))
        (state / "keys.json").write_text(json.dumps(keys))
    (state / "rows.json").write_text(json.dumps(rows))


def _load(state: Path) -> tuple[dict[str, int], Any]:
    if not (state / "keys.json").exists():
        return {}, np.empty((0, contender.DIMENSION), np.float32)
    keys = json.loads((state / "keys.json").read_text())
    return {key: place for place, key in enumerate(keys)}, np.load(state / "vectors.npy")


def stored(state: Path) -> contender.Stored:
    return [(path, text) for _, path, text in json.loads((state / "rows.json").read_text())]


def searcher(state: Path, encoder: contender.Encoder) -> Any:
    had, vectors = _load(state)
    keys = list(had)
    texts = {key: text for key, _, text in json.loads((state / "rows.json").read_text())}

    def search(question: str) -> list[tuple[str, float]]:
        scores = vectors @ encoder.encode([question])[0]
        best = np.argpartition(-scores, contender.TOP_K)[: contender.TOP_K]
        return [(texts[keys[place]], float(scores[place])) for place in best[np.argsort(-scores[best])]]

    return search


if __name__ == "__main__":
    contender.run(index, stored, searcher, {"numpy": version("numpy")})
