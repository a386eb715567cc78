"""A small knowledge base, and `bib` run on it in this process or in one of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes import CountingEmbedder

from bib_orchestration import cli

BIB = Path(sys.executable).with_name("bib")
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
"""
PAGES = {
    "wiki/vacaciones.md": "# Vacaciones\n\nLas vacaciones se piden en el portal. El saldo caduca en marzo.\n",
    "wiki/[raro].md": "# Marcas\n\nEscribe [bold]así[/bold] y [link=x]así[/link] en la plantilla.\n",
    "docs/vpn.md": "# VPN\n\nEl acceso remoto exige VPN. El segundo factor está en el móvil.\n",
}
LOG = [
    {"query_id": "a", "ts": "2025-10-02T08:00:00Z", "question": "¿Cómo se piden las vacaciones?"},
    {"query_id": "b", "ts": "2025-10-03T08:00:00Z", "question": "¿Qué exige el acceso remoto?"},
]


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=pytest.fail)


class Base:
    """A knowledge base in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("bib.toml", BIB_TOML)
        for path, text in PAGES.items():
            self.write(path, text)
        self.write("log.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in LOG))

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    @property
    def environ(self) -> dict[str, str]:
        """Of a process that works on this knowledge base, at a width of 80 and with nothing else set."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return kept | {
            "BIB_CONFIG": str(self.folder / "bib.toml"),
            "BIB_HOME": str(self.folder / "home"),
            "DAGSTER_HOME": str(self.folder / "home" / "dagster"),
            "OMP_NUM_THREADS": "1",
        }


Run = Callable[..., Said]


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return Base(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """One that tests of a module share and leave as it is."""
    return Base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def bib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`bib(base, "search", "…")` in this process, with an embedder that needs no model."""
    monkeypatch.setattr(
        "bib_orchestration.biblioteca.index.embedders.make_embedder",
        lambda settings, *, base: CountingEmbedder(),
    )

    def run(base: Base, *arguments: str) -> Said:
        for name, value in base.environ.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        try:
            status = cli.main(arguments)
        except SystemExit as left:
            status = int(left.code or 0)
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return run
