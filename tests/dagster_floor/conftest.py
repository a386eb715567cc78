"""A knowledge base with Dagster's floor above it: real assets, checks, jobs and schedules, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.index.vector_index import Snapshot, VectorIndex
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings, load_settings
from bib_orchestration.build import build_definitions
from bib_orchestration.circuits import CORPUS
from bib_orchestration.partitions import range_tags

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PAGES = {
    "wiki/vacaciones.md": "# Vacaciones\n\nLas vacaciones se piden en el portal. El saldo caduca en marzo.\n",
    "docs/vpn.md": "# VPN\n\nEl acceso remoto exige VPN. El segundo factor está en el móvil.\n",
    "notas/briefing.md": "# Sesión\n\nSe decidió exportar el plano en DXF.\n",
}
BIB_TOML = """\
[evaluation]
first_day = 2025-10-01

[[sources]]
name = "wiki"
path = "wiki"
source_type = "wiki"

[[sources]]
name = "docs"
path = "docs"
app = "crearack"

[[sources]]
name = "notas"
path = "notas"
source_type = "session"
"""

Figures = dict[str | None, dict[str, Any]]


class Floor:
    """A knowledge base in `folder`, its definitions, and runs of them, recorded in `instance`."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance, toml: str = BIB_TOML) -> None:
        self.folder = folder
        self.instance = instance
        self.embedder = CountingEmbedder()
        self.reload(toml)

    def reload(self, toml: str) -> None:
        """Start again with another bib.toml, as a new process would."""
        config = self.folder / "bib.toml"
        config.write_text(toml, encoding="utf-8")
        self.settings: Settings = load_settings(
            config, environ={"BIB_HOME": str(self.folder / "home")}, missing_sources="keep"
        )
        self.library = Library(self.settings)
        self.library.embedder = self.embedder
        self.definitions = build_definitions(self.settings, library=self.library)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def materialise(
        self, keys: Sequence[str], assets: Sequence[str] = CORPUS, *, full: bool = False
    ) -> dg.ExecuteInProcessResult:
        """One run of `assets` for the range of partitions from the first to the last of `keys`."""
        refreshed = [name for name in assets if name in ("documents", "chunks", "chunk_index")]
        ops = {name: {"config": {"full": full}} for name in refreshed}
        return self.execute(
            "__ASSET_JOB",
            tags=range_tags(keys),
            run_config={"ops": ops},
            asset_selection=[dg.AssetKey(name) for name in assets],
        )

    def execute(self, job: str, *, run_config: dict[str, Any], **given: Any) -> dg.ExecuteInProcessResult:
        found = self.definitions.get_repository_def().get_job(job)
        return found.execute_in_process(
            instance=self.instance, run_config=QUIET | run_config, raise_on_error=False, **given
        )

    def snapshot(self) -> Snapshot:
        """The live index as another process would see it."""
        return VectorIndex(IndexStore(self.settings.index_address)).snapshot()

    def indexed_paths(self) -> list[str]:
        return sorted(path for paths in self.snapshot().columns["paths"].to_pylist() for path in paths)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.library.warehouse.read() as connection:
            return connection.sql(query).fetchall()


def figures(result: dg.ExecuteInProcessResult, asset: str) -> Figures:
    """The metadata of an asset's materialisations in a run, by partition."""
    return {
        event.materialization.partition: {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in result.all_events
        if event.is_step_materialization and event.materialization.asset_key == dg.AssetKey(asset)
    }


def failures(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Why steps of a run failed, in the words of the innermost error that people see."""
    said = {}
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            said[event.step_key] = ((error.cause if error.cause else error).message).strip()
    return said


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}


@pytest.fixture(scope="session")
def stored_instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance on disk, as ticks need one; making it takes longer than wiping it."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


@pytest.fixture
def make_floor(tmp_path: Path) -> Iterator[Callable[..., Floor]]:
    """A knowledge base of the pages given, not indexed yet, and an instance of its own."""
    with dg.DagsterInstance.ephemeral() as instance:

        def make(toml: str = BIB_TOML, pages: dict[str, str] = PAGES) -> Floor:
            made = Floor(tmp_path, instance, toml)
            for path, text in pages.items():
                made.write(path, text)
            return made

        yield make


@pytest.fixture
def floor(make_floor: Callable[..., Floor]) -> Floor:
    return make_floor()
