"""What a backfill is asked for: words of the command line, checked against what there is, and cut into runs.

Nothing is run here: `backfill` runs a plan in this process, `queued_backfill` hands it to a running server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

import dagster as dg

from bib_orchestration.assets.sql_models import with_models
from bib_orchestration.biblioteca.settings import Settings, SettingsError
from bib_orchestration.biblioteca.warehouse.sql_models import SqlModel
from bib_orchestration.circuits import CORPUS, EVALUATION, ordered_sources
from bib_orchestration.partitions import day_partitions, source_partitions

ALL = "all"
SOURCE, DAY = "source", "day"
# The assets that partitions of a kind are meant for when none is named.
_STAGES = {SOURCE: CORPUS, DAY: EVALUATION}
_DAYS_WANTED = (
    "2026-10-01 or 2026-10-01..2026-10-31 is right; either end may be left open, commas join several, "
    "and 'all' is every day"
)

# Neighbouring partitions in order.
Range = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run: its assets, and the neighbouring partitions that those that have partitions are made for."""

    assets: tuple[str, ...]
    partitions: Range

    @property
    def label(self) -> str:
        """The partitions in short: "", "wiki" or "2026-10-01..2026-10-07"."""
        return range_label(self.partitions)


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """runs: in order; one needs what those before it made.
    ranges: for each asset, its ranges of partitions; () for one without partitions.
    kinds: for each asset, SOURCE, DAY or None.
    left_out: spans of the days asked for that are no partitions, and why.
    """

    runs: tuple[PlannedRun, ...]
    ranges: Mapping[str, tuple[Range, ...]]
    kinds: Mapping[str, str | None]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DayChoice:
    """Days in order, each once, and the spans asked for that hold no partition."""

    days: Range
    left_out: tuple[str, ...] = ()


def plan_backfill(
    settings: Settings,
    definitions: dg.Definitions,
    *,
    models: Mapping[str, SqlModel] | None = None,
    sources: str | None = None,
    days: str | None = None,
    assets: Sequence[str] | None = None,
) -> BackfillPlan:
    """The runs that materialise `assets` for `sources` and `days`, each as it is said on the command line.

    Without `assets`, those of a corpus are meant for sources, those of an evaluation for days, and the SQL
    `models` that follow from them. Raises SettingsError for a source, day or asset that there is not, and
    when an asset and the partitions asked for do not go together.
    """
    graph = definitions.resolve_asset_graph()
    kinds = _kinds(settings, definitions)
    choice = DayChoice(())
    asked: dict[str, tuple[Range, ...]] = {}
    if sources:
        names = [source.name for source in ordered_sources(settings)]
        asked[SOURCE] = neighbours(choose_sources(sources, names), names)
    if days:
        keys = day_partitions(settings).get_partition_keys()
        choice = choose_days(days, keys)
        asked[DAY] = neighbours(choice.days, keys)
    if assets is None:
        meant = {name for kind in asked for name in with_models(_STAGES[kind], models or {})}
        chosen = [name for name in kinds if name in meant]
    else:
        chosen = _choose_assets(assets, kinds, asked)
    ranges = {name: asked[kind] if (kind := kinds[name]) else () for name in chosen}
    ancestors = {
        name: {
            key.to_user_string() for key in graph.get_ancestor_asset_keys(dg.AssetKey.from_user_string(name))
        }
        for name in chosen
    }
    runs = tuple(_runs(list(_stages(chosen, kinds, ancestors)), ranges))
    return BackfillPlan(runs, ranges, {name: kinds[name] for name in chosen}, choice.left_out)


def plain_reason(message: str) -> str:
    """What an error says, without the name of a class of Dagster's or ours.

    >>> plain_reason("dagster._core.definitions.events.Failure: source 'docs': no such folder\\n")
    "source 'docs': no such folder"
    """
    return re.sub(r"\A(?:dagster|bib_orchestration)\.[\w.]+: ", "", message.strip())


def range_label(keys: Sequence[str]) -> str:
    """Neighbouring partitions in short: the first and the last."""
    if len(keys) < 2:
        return "".join(keys)
    return f"{keys[0]}..{keys[-1]}"


def neighbours(wanted: Iterable[str], keys: Sequence[str]) -> tuple[Range, ...]:
    """Those of `keys` that are wanted, as runs of neighbours.

    >>> neighbours({"a", "b", "d"}, ["a", "b", "c", "d"])
    (('a', 'b'), ('d',))
    """
    found = frozenset(wanted)
    groups = groupby(keys, key=lambda key: key in found)
    return tuple(tuple(group) for is_wanted, group in groups if is_wanted)


# --- words of the command line


def choose_sources(asked: str, names: Sequence[str]) -> Range:
    """The sources of "all", or of names joined by commas, in the order of `names`."""
    wanted = set(_items(asked, "--sources", f"'{ALL}', or names joined by commas, is right"))
    there = f"there are: {', '.join([ALL, *names])}" if names else "bib.toml has no sources yet"
    for name in sorted(wanted):
        if name not in names and name != ALL:
            raise SettingsError(f"--sources: no source {name!r}; {there}")
    if not names:
        raise SettingsError(f"--sources: {there}")
    # A source may be called "all"; then it takes the others with it.
    return tuple(name for name in names if ALL in wanted or name in wanted)


def choose_days(asked: str, keys: Sequence[str]) -> DayChoice:
    """The days of "all", of days, and of ranges with one end or two, joined by commas.

    `keys` are the days that there are, in order and without a gap. Of what lies outside them, open ends are
    no fault, days that were named are noted, and nothing else left is an error.

    >>> choose_days("2026-10-03.., 2026-10-01", ["2026-10-01", "2026-10-02", "2026-10-03", "2026-10-04"]).days
    ('2026-10-01', '2026-10-03', '2026-10-04')
    """
    spans = [_span(item, asked) for item in _items(asked, "--days", _DAYS_WANTED)]
    if not keys:
        raise SettingsError(
            f"--days: no day in {asked}; there are none yet (evaluation.first_day to yesterday)"
        )
    first, last = date.fromisoformat(keys[0]), date.fromisoformat(keys[-1])
    chosen: set[str] = set()
    before, after = [], []
    for start, end in spans:
        chosen.update(_days(max(start or first, first), min(end or last, last)))
        if start and start < first:
            before.append((start, min(end or date.max, first - timedelta(1))))
        elif end and end < first:
            before.append((end, end))
        if end and end > last:
            after.append((max(start or date.min, last + timedelta(1)), end))
        elif start and start > last:
            after.append((start, start))
    if not chosen:
        raise SettingsError(
            f"--days: no day in {asked}; there are {keys[0]} to {keys[-1]} "
            "(evaluation.first_day to yesterday)"
        )
    left_out = [f"{span} (before evaluation.first_day, {first})" for span in _said(before)]
    left_out += [
        f"{span} (after yesterday, {last}; a day is a partition once it is over)" for span in _said(after)
    ]
    return DayChoice(tuple(sorted(chosen)), tuple(left_out))


def _items(asked: str, option: str, wanted: str) -> list[str]:
    items = [item.strip() for item in asked.split(",")]
    if not all(items):
        raise SettingsError(f"{option}: {asked!r}; {wanted}")
    return items


def _span(item: str, asked: str) -> tuple[date | None, date | None]:
    """The first and last day of an item; None where it is open."""
    if item == ALL:
        return None, None
    first, dots, last = (part.strip() for part in item.partition(".."))
    try:
        start = date.fromisoformat(first) if first else None
        end = date.fromisoformat(last) if last else None
    except ValueError:
        raise SettingsError(f"--days: {item!r}; {_DAYS_WANTED}") from None
    if not dots:
        return start, start
    if start is None and end is None:
        raise SettingsError(f"--days: {item!r}; {_DAYS_WANTED}")
    if start and end and start > end:
        raise SettingsError(f"--days: no day in {item}: it is reversed; {end}..{start} is right")
    return start, end


def _days(start: date, end: date) -> Iterator[str]:
    for offset in range((end - start).days + 1):
        yield (start + timedelta(offset)).isoformat()


def _said(spans: Iterable[tuple[date, date]]) -> Iterator[str]:
    """Spans of days in order, those that touch joined."""
    joined: list[tuple[date, date]] = []
    for start, end in sorted(spans):
        if joined and start.toordinal() <= joined[-1][1].toordinal() + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    for start, end in joined:
        yield str(start) if start == end else f"{start}..{end}"


# --- assets


def _kinds(settings: Settings, definitions: dg.Definitions) -> dict[str, str | None]:
    """The kind of partition of each asset that can be made, each asset after those that it needs."""
    kind_of: dict[dg.PartitionsDefinition | None, str | None] = {
        None: None,
        source_partitions(settings): SOURCE,
        day_partitions(settings): DAY,
    }
    graph = definitions.resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.toposorted_asset_keys]
    return {
        node.key.to_user_string(): kind_of[node.partitions_def] for node in nodes if node.is_materializable
    }


def _choose_assets(
    asked: Sequence[str], kinds: Mapping[str, str | None], ranges: Mapping[str, tuple[Range, ...]]
) -> list[str]:
    """The assets asked for, each after those that it needs."""
    wanted = sorted({name.strip() for name in asked})
    for name in wanted:
        if name not in kinds:
            # Those that a backfill makes unless it is told otherwise come first.
            listed = dict.fromkeys([*CORPUS, *EVALUATION, *sorted(kinds)])
            there = ", ".join(name for name in listed if name in kinds)
            raise SettingsError(f"--assets: no asset {name!r}; there are: {there}")
    options = {SOURCE: "--sources", DAY: "--days"}
    for name in wanted:
        kind = kinds[name]
        if kind and kind not in ranges:
            raise SettingsError(
                f"--assets: {name}: a partition for each {kind}; say which with {options[kind]}"
            )
    for kind in ranges:
        if not any(kinds[name] == kind for name in wanted):
            there = ", ".join(name for name in kinds if kinds[name] == kind)
            raise SettingsError(
                f"{options[kind]}: none of the assets named has a partition for each {kind}; "
                f"those that have: {there}"
            )
    return [name for name in kinds if name in wanted]


# --- runs


def _stages(
    assets: Sequence[str], kinds: Mapping[str, str | None], ancestors: Mapping[str, set[str]]
) -> Iterator[tuple[str | None, list[str]]]:
    """Assets of one kind at a time, as many as can be made together; each after all that it needs."""
    left = list(assets)
    while left:
        for kind in (SOURCE, None, DAY):
            stage: list[str] = []
            for name in left:
                waits_for = ancestors[name] & (set(left) - set(stage))
                if kinds[name] == kind and not waits_for:
                    stage.append(name)
            left = [name for name in left if name not in stage]
            if stage:
                yield kind, stage


def _runs(
    stages: Sequence[tuple[str | None, list[str]]], ranges: Mapping[str, tuple[Range, ...]]
) -> Iterator[PlannedRun]:
    """A run for each range of a stage. Assets without partitions are made once: in the run of the stage
    before or after them, when that is one run alone, or else in one of their own."""
    runs: list[PlannedRun] = []
    waiting: tuple[str, ...] = ()
    alone = False
    for kind, stage in stages:
        if kind is None:
            if alone:
                runs[-1] = PlannedRun((*runs[-1].assets, *stage), runs[-1].partitions)
            else:
                waiting += tuple(stage)
            continue
        listed = ranges[stage[0]]
        alone = len(listed) == 1
        if waiting and not alone:
            runs.append(PlannedRun(waiting, ()))
            waiting = ()
        runs += [PlannedRun((*waiting, *stage), each) for each in listed]
        waiting = ()
    if waiting:
        runs.append(PlannedRun(waiting, ()))
    yield from runs
