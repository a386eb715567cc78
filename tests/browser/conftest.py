"""Dagster's UI over the sample, in a real browser: `dagster dev` on a free port, and Debian's chromium.

Without a chromium the tests are skipped and say so; CI installs one. With BIB_SCREENSHOTS=docs/screenshots the
pictures that README shows are taken anew (`make screenshots`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DAYS = "2026-10-25..2026-10-31"
START_LIMIT_S = 120
RUN_LIMIT_S = 90
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Without the last four, chromium looks for hosts of Google's at every start.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Ui:
    """A running web server of Dagster."""

    address: str

    def query(self, graphql: str) -> Any:
        request = urllib.request.Request(
            f"{self.address}/graphql",
            json.dumps({"query": graphql}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def materialisations(self, asset: str) -> int:
        node = self.query(
            f'{{assetNodeOrError(assetKey: {{path: ["{asset}"]}}) {{'
            " ... on AssetNode {assetMaterializations {runId}}}}"
        )
        return len(node["assetNodeOrError"]["assetMaterializations"])


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where a chromium is."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(
            f"no browser: none of {', '.join(BROWSERS)} is installed (Debian: apt-get install chromium)"
        )
    return found


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> dict[str, str]:
    """The sample, indexed and evaluated by the commands of `make demo`."""
    home = tmp_path_factory.mktemp("ui")
    environ = os.environ | {
        "BIB_CONFIG": str(ROOT / "sample" / "bib.toml"),
        "BIB_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    bib = [sys.executable, "-m", "bib_orchestration.cli"]
    for command in (
        ["log", "import", "sample/query_log.jsonl"],
        ["backfill", "--sources", "all", "--days", DAYS],
    ):
        subprocess.run([*bib, *command], env=environ, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return environ


@pytest.fixture(scope="session")
def ui(environ: dict[str, str]) -> Iterator[Ui]:
    """`dagster dev`, ready."""
    port = _free_port()
    log = Path(environ["BIB_HOME"]) / "dagster-dev.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)],
            env=environ,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            made = Ui(f"http://127.0.0.1:{port}")
            _wait_until_loaded(made, server, log)
            yield made
        finally:
            # It has children of its own: code server, daemon, web server.
            os.killpg(server.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                server.wait(15)
            _kill_group(server.pid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_loaded(ui: Ui, server: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up and server.poll() is None:
        try:
            nodes = ui.query(
                "{assetNodes {id} instance {daemonHealth {allDaemonStatuses {healthy required}}}}"
            )
        except (OSError, ValueError, KeyError):
            time.sleep(0.5)
            continue
        daemons = nodes["instance"]["daemonHealth"]["allDaemonStatuses"]
        if nodes["assetNodes"] and all(daemon["healthy"] for daemon in daemons if daemon["required"]):
            return
        time.sleep(0.5)
    pytest.fail(
        f"dagster dev did not load within {START_LIMIT_S} s:\n{log.read_text(errors='replace')[-3000:]}"
    )


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.fixture(scope="session")
def page(chromium: str, ui: Ui) -> Iterator[Any]:
    """A tab of the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1360, "height": 900}, base_url=ui.address)
        tab.set_default_timeout(30_000)
        yield tab
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: BIB_SCREENSHOTS, or a folder that is thrown away."""
    asked = os.environ.get("BIB_SCREENSHOTS")
    folder = Path(asked).absolute() if asked else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
