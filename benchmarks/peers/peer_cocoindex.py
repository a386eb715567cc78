"""CocoIndex into LanceDB, in the form of its own text-embedding example: memoised functions, batched model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Annotated, Any

os.environ.setdefault("COCOINDEX_DISABLE_USAGE_TRACKING", "1")

import cocoindex as coco
import contender
import lancedb as lance
import numpy as np
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.file import PatternFilePathMatcher
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray

TABLE = "chunks"
DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
splitter = RecursiveSplitter()
# The folder and the encoder of this process: CocoIndex makes its environment by itself.
here: dict[str, Any] = {}


@dataclass
class Row:
    id: int
    path: str
    text: str
    vector: Annotated[NDArray[np.float32], VectorSchema(dtype=np.dtype(np.float32), size=contender.DIMENSION)]


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = here["state"] / "coco.db"
    builder.provide(DATABASE, await lancedb.connect_async(str(here["state"] / "lance")))
    yield


@coco.fn.as_async(batching=True, max_batch_size=contender.BATCH)
def embed_batch(texts: list[str]) -> list[NDArray[np.float32]]:
    return list(here["encoder"].encode(texts))


@coco.fn(memo=True)
async def embed(text: str) -> NDArray[np.float32]:
    return await embed_batch(text)


@coco.fn
async def process_chunk(chunk: Any, path: PurePath, ids: IdGenerator, table: Any) -> None:
    row = Row(await ids.next_id(chunk.text), path.as_posix(), chunk.text, await embed(chunk.text))
    table.declare_row(row=row)


@coco.fn(memo=True)
async def process_file(file: Any, table: Any) -> None:
    text = await file.read_text()
    chunks = splitter.split(text, chunk_size=contender.CHUNK_CHARS, chunk_overlap=0, language="markdown")
    await coco.map(process_chunk, chunks, file.file_path.path, IdGenerator(), table)


@coco.fn
async def everything(source: Path) -> None:
    schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
    table = await lancedb.mount_table_target(DATABASE, table_name=TABLE, table_schema=schema)
    pages = PatternFilePathMatcher(included_patterns=[f"**/*{suffix}" for suffix in contender.SUFFIXES])
    files = localfs.walk_dir(source, recursive=True, path_matcher=pages)
    await coco.mount_each(process_file, files.items(), table)


def index(source: Path, state: Path, encoder: contender.Encoder) -> None:
    here.update(state=state, encoder=encoder)
    coco.App(coco.AppConfig(name="contender"), everything, source=source).update_blocking()


def stored(state: Path) -> contender.Stored:
    rows = lance.connect(str(state / "lance")).open_table(TABLE).to_arrow()
    return [(row["path"], row["text"]) for row in rows.select(["path", "text"]).to_pylist()]


def searcher(state: Path, encoder: contender.Encoder) -> Any:
    loop = asyncio.new_event_loop()

    async def opened() -> Any:
        return await (await lance.connect_async(str(state / "lance"))).open_table(TABLE)

    table = loop.run_until_complete(opened())

    async def search(question: str) -> Any:
        query = await table.search(encoder.encode([question])[0], vector_column_name="vector")
        return await query.limit(contender.TOP_K).to_list()

    return lambda question: loop.run_until_complete(search(question))


if __name__ == "__main__":
    contender.run(
        index,
        stored,
        searcher,
        {"cocoindex": version("cocoindex"), "lancedb": version("lancedb")},
    )
