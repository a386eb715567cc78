"""Stand-ins for what a test must be able to steer: an embedder that counts, fails and lies on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bib_orchestration.biblioteca.index.embedders import ModelCard, Vectors
from bib_orchestration.biblioteca.retrieval.lexical import words_of

DIMENSION = 64


@dataclass
class CountingEmbedder:
    """A real, small embedder: bags of hashed words, so that texts that share words are near each other.

    texts: all that it was given, in order. `fail` is called with each batch before it is embedded, and may
    raise; `spoil` may change what is given back. Equal texts have equal vectors, whatever stands beside them.
    """

    name: str = "counting"
    revision: str = "1"
    texts: list[str] = field(default_factory=list)
    fail: Callable[[Sequence[str]], None] = lambda texts: None
    spoil: Callable[[Vectors], Vectors] = lambda vectors: vectors

    @property
    def card(self) -> ModelCard:
        return ModelCard(self.name, self.revision, DIMENSION, None)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        self.fail(texts)
        self.texts += texts
        return self.spoil(np.stack([self._vector(text) for text in texts]))

    def embed_question(self, text: str) -> Vectors:
        return self._vector(text)

    def _vector(self, text: str) -> Vectors:
        vector = np.zeros(DIMENSION, np.float32)
        for word in words_of(text) or [text]:
            digest = hashlib.blake2b(
                f"{self.name}:{word}".encode("utf-8", "surrogatepass"), digest_size=8
            ).digest()
            vector[digest[0] % DIMENSION] += 1
            vector[digest[1] % DIMENSION] -= 0.5
        norm = np.linalg.norm(vector)
        if norm == 0:
            vector[0] = norm = 1
        return vector / norm
