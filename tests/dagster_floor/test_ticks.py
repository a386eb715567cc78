"""What a schedule's tick decides, on a real instance: to launch, and over which partitions, or to skip, and why."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from bib_orchestration.circuits import CIRCUITS
from bib_orchestration.schedules import FINGERPRINT_TAG, circuit_fingerprint, job_name

from .conftest import BIB_TOML, PAGES, Floor, failures, figures

MADRID = ZoneInfo("Europe/Madrid")
AT = datetime(2025, 10, 4, 6, 0, tzinfo=MADRID)
BY_NAME = {circuit.name: circuit for circuit in CIRCUITS}
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


ACTIVE = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")


@pytest.fixture
def floor(tmp_path: Path, stored_instance: dg.DagsterInstance) -> Floor:
    stored_instance.wipe()
    made = Floor(tmp_path, stored_instance)
    for path, text in PAGES.items():
        made.write(path, text)
    return made


def tick(floor: Floor, circuit: str, at: datetime = AT) -> dg.RunRequest | str:
    """The run that a tick asks for, or why it skips."""
    schedule = floor.definitions.get_repository_def().get_schedule_def(circuit)
    with dg.build_schedule_context(
        instance=floor.instance,
        scheduled_execution_time=at,
        repository_def=floor.definitions.get_repository_def(),
    ) as context:
        found = schedule.evaluate_tick(context)
    if found.run_requests:
        (request,) = found.run_requests
        return request
    assert found.skip_message
    return found.skip_message


def launched(floor: Floor, circuit: str, at: datetime = AT) -> dg.ExecuteInProcessResult:
    """What comes of the run that a tick asks for."""
    request = tick(floor, circuit, at)
    assert isinstance(request, dg.RunRequest), request
    return floor.execute(
        job_name(BY_NAME[circuit]),
        run_config=dict(request.run_config),
        tags=dict(request.tags),
        partition_key=request.partition_key,
    )


def recorded(floor: Floor, circuit: str, status: str) -> str:
    """A run of a circuit over its sources as they are, recorded as being in `status` and not carried out."""
    job = job_name(BY_NAME[circuit])
    # A queued run must say where its code is.
    where = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="bib_orchestration.definitions"))
    repository = RemoteRepositoryOrigin(where, "__repository__")
    run = floor.instance.create_run_for_job(
        job_def=floor.definitions.get_repository_def().get_job(job),
        status=dg.DagsterRunStatus[status],
        tags={FINGERPRINT_TAG: circuit_fingerprint(BY_NAME[circuit], floor.settings)},
        remote_job_origin=RemoteJobOrigin(repository, job),
    )
    return run.run_id


@pytest.mark.parametrize(
    ("circuit", "first", "last", "full"),
    [
        ("wiki", "blog", "wiki", False),
        ("wiki_full", "blog", "wiki", True),
        ("chunks", "docs", "faq", False),
        ("product_docs", "docs", "faq", False),
        ("session_documents", "notas", "notas", False),
    ],
)
def test_the_first_tick_launches_over_exactly_the_sources_of_its_types(
    floor: Floor, circuit: str, first: str, last: str, full: bool
) -> None:
    more = '[[sources]]\nname = "{}"\npath = "{}"\nsource_type = "{}"\n'
    floor.reload(BIB_TOML + more.format("blog", "blog", "wiki") + more.format("faq", "faq", "docs"))
    request = tick(floor, circuit)
    assert isinstance(request, dg.RunRequest)
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == (first, last)
    ops = request.run_config["ops"]
    assert set(ops) == {"documents", "chunks", "chunk_index"} & set(BY_NAME[circuit].assets)
    assert {op["config"]["full"] for op in ops.values()} == {full}


def test_a_tick_that_launches_really_runs_and_the_next_skips_until_something_changes(floor: Floor) -> None:
    result = launched(floor, "wiki")
    assert result.success
    assert set(figures(result, "documents")) == {"wiki"}
    assert floor.indexed_paths() == ["vacaciones.md"]
    assert tick(floor, "wiki") == "nothing changed in wiki"

    floor.write("wiki/vacaciones.md", "# Vacaciones\n\nAhora se piden por correo.\n")
    again = launched(floor, "wiki")
    assert again.success
    assert figures(again, "documents")["wiki"]["changed"] == 1
    assert tick(floor, "wiki") == "nothing changed in wiki"
    # Other circuits have not run.
    assert isinstance(tick(floor, "chunks"), dg.RunRequest)


def test_the_full_circuit_never_skips(floor: Floor) -> None:
    assert launched(floor, "wiki_full").success
    assert isinstance(tick(floor, "wiki_full"), dg.RunRequest)


def test_a_source_that_has_vanished_launches_and_fails_where_people_look(floor: Floor) -> None:
    recorded(floor, "wiki", "SUCCESS")
    (floor.folder / "wiki").rename(floor.folder / "away")
    red = launched(floor, "wiki")
    assert not red.success
    assert "'wiki'" in "".join(failures(red).values())
    assert isinstance(tick(floor, "wiki"), dg.RunRequest)
    (floor.folder / "away").rename(floor.folder / "wiki")
    assert isinstance(tick(floor, "wiki"), dg.RunRequest)


@pytest.mark.parametrize("status", ["FAILURE", "CANCELED"])
def test_a_run_that_did_not_succeed_is_tried_again(floor: Floor, status: str) -> None:
    recorded(floor, "wiki", status)
    assert isinstance(tick(floor, "wiki"), dg.RunRequest)
    # Also when its sources have gone back to what the last run that succeeded saw: the failed one may have
    # written half of what it read, and the warehouse kept what no file said any more.
    recorded(floor, "wiki", "SUCCESS")
    assert tick(floor, "wiki") == "nothing changed in wiki"
    recorded(floor, "wiki", status)
    assert isinstance(tick(floor, "wiki"), dg.RunRequest)


@pytest.mark.parametrize(
    ("circuit", "statuses"), [("wiki", ACTIVE), ("wiki_full", ACTIVE[:1]), ("evaluation", ACTIVE[:1])]
)
def test_a_tick_skips_while_a_run_of_its_circuit_is_active(
    floor: Floor, circuit: str, statuses: tuple[str, ...]
) -> None:
    for status in statuses:
        run_id = recorded(floor, circuit, status)
        assert tick(floor, circuit) == f"run {run_id[:8]} of {circuit} is still active"
        assert isinstance(tick(floor, "session_documents"), dg.RunRequest)
        floor.instance.delete_run(run_id)
    assert isinstance(tick(floor, circuit), dg.RunRequest)


def test_the_fingerprint_follows_sources_settings_and_versions_and_nothing_else(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = BY_NAME["wiki"]
    seen = [circuit_fingerprint(wiki, floor.settings)]

    def changed() -> bool:
        seen.append(circuit_fingerprint(wiki, floor.settings))
        return seen[-1] not in seen[:-1]

    floor.write("docs/otra.md", "# Otra\n\nDe otro circuito.\n")
    floor.write("wiki/foto.png", b"no document")
    assert not changed()
    floor.write("wiki/otra.md", "# Otra\n")
    assert changed()
    floor.write("wiki/otra.md", "# otra\n")
    assert changed()
    floor.reload(BIB_TOML + "[chunks]\nmax_tokens = 300\n")
    assert changed()
    floor.reload(BIB_TOML.replace('path = "wiki"', 'path = "wiki"\nlanguage = "ca"'))
    assert changed()
    monkeypatch.setattr("bib_orchestration.schedules._versions", lambda: ("another",))
    assert changed()


# --- days


def day_tick(floor: Floor, *at: int) -> Any:
    return tick(floor, "evaluation", datetime(*at, tzinfo=MADRID))


def test_the_evaluation_is_of_yesterday_in_madrid(floor: Floor) -> None:
    request = day_tick(floor, 2025, 10, 4, 6, 0)
    assert request.partition_key == "2025-10-03"
    # The night on which the clocks go back is 25 hours long.
    assert day_tick(floor, 2025, 10, 27, 6, 0).partition_key == "2025-10-26"
    assert day_tick(floor, 2025, 10, 26, 6, 0).partition_key == "2025-10-25"


def test_a_day_before_the_first_is_skipped_and_says_which_setting_says_so(floor: Floor) -> None:
    said = day_tick(floor, 2025, 10, 1, 6, 0)
    assert said == "2025-09-30 is before evaluation.first_day (2025-10-01) of bib.toml"


def test_the_evaluation_that_a_tick_launches_runs_and_is_not_run_twice(floor: Floor) -> None:
    assert floor.materialise(["docs", "notas", "wiki"]).success
    result = launched(floor, "evaluation")
    assert result.success
    assert set(figures(result, "retrieval_ab")) == {"2025-10-03"}
    assert tick(floor, "evaluation") == "2025-10-03 is evaluated"
    assert day_tick(floor, 2025, 10, 5, 6, 0).partition_key == "2025-10-04"
