"""A process that indexes, for tests that kill it or wait for it: `python indexing_child.py CONFIG HOME WHERE FOLDER`.

WHERE says what happens to it: "embedding" (in the third batch it signals by the file FOLDER/reached and sleeps
until FOLDER/go appears), or "before go_live", where it ends as a kill would end it. The texts that it embeds are
written to FOLDER/texts as they are given, one JSON string a line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index import sync
from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import load_settings

KILLED = 137


def main(config: str, home: str, where: str, folder: str) -> None:
    library = Library(load_settings(Path(config), environ={"BIB_HOME": home}))
    embedder = CountingEmbedder()
    library.embedder = embedder
    sync.BATCH = 1
    reached, go = Path(folder, "reached"), Path(folder, "go")
    calls = 0

    def record(texts: Sequence[str]) -> None:
        nonlocal calls
        calls += 1
        # A batch is two calls: contents, then sentences.
        if where == "embedding" and calls == 5:
            reached.write_text(str(os.getpid()), encoding="utf-8")
            while not go.exists():
                time.sleep(0.02)
        with Path(folder, "texts").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(text) + "\n" for text in texts)

    embedder.fail = record
    if where == "before go_live":
        IndexStore.go_live = end  # type: ignore[method-assign]
    index_all(library)


def end(*_: Any) -> None:
    os._exit(KILLED)


if __name__ == "__main__":
    main(*sys.argv[1:])
