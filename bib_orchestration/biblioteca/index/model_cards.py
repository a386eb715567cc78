"""Model cards: how a model is known without loading it, and the fingerprint that names its vectors.

Everything here is read from small files: asking which index belongs to a model costs milliseconds, and no
torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Raise when the layout of the embedded text changes, or the way over-long texts are split: vectors made
# before and after must not be compared.
EMBEDDED_TEXT_VERSION = "1"
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
_MIB = 1 << 20
# Up to this size a file is hashed whole (bge-m3's tokenizer has 17 MB); above, this many blocks of it are.
_HASHED_WHOLE = 32 * _MIB
_HASHED_BLOCKS = 32


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
    return least_limit(stated, _positions(folder))


def least_limit(*limits: float | None) -> int | None:
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
