"""Whether the live index is what it should be: looked at row by row, as it lies on disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bib_orchestration.biblioteca.index.corpus_contents import wanted_ids
from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.warehouse.connection import Warehouse

_BATCH_ROWS = 4096
# Of the length of a vector that is stored as float32.
_LENGTH_TOLERANCE = 1e-3
_SENTENCE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Soundness:
    """What is wrong with the live index; content ids, sorted.

    contents: rows that it has.
    missing: contents of the corpus that it lacks.
    unknown: contents that it has and the corpus does not.
    doubled: contents that it has more than once.
    bad_vectors: contents whose vector is not of length 1 or not of finite numbers, or whose sentences' vectors
        are not one of the right dimension for each sentence.
    """

    contents: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    doubled: tuple[str, ...]
    bad_vectors: tuple[str, ...]

    @property
    def is_level(self) -> bool:
        """Whether every content is indexed once, and no other is."""
        return not (self.missing or self.unknown or self.doubled)


def check_index(store: IndexStore, warehouse: Warehouse) -> Soundness:
    """Compare the live generation with `unique_chunks`, and look at every vector."""
    wanted = wanted_ids(warehouse)
    generation = store.current()
    if generation is None:
        return Soundness(0, tuple(sorted(wanted)), (), (), ())
    table = store.open(generation.table)
    if generation.version:
        table.checkout(generation.version)
    found: Counter[str] = Counter()
    bad: set[str] = set()
    columns = ["content_id", "vector", "sentence_starts", "sentence_vectors"]
    for batch in table.search().select(columns).to_batches(_BATCH_ROWS):
        ids = batch["content_id"].to_pylist()
        found.update(ids)
        vectors = np.asarray(batch["vector"].flatten(), np.float32).reshape(len(ids), -1)
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        sentences = np.array([len(starts or ()) for starts in batch["sentence_starts"].to_pylist()])
        sizes = np.array([len(stored or b"") for stored in batch["sentence_vectors"].to_pylist()])
        sound = (
            np.isfinite(lengths)
            & (np.abs(lengths - 1) <= _LENGTH_TOLERANCE)
            & (vectors.shape[1] == generation.dimension)
            & (sizes == sentences * generation.dimension * _SENTENCE_BYTES)
        )
        bad.update(content for content, is_sound in zip(ids, sound, strict=True) if not is_sound)
    return Soundness(
        contents=sum(found.values()),
        missing=tuple(sorted(wanted - found.keys())),
        unknown=tuple(sorted(found.keys() - wanted)),
        doubled=tuple(sorted(content for content, times in found.items() if times > 1)),
        bad_vectors=tuple(sorted(bad)),
    )
