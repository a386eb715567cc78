"""What goes into a retrieval and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bib_orchestration.biblioteca.corpus.sizes import count_tokens
from bib_orchestration.biblioteca.settings import RetrievalSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TOP_K = 20


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and its vector (float32, shape (dimension,), of length 1).

    fingerprint: of the model that made the vector, where it is known; an index of another is then refused.
    """

    text: str
    vector: NDArray[np.float32]
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """What a chunk's occurrence must be to count; None: anything. One occurrence must meet them all."""

    source_type: str | None = None
    app: str | None = None
    slug_prefix: str | None = None

    @property
    def any_set(self) -> bool:
        return any(value is not None for value in (self.source_type, self.app, self.slug_prefix))


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """How to rank and whether to trim.

    ranking: "vector", by cosine; or "hybrid", by the sum of cosine and BM25, each scaled to 0..1.
    trim: whether to keep only the sentences that matter.
    trim_threshold: cosine from which a sentence stays.
    trim_min_sentences: how many stay of each chunk at the least.
    trim_window: how many neighbours stay on either side of a sentence that does.
    """

    ranking: Literal["vector", "hybrid"] = "vector"
    trim: bool = False
    trim_threshold: float = 0.38
    trim_min_sentences: int = 1
    trim_window: int = 0

    @classmethod
    def of(cls, settings: RetrievalSettings) -> RetrievalOptions:
        """The options that bib.toml and the environment set."""
        return cls(
            ranking=settings.ranking,
            trim=settings.trim,
            trim_threshold=settings.trim_threshold,
            trim_min_sentences=settings.trim_min_sentences,
            trim_window=settings.trim_window,
        )


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk that was found.

    content_id: its identity.
    text: its content, trimmed when `trimmed` says so.
    score: what it was ranked by.
    cosine: with the question's vector.
    source, path, source_type, app, slug: of the occurrence that is shown.
    title, heading_path: where it stands in its document.
    tokens_before: of its whole content.
    spans: where the sentences of its whole content lie.
    kept: the spans of its whole content that are in `text`.
    sentence_vectors: shape (sentences, dimension); None when they are not stored.
    """

    content_id: str
    text: str
    score: float
    cosine: float
    source: str = ""
    path: str = ""
    source_type: str = ""
    app: str = ""
    slug: str = ""
    title: str = ""
    heading_path: str = ""
    tokens_before: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    trimmed: bool = False
    sentence_vectors: NDArray[np.float32] | None = field(default=None, repr=False, compare=False)

    @property
    def has_sentences(self) -> bool:
        return self.sentence_vectors is not None

    @property
    def tokens(self) -> int:
        """Of `text`."""
        return count_tokens(self.text)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The chunks for a question, best first."""

    chunks: tuple[RetrievedChunk, ...]

    @property
    def tokens_in_context(self) -> int:
        """Of the chunks as they are shown."""
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def tokens_before(self) -> int:
        """Of the same chunks whole."""
        return sum(chunk.tokens_before for chunk in self.chunks)

    @property
    def top_score(self) -> float | None:
        """The best cosine among the chunks, however they were ranked; None without chunks."""
        return max((chunk.cosine for chunk in self.chunks), default=None)
