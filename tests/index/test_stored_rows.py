"""What rows promise: they come back as they were written, in one atomic write, and are known when broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import DIMENSION, CountingEmbedder
from hypothesis import given
from hypothesis import strategies as st

from bib_orchestration.biblioteca.index import stored_rows
from bib_orchestration.biblioteca.index.corpus_contents import WantedRow
from bib_orchestration.biblioteca.index.generations import IndexStore
from bib_orchestration.biblioteca.index.sentence_vectors import (
    Content,
    Embedded,
    embed_contents,
    from_bytes,
    to_bytes,
)

OCCURRENCES = (("wiki",), ("wiki",), ("",), ("a",), ("a.md",))


def wanted(number: int, text: str = "Uno. Dos.", **changes: Any) -> WantedRow:
    content = Content(f"{number:032x}", "Título", "Título > Parte", text)
    return replace(WantedRow(content, f"hash of {text}", 3, "es", OCCURRENCES), **changes)


def embedded(row: WantedRow) -> Embedded:
    return embed_contents(CountingEmbedder(), [row.content])[0][0]


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [stored_rows.row(wanted(number), embedded(wanted(number))) for number in numbers]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return stored_rows.create(IndexStore(str(tmp_path)), "chunks__x", DIMENSION)


def ids(table: Any) -> list[int]:
    return sorted(int(key, 16) for key in table.to_arrow()["content_id"].to_pylist())


class TestMerge:
    def test_inserts_replaces_and_deletes_in_one_version(self, table: Any) -> None:
        stored_rows.merge(table, rows(1, 2, 3), [], DIMENSION)
        version = table.version
        other = stored_rows.row(wanted(2, text="Otro."), embedded(wanted(2, text="Otro.")))
        stored_rows.merge(table, [*rows(4), other], [f"{3:032x}", f"{9:032x}"], DIMENSION)
        assert table.version == version + 1
        assert ids(table) == [1, 2, 4]
        assert table.count_rows("text = 'Otro.'") == 1

    def test_nothing_to_do_writes_nothing(self, table: Any) -> None:
        version = table.version
        stored_rows.merge(table, [], [], DIMENSION)
        assert table.version == version

    def test_deletes_alone(self, table: Any) -> None:
        stored_rows.merge(table, rows(1, 2), [], DIMENSION)
        stored_rows.merge(table, [], [f"{1:032x}"], DIMENSION)
        assert ids(table) == [2]

    def test_only_what_is_named_goes(self, table: Any) -> None:
        """An empty batch with delete-by-source would wipe all."""
        stored_rows.merge(table, rows(1, 2, 3), [], DIMENSION)
        stored_rows.merge(table, rows(5), [], DIMENSION)
        assert ids(table) == [1, 2, 3, 5]

    def test_ids_beyond_one_filter(self, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stored_rows, "_IDS_A_FILTER", 2)
        stored_rows.merge(table, rows(*range(7)), [], DIMENSION)
        keys = [f"{number:032x}" for number in (6, 5, 3, 1, 0, 99)]
        assert list(stored_rows.fetch(table, keys, DIMENSION)) == sorted(keys)[:-1]
        many = [f"{number:032x}" for number in range(2, 20_000)]
        stored_rows.merge(table, rows(30_000), many, DIMENSION)
        assert ids(table) == [0, 1, 30_000]


class TestRoundTrip:
    def test_vectors_come_back_bit_by_bit(self, table: Any) -> None:
        texts = ["Uno. Dos.", "- a\n- b\n", "x", "🦆 Pato. Ñandú."]
        made = {number: wanted(number, text=text) for number, text in enumerate(texts)}
        vectors = {row.content.content_id: embedded(row) for row in made.values()}
        batch = [stored_rows.row(row, vectors[row.content.content_id]) for row in made.values()]
        stored_rows.merge(table, batch, [], DIMENSION)
        found = stored_rows.fetch(table, list(vectors), DIMENSION)
        assert list(found) == sorted(vectors)
        for key, back in found.items():
            assert np.array_equal(back.vector, vectors[key].vector)
            assert back.spans == vectors[key].spans
            assert np.array_equal(back.sentence_vectors, vectors[key].sentence_vectors)
            assert stored_rows.fits(back, made[int(key, 16)])
        by_key = {row.content.content_id: row for row in made.values()}
        assert stored_rows.verify(table, by_key, DIMENSION) == (set(), set())
        assert {
            key for key, row in stored_rows.read(table).items() if stored_rows.differs(row, by_key[key])
        } == set()

    @given(
        sentences=st.integers(0, 5),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_half_precision_is_off_by_less_than_a_thousandth(self, sentences: int, seed: int) -> None:
        vectors = np.random.default_rng(seed).normal(size=(sentences, 64)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        back = from_bytes(to_bytes(vectors.astype(np.float16)), 64)
        assert back.shape == vectors.shape
        assert back.dtype == np.float32
        assert np.allclose(back @ vectors.T, vectors @ vectors.T, atol=1e-3)

    @pytest.mark.parametrize(
        "change",
        [
            {"text_hash": "other"},
            {"language": "en"},
            {"occurrences": (("docs",), *OCCURRENCES[1:])},
            {"occurrences": tuple(place * 2 for place in OCCURRENCES)},
            {"content": Content(f"{1:032x}", "Otro", "Título > Parte", "Uno. Dos.")},
            {"content": Content(f"{1:032x}", "Título", "Título", "Uno. Dos.")},
        ],
    )
    def test_any_difference_is_seen(self, table: Any, change: dict[str, Any]) -> None:
        stored_rows.merge(table, rows(1), [], DIMENSION)
        (stored,) = stored_rows.read(table).values()
        assert not stored_rows.differs(stored, wanted(1))
        assert stored_rows.differs(stored, wanted(1, **change))

    def test_an_empty_table_is_read_and_verified(self, table: Any) -> None:
        assert stored_rows.read(table) == {}
        assert stored_rows.fetch(table, ["a"], DIMENSION) == {}
        assert stored_rows.verify(table, {}, DIMENSION) == (set(), set())


HALF_ONE = np.array([1, *[0] * (DIMENSION - 1)], "<f2").tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"vector": np.full(DIMENSION, 0.25, np.float32)},
        {"vector": np.zeros(DIMENSION, np.float32)},
        {"sentence_vectors": b""},
        {"sentence_vectors": None},
        {"sentence_vectors": b"abc"},
        {"sentence_vectors": HALF_ONE},
        {"sentence_vectors": HALF_ONE * 3},
        {"sentence_vectors": HALF_ONE + bytes(2 * DIMENSION)},
        {"sentence_vectors": HALF_ONE + b"\xff" * (2 * DIMENSION)},
        {"sentence_starts": None},
        {"sentence_starts": [], "sentence_ends": [], "sentence_vectors": HALF_ONE},
        {"sentence_starts": None, "sentence_ends": None},
        {"sentence_ends": [3]},
    ],
)
def test_what_cannot_be_right_is_known_and_never_fetched(table: Any, change: dict[str, Any]) -> None:
    broken, sound = rows(1, 2)
    stored_rows.merge(table, [{**broken, **change}, sound], [], DIMENSION)
    by_key = {row["content_id"]: wanted(int(row["content_id"], 16)) for row in (broken, sound)}
    assert stored_rows.verify(table, by_key, DIMENSION) == ({broken["content_id"]}, set())
    assert list(stored_rows.fetch(table, list(by_key), DIMENSION)) == [sound["content_id"]]
