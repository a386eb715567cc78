"""LlamaIndex's ingestion pipeline (docstore, cache, upserts and delete) into its LanceDB vector store.

As published, its store deletes by `doc_id = "x"`, in which LanceDB from 0.38 on reads a column's name: each run
with something to delete raises. With PEER_REPAIRED=1 the value is quoted as SQL has it, and nothing else is changed.
"""

from __future__ import annotations

import logging
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import contender
import lancedb
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from llama_index.core.schema import Document
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.lancedb import LanceDBVectorStore

logging.getLogger("llama_index").setLevel(logging.ERROR)
TABLE = "vectors"


class Embedding(BaseEmbedding):
    _encoder: contender.Encoder = PrivateAttr()

    def __init__(self, encoder: contender.Encoder) -> None:
        super().__init__(embed_batch_size=contender.BATCH, model_name="use-multilingual")
        self._encoder = encoder

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.encode(texts).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class RepairedStore(LanceDBVectorStore):
    def delete(self, ref_doc_id: str, **_: Any) -> None:
        self.table.delete("doc_id = '" + ref_doc_id.replace("'", "''") + "'")


def open_store(state: Path) -> LanceDBVectorStore:
    store = RepairedStore if os.environ.get("PEER_REPAIRED") else LanceDBVectorStore
    return store(uri=str(state / "lance"), table_name=TABLE)


def index(source: Path, state: Path, encoder: contender.Encoder) -> None:
    pipeline = IngestionPipeline(
        transformations=[
            MarkdownNodeParser(),
            SentenceSplitter(chunk_size=contender.CHUNK_TOKENS, chunk_overlap=0),
            Embedding(encoder),
        ],
        docstore=SimpleDocumentStore(),
        vector_store=open_store(state),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    memory = state / "pipeline"
    if memory.exists():
        pipeline.load(str(memory))
    documents = [
        Document(text=text, doc_id=path, metadata={"file_path": path})
        for path, text in contender.read_pages(source).items()
    ]
    pipeline.run(documents=documents)
    pipeline.persist(str(memory))


def stored(state: Path) -> contender.Stored:
    rows = lancedb.connect(str(state / "lance")).open_table(TABLE).to_arrow()
    return [(row["doc_id"], row["text"]) for row in rows.select(["doc_id", "text"]).to_pylist()]


def searcher(state: Path, encoder: contender.Encoder) -> Any:
    index = VectorStoreIndex.from_vector_store(open_store(state), embed_model=Embedding(encoder))
    return index.as_retriever(similarity_top_k=contender.TOP_K).retrieve


if __name__ == "__main__":
    contender.run(
        index,
        stored,
        searcher,
        {"llama-index-core": version("llama-index-core"), "lancedb": version("lancedb")},
    )
