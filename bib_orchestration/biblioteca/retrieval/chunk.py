"""What goes into a retrieval and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from bib_orchestration.biblioteca.corpus.sizes import count_tokens
from bib_orchestration.biblioteca.settings import RetrievalSettings, TrimMode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bib_orchestration.biblioteca.retrieval.calibration import Calibration
    from bib_orchestration.biblioteca.retrieval.lexical import Bm25

MAX_TOP_K = 20
# Keeps 99 % of the answers on XQuAD, whatever the language and the length of chunks: benchmarks/README.md.
DEFAULT_MARGIN = 6.0


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
    trim_mode: how they are told: "cosine", by `trim_threshold`; "cosine-auto", by the threshold that the index
        was calibrated to; "margin", by words and vectors, against the best of all sentences (see `trim`).
    trim_threshold: cosine from which a sentence stays.
    trim_margin: how far behind the best sentence one may be to stay; of mode "margin" alone.
    trim_min_sentences: how many stay of each chunk at the least; with 0 whole chunks may go.
    trim_window: how many neighbours stay on either side of a sentence that does.
    """

    ranking: Literal["vector", "hybrid"] = "vector"
    trim: bool = False
    trim_mode: TrimMode = "cosine"
    trim_threshold: float = 0.38
    trim_margin: float = DEFAULT_MARGIN
    trim_min_sentences: int = 1
    trim_window: int = 0

    @classmethod
    def of(cls, settings: RetrievalSettings) -> RetrievalOptions:
        """The options that bib.toml and the environment set."""
        return cls(
            ranking=settings.ranking,
            trim=settings.trim,
            trim_mode=settings.trim_mode,
            trim_threshold=settings.trim_threshold,
            trim_min_sentences=settings.trim_min_sentences,
            trim_window=settings.trim_window,
        )


class Origin(Protocol):
    """What trimming needs of the index that chunks come from."""

    @property
    def calibration(self) -> Calibration | None:
        """What its model's cosines mean; None when that is not known yet."""
        ...

    @property
    def lexical(self) -> Bm25:
        """BM25 over its contents."""
        ...

    @property
    def languages(self) -> list[str]:
        """Of its contents."""
        ...


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
    stems: those of title and headings, then of each sentence, joined by spaces; () when they are not stored.
    origin: the index that it comes from; None of a chunk from elsewhere.
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
    stems: tuple[str, ...] = field(default=(), repr=False, compare=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @property
    def has_sentences(self) -> bool:
        return self.sentence_vectors is not None

    @property
    def tokens(self) -> int:
        """Of `text`."""
        return count_tokens(self.text)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The chunks for a question, best first.

    chunks: those that are shown.
    let_go: those that were found, but of which trimming left nothing.
    """

    chunks: tuple[RetrievedChunk, ...]
    let_go: tuple[RetrievedChunk, ...] = ()

    @property
    def tokens_in_context(self) -> int:
        """Of the chunks as they are shown."""
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def tokens_before(self) -> int:
        """Of all that were found, whole."""
        return sum(chunk.tokens_before for chunk in (*self.chunks, *self.let_go))

    @property
    def top_score(self) -> float | None:
        """The best cosine among the chunks, however they were ranked; None without chunks."""
        return max((chunk.cosine for chunk in self.chunks), default=None)
