"""Fixtures shared by all tests: a knowledge base in a temporary folder, with an embedder that counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings, load_settings

sys.path.insert(0, str(Path(__file__).parent))

from fakes import CountingEmbedder

# Runs share a noisy machine with others: a slow example is no failure.
hypothesis_settings.register_profile("bib", deadline=None, derandomize=True)
hypothesis_settings.load_profile("bib")

BIB_TOML = """\
[[sources]]
name = "wiki"
path = "wiki"
source_type = "wiki"

[[sources]]
name = "docs"
path = "docs"
source_type = "docs"
app = "crearack"
"""

MakeSettings = Callable[..., Settings]


@pytest.fixture
def make_settings(tmp_path: Path) -> MakeSettings:
    """Settings of a bib.toml with the text given (default: sources `wiki` and `docs`), their folders made."""

    def make(toml: str = BIB_TOML) -> Settings:
        config = tmp_path / "bib.toml"
        config.write_text(toml, encoding="utf-8")
        for folder in ("wiki", "docs"):
            (tmp_path / folder).mkdir(exist_ok=True)
        return load_settings(config, environ={"BIB_HOME": str(tmp_path / "home")}, missing_sources="keep")

    return make


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings()


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def library(settings: Settings, embedder: CountingEmbedder) -> Library:
    """A knowledge base with sources `wiki` and `docs`, both still empty. Its embedder is `embedder`."""
    made = Library(settings)
    made.embedder = embedder
    return made


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file below the knowledge base's folder: `write("wiki/a.md", "# A\\n\\nText.")`."""

    def write_file(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
        return file

    return write_file
