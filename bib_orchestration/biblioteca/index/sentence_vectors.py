"""Vectors of a content and of its sentences, and the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bib_orchestration.biblioteca.corpus.chunks import embedded_text
from bib_orchestration.biblioteca.index.embedders import Embedder, embed_checked
from bib_orchestration.biblioteca.retrieval.sentences import split_spans

Spans = list[tuple[int, int]]
Sentences = Mapping[str, NDArray[np.float16]]
_NONE: Sentences = {}


@dataclass(frozen=True, slots=True)
class Content:
    """What is embedded of a content. The text is in normal form."""

    content_id: str
    title: str
    heading_path: str
    text: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A content's vectors.

    vector: of the whole embedded text, float32, shape (dimension,).
    spans: where its sentences lie in its text.
    sentence_vectors: float16, shape (sentences, dimension).
    """

    vector: NDArray[np.float32]
    spans: Spans
    sentence_vectors: NDArray[np.float16]


def embed_contents(
    embedder: Embedder, contents: Sequence[Content], known: Sentences = _NONE
) -> tuple[list[Embedded], int]:
    """The vectors of each content, and how many texts were given to the model for them.

    A sentence that stands in several of the contents is given once, and one that is `known` (its vector by its
    text) not at all.
    """
    whole = [embedded_text(content.title, content.heading_path, content.text) for content in contents]
    vectors = embed_checked(embedder, whole)
    of_sentences, texts = embed_sentences(embedder, [content.text for content in contents], known)
    embedded = [
        Embedded(vector, spans, sentences)
        for vector, (spans, sentences) in zip(vectors, of_sentences, strict=True)
    ]
    return embedded, len(whole) + texts


def embed_sentences(
    embedder: Embedder, texts: Sequence[str], known: Sentences = _NONE
) -> tuple[list[tuple[Spans, NDArray[np.float16]]], int]:
    """The spans and vectors of the sentences of each text, and how many texts the model was given: those that
    are not `known`, each once."""
    spans = [split_spans(text) for text in texts]
    places: dict[str, int] = {}
    for text, own in zip(texts, spans, strict=True):
        for start, end in own:
            places.setdefault(text[start:end], len(places))
    new = [sentence for sentence in places if sentence not in known]
    vectors = np.empty((len(places), embedder.card.dimension), np.float16)
    vectors[[places[sentence] for sentence in new]] = embed_checked(embedder, new)
    for sentence, place in places.items():
        if sentence in known:
            vectors[place] = known[sentence]
    of_sentences = [
        (own, vectors[[places[text[start:end]] for start, end in own]])
        for text, own in zip(texts, spans, strict=True)
    ]
    return of_sentences, len(new)


def to_bytes(vectors: NDArray[np.float16]) -> bytes:
    """Sentence vectors as they are stored."""
    return vectors.astype("<f2").tobytes()


def from_bytes(stored: bytes, dimension: int) -> NDArray[np.float32]:
    """Stored sentence vectors, shape (sentences, dimension)."""
    return np.frombuffer(stored, "<f2").reshape(-1, dimension).astype(np.float32)
