"""The parts of one knowledge base, wired by its settings; each is made on first use.

For the command line, Dagster, and whoever else stands above: `Library(load_settings())`. Whoever only makes
one, as Dagster does to load its definitions, pays for none of the parts, numpy included.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bib_orchestration.biblioteca.retrieval.chunk import Question
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.biblioteca.warehouse.connection import Warehouse
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel, read_models

if TYPE_CHECKING:
    from bib_orchestration.biblioteca.index.embedders import Embedder
    from bib_orchestration.biblioteca.index.generations import Generation, IndexStore
    from bib_orchestration.biblioteca.index.vector_index import Snapshot, VectorIndex

log = logging.getLogger(__name__)

# In characters: the built-in model takes texts of any length, and 7 GB for one of a megabyte.
LONGEST_QUESTION = 8000
# Beside the package in a checkout.
SQL_FOLDER = Path(__file__).resolve().parents[2] / "dbt_like_sql"
MODELS_FOLDER = SQL_FOLDER / "models"
TESTS_FOLDER = SQL_FOLDER / "tests"


@dataclass
class Library:
    """A knowledge base.

    settings: its bib.toml.
    on_wait: is told when a lock is held by another process.
    """

    settings: Settings
    on_wait: Callable[[str], None] = log.info
    # The embedder of a generation that is still live although bib.toml names another model.
    _former: Embedder | None = field(default=None, init=False, repr=False)

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse_address, self.settings.locks, on_wait=self.on_wait)

    @cached_property
    def store(self) -> IndexStore:
        from bib_orchestration.biblioteca.index.generations import IndexStore

        return IndexStore(self.settings.index_address)

    @cached_property
    def index(self) -> VectorIndex:
        from bib_orchestration.biblioteca.index.vector_index import live_index

        return live_index(self.settings.index_address)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that bib.toml names. Raises EmbeddingError when there is no such model."""
        from bib_orchestration.biblioteca.index.embedders import make_embedder

        return make_embedder(self.settings.model, base=self.settings.config.parent)

    @cached_property
    def models(self) -> dict[str, SqlModel]:
        return read_models(MODELS_FOLDER)

    @property
    def sql_values(self) -> dict[str, Any]:
        """What SQL models and tests may name as `$questions` and `$timezone`."""
        return {
            "questions": self.settings.evaluation.questions,
            "timezone": self.settings.schedules.timezone,
        }

    def question(self, text: str, index: Snapshot | None = None) -> Question:
        """A question with the vector that `index` (the live one by default) can be searched by.

        Raises NoIndex, EmbeddingError.
        """
        generation = (index or self.index.snapshot()).generation
        if len(text) > LONGEST_QUESTION:
            log.warning(
                "a question of %d characters is embedded by its first %d", len(text), LONGEST_QUESTION
            )
        vector = self._embedder_of(generation).embed_question(text[:LONGEST_QUESTION])
        return Question(text, vector, generation.fingerprint)

    def _embedder_of(self, generation: Generation) -> Embedder:
        """The model that made a generation: not always bib.toml's, while a new one is being built."""
        from bib_orchestration.biblioteca.index.embedders import fingerprint_of

        if fingerprint_of(self.embedder.card) == generation.fingerprint:
            return self.embedder
        if self._former is None or fingerprint_of(self._former.card) != generation.fingerprint:
            self._former = self._make_former(generation)
        return self._former

    def _make_former(self, generation: Generation) -> Embedder:
        from bib_orchestration.biblioteca.index.embedders import (
            EmbeddingError,
            fingerprint_of,
            make_embedder,
        )

        named = f"{generation.model} ({generation.revision})"
        wanted = self.settings.model.model_copy(update={"name": generation.model, "revision": None})
        problem = "it is no longer to be had"
        try:
            former = make_embedder(wanted, base=self.settings.config.parent)
        except EmbeddingError as error:
            problem = str(error)
        else:
            if fingerprint_of(former.card) == generation.fingerprint:
                log.warning("the index still is of %s; bib.toml names %s", named, self.settings.model.name)
                return former
            problem = f"what is here now is {former.card.name} ({former.card.revision})"
        raise EmbeddingError(
            f"the live index was made by {named}, and bib.toml names {self.settings.model.name}: {problem}. "
            "Run `bib index` to build an index for the model in bib.toml"
        )
