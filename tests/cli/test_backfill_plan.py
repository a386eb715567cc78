"""What `bib backfill` makes of `--sources`, `--days` and `--assets`: which partitions, in which runs."""

from __future__ import annotations

import re
from datetime import date, timedelta
from itertools import pairwise

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.backfill_plan import (
    BackfillPlan,
    PlannedRun,
    choose_days,
    choose_sources,
    neighbours,
    plan_backfill,
)
from bib_orchestration.biblioteca.settings import Settings, SettingsError, load_settings
from bib_orchestration.build import build_definitions
from bib_orchestration.partitions import day_partitions, source_partitions

FIRST, LAST = date(2026, 10, 5), date(2026, 10, 20)
KEYS = [(FIRST + timedelta(n)).isoformat() for n in range((LAST - FIRST).days + 1)]

DAYS = st.dates(FIRST - timedelta(20), LAST + timedelta(20))


@st.composite
def items(draw: st.DrawFn) -> tuple[str, set[date], bool]:
    """An item of `--days`, the days that it means, and whether it names each end."""
    day, other = sorted((draw(DAYS), draw(DAYS)))
    every = [FIRST - timedelta(40) + timedelta(n) for n in range(120)]
    return draw(
        st.sampled_from(
            [
                (f"{day}", {day}, True),
                (f"{day}..{other}", {each for each in every if day <= each <= other}, True),
                (f" {day} .. ", {each for each in every if each >= day}, False),
                (f"..{other}", {each for each in every if each <= other}, False),
                ("all", set(every), False),
            ]
        )
    )


@given(st.lists(items(), min_size=1, max_size=6))
def test_days_are_the_union_of_what_was_asked_for_each_once_and_in_order(
    asked: list[tuple[str, set[date], bool]],
) -> None:
    text = ",".join(item for item, _, _ in asked)
    meant = set().union(*(days for _, days, _ in asked))
    inside = [key for key in KEYS if date.fromisoformat(key) in meant]
    if not inside:
        with pytest.raises(SettingsError, match=r"no day in .*; there are 2026-10-05 to 2026-10-20"):
            choose_days(text, KEYS)
        return
    choice = choose_days(text, KEYS)
    assert list(choice.days) == inside
    # What was named and is no partition is noted, day by day; an open end is no name.
    said = {
        date.fromisoformat(start) + timedelta(n)
        for span in choice.left_out
        for start, _, end in [re.match(r"([\d-]+)(\.\.)?([\d-]*) \(", span).groups()]  # type: ignore[union-attr]
        for n in range((date.fromisoformat(end or start) - date.fromisoformat(start)).days + 1)
    }
    named = set().union(*(days for _, days, names in asked if names))
    outside = {day for day in named if not FIRST <= day <= LAST}
    assert outside <= said
    assert not said & {date.fromisoformat(key) for key in KEYS}
    assert said <= {day for day in meant if not FIRST <= day <= LAST}


def test_days_left_out_are_told_as_spans_with_the_reason() -> None:
    choice = choose_days("2026-10-01..2026-10-06,2026-10-03,2026-10-20..2026-10-22,2026-12-01", KEYS)
    assert choice.days == ("2026-10-05", "2026-10-06", "2026-10-20")
    assert choice.left_out == (
        "2026-10-01..2026-10-04 (before evaluation.first_day, 2026-10-05)",
        "2026-10-21..2026-10-22 (after yesterday, 2026-10-20; a day is a partition once it is over)",
        "2026-12-01 (after yesterday, 2026-10-20; a day is a partition once it is over)",
    )
    assert choose_days("..2026-10-06", KEYS).left_out == ()
    assert choose_days("2026-10-06..", KEYS).left_out == ()
    assert choose_days("all", KEYS).days == tuple(KEYS)


def test_a_range_of_ten_thousand_years_takes_no_time() -> None:
    assert choose_days("0001-01-01..9999-12-31", KEYS).days == tuple(KEYS)


@pytest.mark.parametrize(
    ("asked", "said"),
    {
        "yesterday": "'yesterday'; 2026-10-01 or 2026-10-01..2026-10-31 is right",
        "2026-13-01": "'2026-13-01'; 2026-10-01 or",
        "2026-10-06,": "'2026-10-06,'; 2026-10-01 or",
        "..": "'..'; 2026-10-01 or",
        # Three dots are Dagster's; one cannot guess which end a third dot belongs to.
        "2026-10-06...2026-10-07": r"'2026-10-06\.\.\.2026-10-07'; 2026-10-01 or",
        "2026-10-05, 2026-10-09..2026-10-06": (
            r"2026-10-09\.\.2026-10-06: it is reversed; 2026-10-06\.\.2026-10-09 is right"
        ),
        "2026-10-21": r"no day in 2026-10-21; there are 2026-10-05 to 2026-10-20 \(evaluation.first_day to",
    }.items(),
)
def test_days_that_are_asked_for_wrongly(asked: str, said: str) -> None:
    with pytest.raises(SettingsError, match=f"^--days: .*{said}"):
        choose_days(asked, KEYS)


def test_before_the_first_day_is_over_there_are_none_yet() -> None:
    with pytest.raises(SettingsError, match="there are none yet"):
        choose_days("all", [])


def test_sources_are_in_the_order_of_their_partitions_each_once() -> None:
    names = ["docs", "metodo", "wiki"]
    assert choose_sources("wiki, docs,wiki", names) == ("docs", "wiki")
    assert choose_sources("all", names) == choose_sources("wiki,all", names) == tuple(names)
    with pytest.raises(SettingsError, match="no source 'wikki'; there are: all, docs, metodo, wiki"):
        choose_sources("wikki", names)
    with pytest.raises(SettingsError, match="names joined by commas, is right"):
        choose_sources("wiki,,docs", names)
    with pytest.raises(SettingsError, match=r"bib\.toml has no sources yet"):
        choose_sources("all", [])


@given(st.lists(st.booleans(), max_size=12))
def test_neighbours_go_together_and_gaps_part_them(wanted: list[bool]) -> None:
    keys = [f"{n:02}" for n in range(len(wanted))]
    chosen = [key for key, want in zip(keys, wanted, strict=True) if want]
    ranges = neighbours(chosen, keys)
    assert [key for each in ranges for key in each] == chosen
    for each in ranges:
        assert list(each) == [f"{n:02}" for n in range(int(each[0]), int(each[-1]) + 1)]
    for one, other in pairwise(ranges):
        assert int(other[0]) > int(one[-1]) + 1


# --- runs


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    config = tmp_path_factory.mktemp("plan") / "bib.toml"
    sources = "".join(f'[[sources]]\nname = "{name}"\npath = "."\n' for name in "abcde")
    config.write_text(f"[evaluation]\nfirst_day = 2025-10-01\n{sources}", encoding="utf-8")
    return load_settings(config, environ={"BIB_HOME": str(config.parent / "home")}, missing_sources="keep")


@pytest.fixture(scope="module")
def definitions(settings: Settings) -> dg.Definitions:
    return build_definitions(settings)


def runs(plan: BackfillPlan) -> list[tuple[str, str]]:
    return [(" ".join(run.assets), run.label) for run in plan.runs]


def test_one_range_is_one_run_with_what_has_no_partitions(
    settings: Settings, definitions: dg.Definitions
) -> None:
    (run,) = plan_backfill(settings, definitions, sources="all").runs
    assert sorted(run.assets) == ["chunk_index", "chunks", "documents", "unique_chunks"]
    assert run.partitions == ("a", "b", "c", "d", "e")
    (run,) = plan_backfill(settings, definitions, days="2025-10-01..2025-10-03").runs
    assert sorted(run.assets) == ["golden_set", "oraculo_queries", "retrieval_ab"]
    assert run.label == "2025-10-01..2025-10-03"


def test_gaps_make_more_runs_and_what_has_no_partitions_is_made_once(
    settings: Settings, definitions: dg.Definitions
) -> None:
    plan = plan_backfill(settings, definitions, sources="e,a,c,d")
    assert runs(plan) == [
        ("documents chunks", "a"),
        ("documents chunks", "c..e"),
        ("unique_chunks chunk_index", ""),
    ]
    plan = plan_backfill(settings, definitions, days="2025-10-05,2025-10-01..2025-10-02")
    assert runs(plan) == [
        ("oraculo_queries", ""),
        ("golden_set retrieval_ab", "2025-10-01..2025-10-02"),
        ("golden_set retrieval_ab", "2025-10-05"),
    ]


def test_both_kinds_together_are_made_in_the_order_in_which_they_need_each_other(
    settings: Settings, definitions: dg.Definitions
) -> None:
    plan = plan_backfill(settings, definitions, sources="a,c", days="2025-10-01")
    *by_source, last = plan.runs
    assert [(run.assets, run.label) for run in by_source] == [
        (("documents", "chunks"), "a"),
        (("documents", "chunks"), "c"),
    ]
    assert sorted(last.assets) == [
        "chunk_index",
        "golden_set",
        "oraculo_queries",
        "retrieval_ab",
        "unique_chunks",
    ]
    assert last.assets.index("chunk_index") < last.assets.index("retrieval_ab")
    assert last.label == "2025-10-01"


def test_any_asset_of_the_definitions_may_be_named(settings: Settings) -> None:
    """Models of one's own among them: by day between others, or without partitions."""

    @dg.asset(partitions_def=source_partitions(settings))
    def documents() -> None: ...

    @dg.asset(deps=[documents])
    def totals() -> None: ...

    @dg.asset(deps=[totals], partitions_def=day_partitions(settings))
    def by_day() -> None: ...

    @dg.asset(deps=[by_day])
    def report() -> None: ...

    @dg.asset(deps=[report], partitions_def=day_partitions(settings))
    def by_day_again() -> None: ...

    definitions = dg.Definitions(assets=[documents, totals, by_day, report, by_day_again])
    plan = plan_backfill(
        settings,
        definitions,
        sources="a",
        days="2025-10-01,2025-10-03",
        assets=["by_day_again", "report", " by_day", "totals", "documents"],
    )
    days = ("2025-10-01",), ("2025-10-03",)
    assert plan.runs == (
        PlannedRun(("documents", "totals"), ("a",)),
        *(PlannedRun(("by_day",), day) for day in days),
        PlannedRun(("report",), ()),
        *(PlannedRun(("by_day_again",), day) for day in days),
    )
    assert plan.ranges["report"] == ()
    assert plan.ranges["by_day"] == days
    assert plan_backfill(settings, definitions, assets=["totals", "report"]).runs == (
        PlannedRun(("totals", "report"), ()),
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"assets": ["documents"]}, "--assets: documents: a partition for each source; .* --sources"),
        (
            {"sources": "all", "assets": ["golden_set"]},
            "--assets: golden_set: a partition for each day; .* --days",
        ),
        (
            {"sources": "all", "assets": ["unique_chunks"]},
            "--sources: none of the assets named .*: documents, chunks",
        ),
        ({"sources": "all", "assets": ["chonks"]}, "no asset 'chonks'; there are: documents, chunks, unique"),
        ({"sources": "all", "assets": [""]}, "no asset ''; there are"),
    ],
)
def test_assets_and_partitions_that_do_not_go_together(
    settings: Settings, definitions: dg.Definitions, asked: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        plan_backfill(settings, definitions, **asked)  # type: ignore[arg-type]
