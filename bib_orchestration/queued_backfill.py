"""Backfills that a running Dagster server makes: launched, and watched, through its GraphQL.

One asset backfill takes all that was asked for, by source, by day and without partitions: Dagster's daemon makes
its runs in the order in which the assets need each other, and looks every 30 seconds for what comes next.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bib_orchestration.backfill_plan import BackfillPlan, Range, neighbours, plain_reason, range_label
from bib_orchestration.biblioteca.settings import SettingsError
from bib_orchestration.circuits import REFRESHED
from bib_orchestration.partitions import refresh_config

_TIMEOUT_S = 60
_POLL_S = 1.0
# A daemon says every 30 seconds that it is alive; Dagster itself takes it for dead after half an hour.
_DAEMON_SILENT_S = 180
# A daemon that has just been started has not said anything yet.
_DAEMON_START_S = 10
_DAEMONS = {"BACKFILL": "makes the runs of a backfill", "QUEUED_RUN_COORDINATOR": "starts queued runs"}
_SUCCEEDED = ("COMPLETED", "COMPLETED_SUCCESS")
_ENDED = (*_SUCCEEDED, "COMPLETED_FAILED", "FAILED", "CANCELED")
_RUN_FAILED = ("FAILURE", "CANCELED")
_MOST_RUNS = 1000

_STATE = """
query State($assets: [AssetKeyInput!]!) {
  instance { info daemonHealth { allDaemonStatuses { daemonType required healthy lastHeartbeatTime } } }
  assetNodes(assetKeys: $assets) { assetKey { path } partitionKeys }
  workspaceOrError {
    __typename
    ... on Error { message }
    ... on Workspace {
      locationEntries { name locationOrLoadError { __typename ... on Error { message } } }
    }
  }
}
"""
_LAUNCH = """
mutation Launch($backfill: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfill) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PartitionKeysNotFoundError { partitionKeys }
    ... on Error { message }
  }
}
"""
_PROGRESS = """
query Progress($backfill: String!, $runs: Int!) {
  instance { daemonHealth { allDaemonStatuses { daemonType required healthy lastHeartbeatTime } } }
  partitionBackfillOrError(backfillId: $backfill) {
    __typename
    ... on Error { message }
    ... on PartitionBackfill {
      status
      error { message }
      runs(limit: $runs) { id status assetSelection { path } tags { key value } }
      assetBackfillData {
        assetBackfillStatuses {
          ... on AssetPartitionsStatusCounts {
            assetKey { path } numPartitionsTargeted numPartitionsMaterialized numPartitionsFailed
          }
          ... on UnpartitionedAssetStatus { assetKey { path } materialized failed }
        }
      }
    }
  }
}
"""
_RUN_LOG = """
query RunLog($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection {
      events {
        __typename
        ... on ExecutionStepFailureEvent { stepKey error { message cause { message } } }
        ... on RunFailureEvent { message error { message cause { message } } }
      }
    }
  }
}
"""


class QueueError(RuntimeError):
    """A server cannot take a backfill, or does not answer; the message says which server, and what to do."""


@dataclass(frozen=True, slots=True)
class QueuedBackfill:
    """A backfill that a server has taken, and where to watch it."""

    id: str
    url: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a backfill ended.

    status: Dagster's word for it.
    succeeded: whether all runs did; a run whose check raised fails, and its partitions are made all the same.
    assets: for each asset how many partitions were "targeted", "materialised" and "failed".
    failures: step or run, its partitions and the reason.
    """

    status: str
    succeeded: bool
    assets: Mapping[str, Mapping[str, int]]
    failures: list[str] = field(default_factory=list)


class DagsterServer:
    """A Dagster webserver at an address like `http://127.0.0.1:3000`. Raises SettingsError for a bad one."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        try:
            parts = urlsplit(self.address)
            self._host, _ = parts.hostname, parts.port
        except ValueError:
            self._host = None
        if not self._host or parts.scheme not in ("http", "https"):
            raise SettingsError(f"--server: {address!r} is no address; http://127.0.0.1:3000 is right")
        # A proxy that the environment names cannot reach a server of this machine.
        handlers = [urllib.request.ProxyHandler({})] if self._is_here else []
        self._opener = urllib.request.build_opener(*handlers)

    @property
    def _is_here(self) -> bool:
        if self._host == "localhost":
            return True
        try:
            return ip_address(self._host or "").is_loopback
        except ValueError:
            return False

    def launch(self, plan: BackfillPlan, *, full: bool, home: Path) -> QueuedBackfill:
        """Queue the backfill of a plan, after a look at whether the server can make it.

        `home` is the Dagster home that a server of this knowledge base has. Raises QueueError.
        """
        config = _full_config(plan) if full else {}
        keys = [{"path": name.split("/")} for name in plan.ranges]
        state, now = self._ask(_STATE, assets=keys)
        self._check_home(state["instance"]["info"], home)
        self._check_definitions(state, plan)
        self._check_daemons(state, now, keys)
        backfill = {
            "partitionsByAssets": [
                {"assetKey": {"path": name.split("/")}, "partitions": _selector(ranges)}
                for name, ranges in plan.ranges.items()
            ],
            "title": "bib backfill",
            "tags": [{"key": "bib/backfill", "value": _label(plan)}],
            **({"runConfigData": config} if config else {}),
        }
        launched = self._ask(_LAUNCH, backfill=backfill)[0]["launchPartitionBackfill"]
        if launched["__typename"] != "LaunchBackfillSuccess":
            said = launched.get("message") or f"unknown partitions {launched.get('partitionKeys')}"
            raise QueueError(f"{self.address} refused the backfill: {launched['__typename']}: {said}")
        return QueuedBackfill(launched["backfillId"], f"{self.address}/runs/b/{launched['backfillId']}")

    def wait(self, queued: QueuedBackfill, on_change: Callable[[str], None] = lambda said: None) -> Outcome:
        """Wait until a backfill has ended; `on_change` is told how far it is. Raises QueueError."""
        said = ""
        while True:
            try:
                answer, now = self._ask(_PROGRESS, backfill=queued.id, runs=_MOST_RUNS)
            except QueueError as error:
                raise QueueError(f"{error}. Backfill {queued.id} stays queued meanwhile") from None
            backfill = answer["partitionBackfillOrError"]
            if backfill["__typename"] != "PartitionBackfill":
                raise QueueError(f"{self.address}: backfill {queued.id}: {backfill.get('message')}")
            assets = _counts(backfill)
            if backfill["status"] in _ENDED:
                return self._outcome(backfill, assets)
            if silent := _silent_daemons(answer, now):
                raise QueueError(f"{self._no_daemon(silent)} Backfill {queued.id} stays queued meanwhile")
            progress = ", ".join(
                f"{name} {counts['materialised']} of {counts['targeted']}" for name, counts in assets.items()
            )
            if progress != said:
                said = progress
                on_change(said)
            time.sleep(_POLL_S)

    # --- what a server must be for a backfill to come to its end

    def _check_home(self, info: str | None, home: Path) -> None:
        """A server of this machine with another Dagster home is most likely one of another knowledge base."""
        try:
            told = yaml.safe_load(info or "")["local_artifact_storage"]["config"]["base_dir"]
        except (yaml.YAMLError, KeyError, TypeError):
            return
        if self._is_here and Path(told).resolve() != home.resolve():
            raise QueueError(
                f"{self.address} works for another knowledge base: its Dagster home is {told}, here it is {home}. "
                "Name the right server with --server, or set BIB_CONFIG and BIB_HOME (or DAGSTER_HOME) as it has them"
            )

    def _check_definitions(self, state: Mapping[str, Any], plan: BackfillPlan) -> None:
        """That the server knows each asset, with the partitions asked for as neighbours, as here."""
        known = {"/".join(node["assetKey"]["path"]): node["partitionKeys"] for node in state["assetNodes"]}
        for name, ranges in plan.ranges.items():
            if name not in known:
                unknown = f"no asset {name!r}"
            elif bool(ranges) != bool(known[name]):
                unknown = f"{name!r} with other partitions"
            elif ranges and neighbours([key for keys in ranges for key in keys], known[name]) != ranges:
                missing = [key for keys in ranges for key in keys if key not in known[name]]
                unknown = (
                    f"no partition {missing[0]!r} of {name!r}" if missing else f"{name!r} in another order"
                )
            else:
                continue
            raise QueueError(
                f"{self.address} has {unknown}: its definitions are older than bib.toml and the models, or of "
                f"another knowledge base. Reload them (in the UI: Deployment, Reload all), or restart it"
                f"{_load_errors(state)}"
            )

    def _check_daemons(self, state: dict[str, Any], now: float, keys: list[Any]) -> None:
        deadline = time.monotonic() + _DAEMON_START_S
        while silent := _silent_daemons(state, now):
            if time.monotonic() > deadline:
                raise QueueError(f"{self._no_daemon(silent)} Nothing was queued")
            time.sleep(_POLL_S)
            state, now = self._ask(_STATE, assets=keys)

    def _no_daemon(self, silent: list[str]) -> str:
        return (
            f"{self.address}: Dagster's daemon does not run ({'; '.join(silent)}); a backfill would wait for it. "
            "`make ui` and `dagster dev` bring one; beside a webserver alone, start `dagster-daemon run`."
        )

    # --- how it ended

    def _outcome(self, backfill: Mapping[str, Any], assets: Mapping[str, Mapping[str, int]]) -> Outcome:
        failures = [backfill["error"]["message"].strip()] if backfill["error"] else []
        failed = [run for run in backfill["runs"] if run["status"] in _RUN_FAILED]
        for run in failed:
            failures += self._failures(run)
        succeeded = backfill["status"] in _SUCCEEDED and not failed
        return Outcome(backfill["status"], succeeded, assets, failures)

    def _failures(self, run: Mapping[str, Any]) -> list[str]:
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        first = tags.get("dagster/asset_partition_range_start", tags.get("dagster/partition", ""))
        last = tags.get("dagster/asset_partition_range_end", first)
        partitions = range_label([first, last] if first != last else [first])
        where = f" ({partitions})" if partitions else ""
        events = self._ask(_RUN_LOG, run=run["id"])[0]["logsForRun"].get("events", [])
        steps = [
            f"{event['stepKey']}{where}: {_reason(event)}"
            for event in events
            if event["__typename"] == "ExecutionStepFailureEvent"
        ]
        if steps:
            return steps
        assets = ", ".join("/".join(key["path"]) for key in run["assetSelection"] or ())
        ended = [_reason(event) for event in events if event["__typename"] == "RunFailureEvent"]
        return [f"{assets}{where}: {ended[-1] if ended else run['status'].lower()} (run {run['id']})"]

    # --- the wire

    def _ask(self, query: str, **variables: Any) -> tuple[dict[str, Any], float]:
        """The answer to a query, and the time that the server has, as a timestamp."""
        request = urllib.request.Request(
            f"{self.address}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                text, date = response.read(), response.headers.get("Date")
        except urllib.error.HTTPError as error:
            # GraphQL says with status 400 what it does not like about a query.
            text, date = error.read(), None
            if not _is_answer(text):
                raise QueueError(
                    f"{self.address} answers, but not as Dagster does: {error.code} {error.reason}; "
                    "--server names another"
                ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            reason = getattr(reason, "strerror", None) or reason
            raise QueueError(
                f"no Dagster server answers at {self.address} ({reason}); `make ui` starts one, "
                "--server or DAGSTER_URL names another"
            ) from None
        if not _is_answer(text):
            raise QueueError(f"{self.address} answers, but not as Dagster does; --server names another")
        answer = json.loads(text)
        if answer.get("errors"):
            raise QueueError(f"{self.address}: {answer['errors'][0].get('message', answer['errors'][0])}")
        return answer["data"], parsedate_to_datetime(date).timestamp() if date else time.time()


def _is_answer(text: bytes) -> bool:
    try:
        answer = json.loads(text)
    except ValueError:
        return False
    return isinstance(answer, dict) and bool(answer.keys() & {"data", "errors"})


def _full_config(plan: BackfillPlan) -> dict[str, Any]:
    """The run config for `full`. Dagster gives all runs of a backfill the same, and a run fails of config for
    an asset that is not in it; so all assets have to be of one kind, and so in the same runs."""
    told = [name for name in plan.ranges if name in REFRESHED]
    if not told:
        raise SettingsError(
            f"--full: none of {', '.join(plan.ranges)} can be told to verify all; leave it out"
        )
    apart: dict[str | None, list[str]] = {}
    for name, kind in plan.kinds.items():
        apart.setdefault(kind, []).append(name)
    if len(apart) > 1:
        parts = ", then ".join(f"--assets {','.join(names)}" for names in apart.values())
        raise SettingsError(
            "--full with --queue: Dagster gives all runs of a backfill one config, and these assets are made "
            f"in different runs. Leave out --queue, or queue them one after the other: {parts}"
        )
    return refresh_config(told, full=True)


def _selector(ranges: tuple[Range, ...]) -> dict[str, Any] | None:
    return {"ranges": [{"start": keys[0], "end": keys[-1]} for keys in ranges]} if ranges else None


def _label(plan: BackfillPlan) -> str:
    labels = dict.fromkeys(range_label(keys) for ranges in plan.ranges.values() for keys in ranges)
    return ",".join(labels) or "unpartitioned"


def _silent_daemons(state: Mapping[str, Any], now: float) -> list[str]:
    """Those daemons of a server without which no backfill comes to its end, and that have not been heard of."""
    silent = []
    for daemon in state["instance"]["daemonHealth"]["allDaemonStatuses"]:
        kind, beat = daemon["daemonType"], daemon["lastHeartbeatTime"]
        if not daemon["required"] or kind not in _DAEMONS:
            continue
        if beat is None:
            silent.append(f"{kind}, which {_DAEMONS[kind]}, was never heard of")
        elif not daemon["healthy"] or now - beat > _DAEMON_SILENT_S:
            silent.append(f"{kind}, which {_DAEMONS[kind]}, was heard of last {now - beat:.0f} s ago")
    return silent


def _load_errors(state: Mapping[str, Any]) -> str:
    entries = state["workspaceOrError"].get("locationEntries", [])
    errors = [
        f"{entry['name']}: {entry['locationOrLoadError']['message'].strip()}"
        for entry in entries
        if "message" in (entry["locationOrLoadError"] or {})
    ]
    return f". It could not load {'; '.join(errors)}" if errors else ""


def _counts(backfill: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return dict(
        _count(status) for status in (backfill["assetBackfillData"] or {}).get("assetBackfillStatuses", ())
    )


def _count(status: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    numbers = (
        (status["numPartitionsTargeted"], status["numPartitionsMaterialized"], status["numPartitionsFailed"])
        if "numPartitionsTargeted" in status
        else (1, int(status["materialized"]), int(status["failed"]))
    )
    return "/".join(status["assetKey"]["path"]), dict(
        zip(("targeted", "materialised", "failed"), numbers, strict=True)
    )


def _reason(event: Mapping[str, Any]) -> str:
    error = event.get("error") or {}
    said = (error.get("cause") or error).get("message") or event.get("message") or "no reason given"
    return plain_reason(str(said))
