"""LlamaIndex's SentenceEmbeddingOptimizer on the same chunks, with the same vectors.

Its own requirements: benchmarks/requirements-llama.txt, in an environment that has this project too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from frontier import Outcomes
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor.optimizer import SentenceEmbeddingOptimizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from bib_orchestration.biblioteca.corpus.sizes import count_tokens

if TYPE_CHECKING:
    from trim_frontier import Setting

# Shares of a chunk's sentences and cosines, by how many neighbours are kept on either side. One is its default, and
# repeats so much that only high cut-offs save anything.
CUTOFFS = {
    0: ((0.2, 0.4, 0.6, 0.8, 1.0), (-0.1, 0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3)),
    1: ((0.2, 0.4), (0.25, 0.3, 0.35, 0.4)),
}


class KnownVectors(BaseEmbedding):  # type: ignore[misc]
    """Sentences by the project's embedder, each once."""

    embed: Callable[..., Any]
    known: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)

    def _get_text_embeddings(self, texts: list[str]) -> list[Any]:
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        if missing:
            self.known |= dict(zip(missing, self.embed(missing), strict=True))
        return [self.known[text] for text in texts]

    def _get_text_embedding(self, text: str) -> Any:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> Any:
        raise AssertionError("questions come with their vectors")

    async def _aget_query_embedding(self, query: str) -> Any:
        raise AssertionError("questions come with their vectors")


def by_llama_index(setting: Setting) -> Outcomes:
    """An answer is kept when its text is in what is left of its chunk: its optimiser reorders and repeats sentences,
    and says no offsets. Where it raises, since no sentence of a chunk passes, that chunk counts as let go."""
    model = KnownVectors(embed=setting.library.embedder.embed_texts)
    optimisers = [
        SentenceEmbeddingOptimizer(model, context_before=context, context_after=context, **cutoff)
        for context, (shares, cosines) in CUTOFFS.items()
        for cutoff in (
            *({"percentile_cutoff": share} for share in shares),
            *({"threshold_cutoff": cosine} for cosine in cosines),
        )
    ]
    shape = (len(optimisers), len(setting.scored))
    tokens, kept = np.zeros(shape), np.zeros(shape, np.bool_)
    for place, number in enumerate(setting.scored):
        asked = setting.asked[number]
        question = QueryBundle(asked.text, embedding=setting.questions[number].vector)
        for chunk in setting.chunks(number):
            answer = chunk.text[slice(*asked.span)] if chunk.path == asked.gold else None
            for row, optimiser in enumerate(optimisers):
                left = trimmed(optimiser, question, chunk.text)
                tokens[row, place] += count_tokens(left)
                kept[row, place] |= answer is not None and answer in left
    return Outcomes(tokens, kept, setting.before, setting.article)


def trimmed(optimiser: SentenceEmbeddingOptimizer, question: QueryBundle, text: str) -> str:
    node = NodeWithScore(node=TextNode(text=text), score=1.0)
    try:
        (left,) = optimiser.postprocess_nodes([node], query_bundle=question)
    except ValueError:
        return ""
    content: str = left.node.get_content()
    return content
