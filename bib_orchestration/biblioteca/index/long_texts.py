"""Texts beyond a model's limit: split into pieces that fit, embedded, and averaged. Nothing is cut off."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.index.model_cards import EmbeddingError

Vectors = NDArray[np.float32]

# A character gives at most this many tokens: a token holds at least one byte, and no character grows beyond
# 33 bytes under any Unicode normalisation form (U+FDFA does, under NFKC).
MOST_TOKENS_PER_CHARACTER = 33


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
        doubtful = [n for n, text in enumerate(texts) if len(text) * MOST_TOKENS_PER_CHARACTER > self.room]
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


def joined(vectors: Vectors, pieces: list[list[Piece]]) -> Vectors:
    """One unit row a text, from one unit row a piece."""
    if len(vectors) == len(pieces):
        return vectors
    rows = np.empty((len(pieces), vectors.shape[1]), dtype=np.float32)
    first = 0
    for row, of_text in zip(rows, pieces, strict=True):
        own = vectors[first : first + len(of_text)]
        weights = [piece.weight for piece in of_text]
        row[:] = own[0] if len(own) == 1 else unit_rows(np.average(own, axis=0, weights=weights)[None])[0]
        first += len(of_text)
    return rows


def unit_rows(vectors: NDArray[Any]) -> Vectors:
    """Rows of length 1. The model's own, made in half precision, may be off by more than the tolerance."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A zero vector stays one, for `embed_checked` to name.
    unit: Vectors = (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
    return unit
