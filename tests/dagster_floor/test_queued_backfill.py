"""`bib backfill --queue`: against a real `dagster dev`, and against servers that are not what they should be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest

from bib_orchestration import backfill, queued_backfill
from bib_orchestration.backfill_plan import BackfillPlan, PlannedRun
from bib_orchestration.biblioteca.settings import SettingsError
from bib_orchestration.queued_backfill import DagsterServer, QueuedBackfill, QueueError

from .conftest import BIB_TOML, PAGES

BIN = Path(sys.executable).parent
# Dagster's daemon looks every 30 seconds what comes next in a backfill; nobody waits so long for a test.
IMPATIENT = """\
import sys
if any(name.startswith("dagster._daemon") for name in sys.orig_argv):
    import dagster._daemon.controller as controller
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
"""
START_S = 120


# --- a real server


@dataclass(frozen=True)
class RealServer:
    """A `dagster dev` on a knowledge base of its own."""

    folder: Path
    address: str

    @property
    def environ(self) -> dict[str, str]:
        return environ(self.folder) | {"DAGSTER_URL": self.address}

    def bib(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "bib"), "backfill", "--queue", *arguments],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def recorded(self, asset: str) -> dict[str | None, int]:
        """The partitions of an asset in Dagster's event log, and their rows."""
        with dg.DagsterInstance.from_config(str(self.folder / "home" / "dagster")) as instance:
            events = instance.fetch_materializations(dg.AssetKey(asset), limit=100, ascending=True).records
        made = [event.asset_materialization for event in events if event.asset_materialization]
        return {each.partition: each.metadata["dagster/partition_row_count"].value for each in made}  # type: ignore[misc]


def environ(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "BIB_CONFIG": str(folder / "bib.toml"),
        "BIB_HOME": str(folder / "home"),
        "DAGSTER_HOME": str(folder / "home" / "dagster"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(folder / "impatient"),
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("served")
    files = PAGES | {"bib.toml": BIB_TOML, "impatient/sitecustomize.py": IMPATIENT}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "home" / "dagster").mkdir(parents=True)
    shutil.copy(backfill.INSTANCE_SETTINGS, folder / "home" / "dagster")
    port = free_port()
    with (folder / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [
                *(str(BIN / "dagster"), "dev", "-m", "bib_orchestration.definitions"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            env=environ(folder),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_S
        while not listens(port):
            assert process.poll() is None, (folder / "dev.log").read_text()
            assert time.monotonic() < deadline, (folder / "dev.log").read_text()
            time.sleep(0.2)
        yield RealServer(folder, f"http://127.0.0.1:{port}")
    finally:
        end_group(process)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, at once: nothing of theirs is to be kept."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=10)


def test_a_queued_backfill_is_made_by_the_server_partition_by_partition(server: RealServer) -> None:
    queued = server.bib("--sources", "docs,wiki", "--assets", "documents,chunks", "--wait", "--json")
    assert queued.returncode == 0, queued.stderr
    said = json.loads(queued.stdout)
    assert said["status"] == "COMPLETED_SUCCESS"
    assert said["url"] == f"{server.address}/runs/b/{said['backfill_id']}"
    assert said["failures"] == []
    counts = {"targeted": 2, "materialised": 2, "failed": 0}
    assert said["assets"] == {"documents": counts, "chunks": counts}
    # Notas lies between them, and was not asked for.
    assert server.recorded("documents") == server.recorded("chunks") == {"docs": 1, "wiki": 1}
    with dg.DagsterInstance.from_config(str(server.folder / "home" / "dagster")) as instance:
        assert {run.tags["dagster/backfill"] for run in instance.get_runs()} == {said["backfill_id"]}
        assert instance.get_backfill(said["backfill_id"]).is_asset_backfill  # type: ignore[union-attr]


def test_a_run_that_fails_is_named_and_so_is_why(server: RealServer) -> None:
    (server.folder / "docs").rename(server.folder / "away")
    try:
        queued = server.bib("--sources", "docs", "--assets", "documents", "--wait", "--full")
    finally:
        (server.folder / "away").rename(server.folder / "docs")
    assert queued.returncode == 1
    assert queued.stdout.startswith("queued: backfill ")
    assert f"to be watched at {server.address}/runs/b/" in queued.stdout
    assert "failed: sources_were_read (docs): source 'docs' (" in queued.stderr
    assert "Traceback" not in queued.stderr


def test_definitions_that_the_server_does_not_know_yet_are_pointed_at(server: RealServer) -> None:
    config = server.folder / "bib.toml"
    config.write_text(BIB_TOML + '\n[[sources]]\nname = "nueva"\npath = "docs"\n', encoding="utf-8")
    try:
        queued = server.bib("--sources", "nueva", "--assets", "documents")
    finally:
        config.write_text(BIB_TOML, encoding="utf-8")
    assert (queued.returncode, queued.stdout) == (1, "")
    assert f"{server.address} has no partition 'nueva' of 'documents'" in queued.stderr
    assert "Reload them" in queued.stderr


# --- servers that are not what they should be

HOME = Path("/srv/dagster")
PLAN = BackfillPlan(
    runs=(PlannedRun(("documents",), ("docs", "wiki")),),
    ranges={"documents": (("docs", "wiki"),), "unique_chunks": ()},
    kinds={"documents": "source", "unique_chunks": None},
)


@dataclass
class Script:
    """What a fake server answers: to the question for its state, and to a launch."""

    home: str = str(HOME)
    partitions: dict[str, list[str]] = field(
        default_factory=lambda: {"documents": ["docs", "wiki"], "unique_chunks": []}
    )
    silent_s: dict[str, float | None] = field(default_factory=dict)
    launched: dict[str, Any] = field(
        default_factory=lambda: {"__typename": "LaunchBackfillSuccess", "backfillId": "abc"}
    )
    statuses: list[str] = field(default_factory=lambda: ["REQUESTED"])
    load_error: str | None = None
    raw: tuple[int, bytes] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, question: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(question["variables"])
        if self.raw:
            return self.raw
        data: dict[str, Any] = {"launchPartitionBackfill": self.launched}
        if "query State" in question["query"]:
            data = self.state()
        elif "query Progress" in question["query"]:
            data = {
                "instance": self.state()["instance"],
                "partitionBackfillOrError": {
                    "__typename": "PartitionBackfill",
                    "status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0],
                    "error": None,
                    "runs": [],
                    "assetBackfillData": None,
                },
            }
        return 200, json.dumps({"data": data}).encode()

    def state(self) -> dict[str, Any]:
        silent = {"BACKFILL": 1.0, "QUEUED_RUN_COORDINATOR": 1.0, "SENSOR": None} | self.silent_s
        return {
            "instance": {
                "info": f"local_artifact_storage:\n  config:\n    base_dir: {self.home}\n",
                "daemonHealth": {
                    "allDaemonStatuses": [
                        {
                            "daemonType": kind,
                            "required": True,
                            "healthy": seconds is not None,
                            "lastHeartbeatTime": None if seconds is None else time.time() - seconds,
                        }
                        for kind, seconds in silent.items()
                    ]
                },
            },
            "assetNodes": [
                {"assetKey": {"path": [name]}, "partitionKeys": keys}
                for name, keys in self.partitions.items()
            ],
            "workspaceOrError": {
                "__typename": "Workspace",
                "locationEntries": [
                    {
                        "name": "bib_orchestration.definitions",
                        "locationOrLoadError": {"__typename": "PythonError", "message": self.load_error}
                        if self.load_error
                        else {"__typename": "RepositoryLocation"},
                    }
                ],
            },
        }


Serve = Callable[[Script], DagsterServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A server that answers as a script says. Daemons get no time to start."""
    monkeypatch.setattr(queued_backfill, "_DAEMON_START_S", 0)
    monkeypatch.setattr(queued_backfill, "_POLL_S", 0.01)
    servers = []

    def start(script: Script) -> DagsterServer:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = script.answer(question)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(listening)
        Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return DagsterServer(f"http://127.0.0.1:{listening.server_port}/")

    yield start
    for listening in servers:
        listening.shutdown()
        listening.server_close()


def test_one_backfill_takes_partitions_and_assets_without(serve: Serve) -> None:
    script = Script()
    server = serve(script)
    queued = server.launch(PLAN, full=False, home=HOME)
    assert (queued.id, queued.url) == ("abc", f"{server.address}/runs/b/abc")
    backfill_params = script.asked[-1]["backfill"]
    assert backfill_params["partitionsByAssets"] == [
        {
            "assetKey": {"path": ["documents"]},
            "partitions": {"ranges": [{"start": "docs", "end": "wiki"}]},
        },
        {"assetKey": {"path": ["unique_chunks"]}, "partitions": None},
    ]
    assert "runConfigData" not in backfill_params


def test_full_is_passed_where_all_runs_can_take_it(serve: Serve) -> None:
    script = Script()
    alone = BackfillPlan((), {"documents": (("docs", "wiki"),)}, {"documents": "source"})
    serve(script).launch(alone, full=True, home=HOME)
    assert script.asked[-1]["backfill"]["runConfigData"] == {"ops": {"documents": {"config": {"full": True}}}}
    with pytest.raises(SettingsError, match=r"--assets documents, then --assets unique_chunks$"):
        serve(script).launch(PLAN, full=True, home=HOME)


FAULTS: dict[str, tuple[Script, str]] = {
    "another home": (Script(home="/else/dagster"), r"Dagster home is /else/dagster, here it is /srv/dagster"),
    "an unknown asset": (Script(partitions={"documents": ["docs", "wiki"]}), "has no asset 'unique_chunks'"),
    "an unknown partition": (
        Script(partitions={"documents": ["docs"], "unique_chunks": []}),
        "has no partition 'wiki' of 'documents'",
    ),
    "partitions in another order": (
        Script(partitions={"documents": ["docs", "notas", "wiki"], "unique_chunks": []}),
        "has 'documents' in another order",
    ),
    "another kind of partition": (
        Script(partitions={"documents": [], "unique_chunks": []}),
        "has 'documents' with other partitions",
    ),
    "definitions that do not load": (
        Script(partitions={}, load_error="SettingsError: bib.toml: retreival\n"),
        r"It could not load bib_orchestration\.definitions: SettingsError: bib\.toml: retreival$",
    ),
    "no daemon": (
        Script(silent_s={"BACKFILL": None}),
        r"daemon does not run \(BACKFILL, .* was never heard of\).*dagster-daemon run.*Nothing was queued$",
    ),
    "a daemon that died": (
        Script(silent_s={"QUEUED_RUN_COORDINATOR": 605}),
        r"\(QUEUED_RUN_COORDINATOR, which starts queued runs, was heard of last 60\d s ago\)",
    ),
    "a launch that is refused": (
        Script(launched={"__typename": "UnauthorizedError", "message": "read only"}),
        "refused the backfill: UnauthorizedError: read only$",
    ),
    "an error of GraphQL": (
        Script(raw=(400, b'{"errors": [{"message": "Cannot query field"}]}')),
        "Cannot query field$",
    ),
    "another program": (Script(raw=(200, b"<html>Grafana</html>")), "answers, but not as Dagster does"),
    "another program's 404": (Script(raw=(404, b"no such page")), "not as Dagster does: 404 Not Found"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_cannot_make_it_is_told_from_one_that_can(serve: Serve, fault: str) -> None:
    script, said = FAULTS[fault]
    server = serve(script)
    with pytest.raises(QueueError, match=said) as raised:
        server.launch(PLAN, full=False, home=HOME)
    assert server.address in str(raised.value)


def test_waiting_ends_with_the_backfill_or_with_the_daemon(serve: Serve) -> None:
    queued = QueuedBackfill("abc", "")
    for status, succeeded in (("COMPLETED_SUCCESS", True), ("COMPLETED_FAILED", False), ("CANCELED", False)):
        outcome = serve(Script(statuses=["REQUESTED", "REQUESTED", status])).wait(queued)
        assert (outcome.status, outcome.succeeded) == (status, succeeded)
    with pytest.raises(
        QueueError, match=r"daemon does not run \(BACKFILL, .*Backfill abc stays queued meanwhile$"
    ):
        serve(Script(silent_s={"BACKFILL": 605})).wait(queued)


def test_where_nothing_listens_one_is_told_how_to_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # No proxy of the environment is asked for a server of this machine.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(
        QueueError, match=rf"no Dagster server answers at {address} \(Connection refused\); `make ui`"
    ):
        DagsterServer(address).launch(PLAN, full=False, home=HOME)


@pytest.mark.parametrize(
    "address", ["localhost:3000", "127.0.0.1", "ftp://x", "http://", "http://[::1", "http://x:y"]
)
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(SettingsError, match=r"--server: .* is no address; http://127\.0\.0\.1:3000 is right"):
        DagsterServer(address)
