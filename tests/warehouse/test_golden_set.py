"""What the model golden_set.sql and golden_set.py promise: the newest unique questions up to a day's end."""

from __future__ import annotations

import json
import random
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.evaluation.golden_set import GoldenSet, golden_set, newest_questions, today
from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.biblioteca.warehouse.connection import Warehouse, insert_rows
from bib_orchestration.biblioteca.warehouse.schema import TABLES
from bib_orchestration.biblioteca.warehouse.sql_models import read_models
from bib_orchestration.biblioteca.warehouse.sql_tables import end_of_day, materialise

CASES = Path(__file__).parents[1] / "cases" / "upkeep.jsonl"
MODEL = read_models(MODELS_FOLDER)["golden_set"]
MADRID = "Europe/Madrid"
# White_Space of the Unicode Character Database.
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# The day on which clocks go back, and comes with 25 hours.
DAY = date(2026, 10, 25)
DAY_END = end_of_day(DAY, MADRID).astimezone(UTC)


@dataclass(frozen=True)
class Asked:
    """A row of `oraculo_queries`."""

    query_id: str
    ts: datetime
    question: str | None


def reference(rows: list[Asked], questions: int) -> list[tuple[str, str]]:
    """(query_id, question), newest first: what the model is to find, in plain Python."""
    newest: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row.ts, row.query_id.encode()), reverse=True):
        if row.question is None or row.ts >= DAY_END:
            continue
        text = unicodedata.normalize("NFC", row.question).strip(WHITE_SPACE)
        if len(text) > 8:
            newest.setdefault(text, row.query_id)
    return [(query_id, text) for text, query_id in newest.items()][:questions]


def put(warehouse: Warehouse, rows: list[Asked]) -> None:
    with warehouse.lock(), warehouse.transaction() as connection:
        connection.execute("DELETE FROM oraculo_queries")
        insert_rows(
            connection,
            "oraculo_queries",
            [{"query_id": row.query_id, "ts": row.ts, "question": row.question} for row in rows],
        )


def extract(warehouse: Warehouse, day: date = DAY, questions: int = 15) -> GoldenSet:
    """The golden set of a day, asked for in both ways, which must agree."""
    materialise(warehouse, MODEL, day=day, timezone=MADRID, values={"questions": questions})
    stored = golden_set(warehouse, day)
    assert stored == newest_questions(warehouse, MODEL, day, questions=questions, timezone=MADRID)
    return stored


def asked(*texts: str | None) -> list[Asked]:
    """Questions, the oldest first, one a minute."""
    start = datetime(2026, 10, 1, tzinfo=UTC)
    return [Asked(f"{n:03}", start + timedelta(minutes=n), text) for n, text in enumerate(texts)]


# --- the case


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return next(case for line in lines if (case := json.loads(line))["id"] == "H12-golden")


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_the_case_of_duplicates_short_null_and_blank_questions(warehouse, case, seed):
    rows = [
        Asked(f"{number:02}", datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC), row["question"])
        for number, row in enumerate(case["input"]["rows"])
    ]
    put(warehouse, rows)
    in_order = extract(warehouse, questions=case["input"]["limit"])
    if seed is not None:
        random.Random(seed).shuffle(rows)
        put(warehouse, rows)
    found = extract(warehouse, questions=case["input"]["limit"])

    assert list(found.questions) == case["expected"]["questions_newest_first"]
    assert (found == in_order) is case["expected"]["same_output_if_rows_are_shuffled"]


# --- its whole kind


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"{name} {kind}" for name, kind in TABLES["oraculo_queries"].items())
        connection.execute(f"CREATE TABLE oraculo_queries ({columns})")
        yield connection


def run(connection: duckdb.DuckDBPyConnection, rows: list[Asked], questions: int) -> list[tuple[Any, ...]]:
    connection.execute("DELETE FROM oraculo_queries")
    insert_rows(
        connection,
        "oraculo_queries",
        [{"query_id": row.query_id, "ts": row.ts, "question": row.question} for row in rows],
    )
    bound = {"day": DAY, "day_end": DAY_END, "questions": questions}
    return connection.execute(MODEL.sql, bound).fetchall()


# Few letters, so that questions are often the same, or only after normalisation.
WORDS = st.lists(
    st.sampled_from(["a", "e\u0301", "é", "¿", " ", "\xa0", "\u200b", "ñ", "n\u0303", "🙂", "\n"]),
    max_size=10,
).map("".join)
EDGES = st.text(st.sampled_from(WHITE_SPACE), max_size=2)
TEXTS = st.builds(
    lambda left, middle, right: left + middle + right,
    EDGES,
    WORDS
    | st.sampled_from(["12345678", "123456789", "¿Qué es VPN?", "¿Que\u0301 es VPN?", "\u0301 ¿Qué es"]),
    EDGES,
)
TIMES = st.sampled_from(
    [DAY_END + timedelta(microseconds=step) for step in (-1, 0, 1)]
    + [DAY_END - timedelta(hours=hours) for hours in (1, 2, 25, 26)]
    + [datetime(2020, 1, 1, tzinfo=UTC)]
)
ROWS = st.lists(st.tuples(TIMES, TEXTS | st.none()), max_size=12).flatmap(
    lambda pairs: st.permutations(range(len(pairs))).map(
        lambda ids: [Asked(f"{number:02}", *pair) for number, pair in zip(ids, pairs, strict=True)]
    )
)


@settings(max_examples=40)
@given(ROWS, st.integers(0, 4) | st.just(15), st.randoms(use_true_random=False))
@example([], 15, random.Random(0))
def test_it_is_the_newest_unique_questions_whatever_the_order_of_rows(connection, rows, questions, chance):
    found = run(connection, rows, questions)

    assert [(row[2], row[4]) for row in found] == reference(rows, questions)
    assert [row[1] for row in found] == list(range(1, len(found) + 1))
    assert {row[0] for row in found} <= {DAY}
    assert len({row[5] for row in found}) == min(len(found), 1)
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert run(connection, shuffled, questions) == found


@settings(max_examples=40)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cn", "Co"], exclude_characters="\0"), max_size=14),
    EDGES,
    EDGES,
)
def test_any_text_is_trimmed_composed_and_measured_as_unicode_says(connection, text, left, right):
    row = Asked("a", DAY_END - timedelta(days=1), left + text + right)

    assert [found[4] for found in run(connection, [row], 15)] == [text for _, text in reference([row], 15)]


@pytest.mark.parametrize("space", list(WHITE_SPACE), ids=lambda space: f"U+{ord(space):04X}")
def test_every_white_space_of_unicode_is_trimmed(connection, space):
    """A vertical tabulator and NEL used to count as characters of the question."""
    asked_at = DAY_END - timedelta(days=1)
    short = Asked("a", asked_at, f"{space}12345678{space}")
    long = Asked("b", asked_at, f"{space}1234{space}6789{space}")

    assert [row[4] for row in run(connection, [short, long], 15)] == [
        unicodedata.normalize("NFC", f"1234{space}6789")
    ]


def test_a_question_as_long_as_a_book_is_measured_quickly(connection):
    book = "x" + " \t\xa0" * 500_000 + "x"

    assert run(connection, [Asked("a", DAY_END - timedelta(days=1), book)], 15)[0][4] == book


# --- days


@pytest.mark.parametrize("day", [date(2026, 3, 28), date(2026, 3, 29), date(2026, 7, 1), date(2026, 10, 25)])
def test_a_day_ends_at_midnight_in_madrid(warehouse, day):
    end = end_of_day(day, MADRID)
    put(
        warehouse,
        [
            Asked("a", end - timedelta(microseconds=1), "en el último momento"),
            Asked("b", end, "ya es el día siguiente"),
        ],
    )

    assert extract(warehouse, day).questions == ("en el último momento",)
    assert extract(warehouse, day + timedelta(days=1)).questions == (
        "ya es el día siguiente",
        "en el último momento",
    )
    assert extract(warehouse, day - timedelta(days=1)) == GoldenSet(day - timedelta(days=1), (), None)


def test_a_day_that_is_past_stays_as_it_was(warehouse):
    put(warehouse, asked("la primera pregunta", "la segunda pregunta"))
    before = extract(warehouse)
    put(
        warehouse,
        [*asked("la primera pregunta", "la segunda pregunta"), Asked("z", DAY_END, "una de mañana")],
    )
    extract(warehouse, DAY + timedelta(days=1))

    assert extract(warehouse) == before


def test_without_questions_there_are_no_rows_and_without_a_run_no_table(warehouse):
    assert golden_set(warehouse, DAY) == GoldenSet(DAY, (), None)
    assert extract(warehouse) == GoldenSet(DAY, (), None)

    put(warehouse, asked(None, "", "corta", "   12345678   "))
    assert extract(warehouse) == GoldenSet(DAY, (), None)


def test_today_is_the_day_that_it_is_in_that_zone():
    assert today("Pacific/Kiritimati") - today("Pacific/Niue") in (timedelta(days=1), timedelta(days=2))


# --- the columns and the hash


def test_the_columns_are_those_of_the_contract(warehouse):
    extract(warehouse)
    with warehouse.read() as connection:
        described = {row[0]: row[1] for row in connection.sql("DESCRIBE golden_set").fetchall()}

    assert list(described) == ["day", "rank", "query_id", "ts", "question", "golden_hash"]
    assert (described["day"], described["ts"]) == ("DATE", "TIMESTAMP WITH TIME ZONE")


def test_the_hash_tells_whether_two_sets_are_the_same(warehouse):
    texts = ["la primera pregunta", "la segunda pregunta", "la tercera pregunta"]
    sets = [
        texts,
        texts[:2],
        texts[::-1],
        [*texts[:2], "la tercera pregunta?"],
        # One question of two lines is not two questions.
        ["\n".join(texts[1::-1])],
        ['la primera pregunta","la segunda pregunta'],
    ]
    hashes = []
    for each in sets:
        put(warehouse, asked(*each))
        hashes.append(extract(warehouse).golden_hash)
    assert len(set(hashes)) == len(sets)
    assert all(len(hash_) == 16 for hash_ in hashes)

    put(
        warehouse,
        [Asked(f"other {row.query_id}", row.ts - timedelta(days=9), row.question) for row in asked(*texts)],
    )
    assert extract(warehouse).golden_hash == hashes[0]
