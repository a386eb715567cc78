"""The table of circuits: each of the contract's is there with its rhythm, and fires once on each day it is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from dagster._utils.schedules import schedule_execution_time_iterator

from bib_orchestration.biblioteca.settings import Settings, SettingsError, check_cron
from bib_orchestration.circuits import (
    CIRCUITS,
    OWN_CIRCUIT,
    Circuit,
    check_names,
    circuit_sources,
    cron_of,
    ordered_sources,
    runs_anything,
)
from bib_orchestration.schedules import build_schedules

MADRID = ZoneInfo("Europe/Madrid")
FIRST, AFTER = date(2026, 1, 1), date(2027, 1, 1)
CLOCKS_CHANGE = (date(2026, 3, 29), date(2026, 10, 25))
MON, TUE, WED, THU, FRI, SAT, SUN = range(7)
DAILY = {MON, TUE, WED, THU, FRI, SAT, SUN}

# The contract's rhythms: minutes between ticks, or the days of the week with one tick each.
RHYTHMS: dict[str, int | set[int]] = {
    "python_ast": 10,
    "openapi": 60,
    "product_docs": 60,
    "communities": DAILY,
    "typescript_ast": {MON, THU},
    "session_documents": DAILY,
    "method_documents": {MON, THU},
    "chunks": DAILY,
    "wiki": DAILY - {SUN},
    "wiki_full": {SUN},
    "wiki_lint": DAILY,
    "curator": {MON, THU},
    "utility": {MON, WED, FRI},
    "drift": DAILY,
    "heartbeat": 30,
}
BY_NAME = {circuit.name: circuit for circuit in CIRCUITS}
BY_DAY = [circuit for circuit in CIRCUITS if isinstance(RHYTHMS.get(circuit.name, DAILY), set)]
ON_COMMIT = ("ingest", "site")


def by_cronsim(cron: str) -> Iterator[datetime]:
    return CronSim(cron, datetime(2026, 1, 1, tzinfo=MADRID) - timedelta(minutes=1))


def by_dagster(cron: str) -> Iterator[datetime]:
    start = datetime(2026, 1, 1, tzinfo=MADRID).timestamp()
    return schedule_execution_time_iterator(start, cron, "Europe/Madrid", ascending=True)


def ticks_of_2026(iterator: Iterator[datetime]) -> list[datetime]:
    return list(takewhile(lambda tick: tick.date() < AFTER, (tick.astimezone(MADRID) for tick in iterator)))


def test_every_circuit_of_the_contract_is_in_the_table() -> None:
    assert set(RHYTHMS) | set(ON_COMMIT) <= set(BY_NAME)
    assert len(BY_NAME) == len(CIRCUITS)


@pytest.mark.parametrize(
    "name",
    ["product_docs", "session_documents", "method_documents", "chunks", "wiki", "wiki_full", "evaluation"],
)
def test_circuits_over_markdown_and_questions_are_built(name: str) -> None:
    assert BY_NAME[name].built


@pytest.mark.parametrize("iterator", [by_cronsim, by_dagster])
@pytest.mark.parametrize(
    "circuit", [c for c in BY_DAY if c.name not in ON_COMMIT], ids=lambda circuit: circuit.name
)
def test_one_tick_on_each_day_that_is_due_and_none_between_two_and_three(
    circuit: Circuit, iterator: Callable[[str], Iterator[datetime]]
) -> None:
    due = RHYTHMS.get(circuit.name, DAILY)
    assert isinstance(due, set)
    days = [FIRST + timedelta(days=number) for number in range((AFTER - FIRST).days)]
    ticks = ticks_of_2026(iterator(circuit.cron))
    # Both days on which the clocks change are among them.
    assert Counter(tick.date() for tick in ticks) == {day: 1 for day in days if day.weekday() in due}
    assert {tick.hour for tick in ticks}.isdisjoint({2})
    assert len({(tick.hour, tick.minute) for tick in ticks}) == 1


def test_the_clocks_do_change_on_the_days_that_are_meant() -> None:
    for day in CLOCKS_CHANGE:
        midnight = datetime(day.year, day.month, day.day, tzinfo=MADRID)
        assert midnight.utcoffset() != (midnight + timedelta(hours=12)).utcoffset()
        assert day.weekday() == SUN


@pytest.mark.parametrize("name", [name for name, rhythm in RHYTHMS.items() if isinstance(rhythm, int)])
def test_rhythms_of_minutes(name: str) -> None:
    rhythm = RHYTHMS[name]
    assert isinstance(rhythm, int)
    one_day = list(takewhile(lambda tick: tick.date() == FIRST, by_cronsim(BY_NAME[name].cron)))
    assert len(one_day) == 24 * 60 // rhythm
    assert {later - earlier for earlier, later in pairwise(one_day)} == {timedelta(minutes=rhythm)}


def test_times_of_the_table_pass_the_check_that_a_persons_do() -> None:
    for circuit in CIRCUITS:
        check_cron(circuit.name, circuit.cron)


def test_circuits_over_the_wiki_and_the_index_do_not_start_at_the_same_minute() -> None:
    built = [circuit for circuit in CIRCUITS if "chunk_index" in circuit.assets]
    starts = [
        (circuit.cron.split()[1], circuit.cron.split()[0], circuit.cron.split()[4]) for circuit in built
    ]
    assert len(set(starts)) == len(starts)


# --- which sources

SourcesToml = Callable[..., Settings]


@pytest.fixture
def of_types(make_settings: Callable[[str], Settings]) -> SourcesToml:
    """Settings with a source of each type given, in that order, named after it."""

    def make(*types: str) -> Settings:
        return make_settings(
            "".join(
                f'[[sources]]\nname = "{kind}"\npath = "{kind}"\nsource_type = "{kind}"\n\n' for kind in types
            )
        )

    return make


def test_each_source_is_indexed_by_exactly_one_circuit_and_in_full_only_beside_it(
    of_types: SourcesToml,
) -> None:
    settings = of_types("wiki", "docs", "session", "method", "code", "tickets")
    for source in settings.sources:
        covering = [
            circuit
            for circuit in CIRCUITS
            if "chunk_index" in circuit.assets and source in circuit_sources(circuit, settings)
        ]
        assert len([circuit for circuit in covering if not circuit.full]) == 1, source.name
        days = [RHYTHMS[circuit.name] for circuit in covering]
        if source.source_type != "method":
            # Every day, once: the wiki's on Sundays is the full one.
            assert Counter(day for due in days if isinstance(due, set) for day in due) == dict.fromkeys(
                DAILY, 1
            )


def test_a_type_of_source_that_is_new_is_left_to_the_circuit_of_all_others(of_types: SourcesToml) -> None:
    settings = of_types("tickets", "wiki")
    assert [source.name for source in circuit_sources(BY_NAME["chunks"], settings)] == ["tickets"]
    assert [source.name for source in circuit_sources(BY_NAME["product_docs"], settings)] == ["tickets"]
    assert set(OWN_CIRCUIT) == {kind for circuit in CIRCUITS for kind in circuit.source_types}


def test_the_sources_of_a_circuit_are_neighbours_or_a_range_of_partitions_would_hold_others(
    of_types: SourcesToml,
) -> None:
    settings = of_types("docs", "method", "session", "tickets", "wiki", "zeta")
    names = [source.name for source in ordered_sources(settings)]
    for circuit in CIRCUITS:
        if sources := circuit_sources(circuit, settings):
            first, last = names.index(sources[0].name), names.index(sources[-1].name)
            assert names[first : last + 1] == [source.name for source in sources], circuit.name


def test_a_circuit_without_sources_runs_nothing_and_has_no_schedule(of_types: SourcesToml) -> None:
    settings = of_types("wiki")
    scheduled = {schedule.name for schedule in build_schedules(settings, {})}
    assert scheduled == {"wiki", "wiki_full", "evaluation"}
    assert scheduled == {circuit.name for circuit in CIRCUITS if runs_anything(circuit, settings)}


# --- what bib.toml may say of them


def test_bib_toml_sets_times_and_turns_all_on(make_settings: Callable[[str], Settings]) -> None:
    toml = '[[sources]]\nname = "wiki"\npath = "wiki"\nsource_type = "wiki"\n'
    settings = make_settings(
        toml + '[schedules]\nenabled = true\ntimezone = "Atlantic/Canary"\ncron.wiki = "15 5 * * *"\n'
    )
    schedules = {schedule.name: schedule for schedule in build_schedules(settings, {})}
    assert schedules["wiki"].cron_schedule == cron_of(BY_NAME["wiki"], settings) == "15 5 * * *"
    assert schedules["wiki_full"].cron_schedule == BY_NAME["wiki_full"].cron
    assert {schedule.execution_timezone for schedule in schedules.values()} == {"Atlantic/Canary"}
    assert {schedule.default_status.value for schedule in schedules.values()} == {"RUNNING"}


def test_a_time_of_a_circuit_that_does_not_exist(make_settings: Callable[[str], Settings]) -> None:
    toml = '[[sources]]\nname = "wiki"\npath = "wiki"\n[schedules.cron]\nwikki = "15 5 * * *"\n'
    settings = make_settings(toml)
    for check in (check_names, lambda settings: build_schedules(settings, {})):
        with pytest.raises(SettingsError) as refused:
            check(settings)
        message = str(refused.value)
        assert message.startswith(f"{settings.config}: schedules.cron.wikki: no such circuit")
        assert "wiki_full" in message
