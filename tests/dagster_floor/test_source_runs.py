"""Runs over sources: one range, each partition with its own figures; a source that fails stops no other."""

from __future__ import annotations

import dagster as dg
import pytest

from .conftest import BIB_TOML, PAGES, Floor, checks, failures, figures

ALL = ["docs", "notas", "wiki"]


def test_a_range_over_all_sources_is_one_run_and_each_partition_has_its_own_figures(floor: Floor) -> None:
    floor.write("wiki/otra.md", "# Otra\n\nUna página más.\n")
    result = floor.materialise(ALL)
    assert result.success
    documents, chunks = figures(result, "documents"), figures(result, "chunks")
    assert {name: made["dagster/partition_row_count"] for name, made in documents.items()} == {
        "docs": 1,
        "notas": 1,
        "wiki": 2,
    }
    assert {name: made["added"] for name, made in documents.items()} == {"docs": 1, "notas": 1, "wiki": 2}
    assert {name: made["documents_cut"] for name, made in chunks.items()} == {
        "docs": 1,
        "notas": 1,
        "wiki": 2,
    }
    assert "vacaciones.md" in documents["wiki"]["changes"]
    assert "vacaciones.md" not in documents["docs"]["changes"]
    index = figures(result, "chunk_index")[None]
    assert (index["added"], index["embedded"], index["dagster/row_count"]) == (4, 4, 4)
    assert checks(result)["sources_were_read"].passed
    assert len(floor.instance.get_runs()) == 1
    # Column names are the contract's.
    columns = floor.library.store.open(index["generation"]).schema.names
    assert {
        "content_id",
        "text_hash",
        "text",
        "title",
        "heading_path",
        "tokens",
        "sources",
        "source_types",
        "apps",
        "slugs",
        "paths",
        "vector",
    } <= set(columns)
    assert index["generation"].startswith("chunks__")


def test_a_second_run_embeds_nothing_and_writes_nothing(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.embedder.texts.clear()
    version = floor.snapshot().version
    result = floor.materialise(ALL)
    assert result.success
    assert floor.embedder.texts == []
    index = figures(result, "chunk_index")[None]
    assert (index["added"], index["updated"], index["deleted"], index["texts_embedded"]) == (0, 0, 0, 0)
    assert floor.snapshot().version == version
    assert figures(result, "unique_chunks")[None]["changed"] is False


def test_full_reads_and_cuts_all_again_and_embeds_only_what_is_missing(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.embedder.texts.clear()
    plain, full = floor.materialise(ALL), floor.materialise(ALL, full=True)
    assert full.success
    assert [made["documents_cut"] for made in figures(plain, "chunks").values()] == [0, 0, 0]
    assert [made["documents_cut"] for made in figures(full, "chunks").values()] == [1, 1, 1]
    assert floor.embedder.texts == []


def test_full_verifies_the_index_where_a_plain_run_trusts_it(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.embedder.texts.clear()
    table = floor.library.store.open(floor.snapshot().generation.table)
    table.update(where="text LIKE '%VPN%'", values={"vector": [0.0] * floor.embedder.card.dimension})
    plain = floor.materialise(ALL)
    assert floor.embedder.texts == []
    # It is seen all the same: the check looks at every vector.
    assert not plain.success
    assert [name for name, check in checks(plain).items() if not check.passed] == ["vectors_are_sound"]
    full = figures(floor.materialise(ALL, full=True), "chunk_index")[None]
    assert full["embedded"] == 1
    assert "VPN" in floor.embedder.texts[0]


def test_a_source_that_is_missing_keeps_its_rows_and_stops_no_other_and_the_run_is_red(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.write("docs/nueva.md", "# Nueva\n\nEl robot pinta las vigas.\n")
    (floor.folder / "wiki").rename(floor.folder / "wiki-away")
    red = floor.materialise(ALL)

    assert not red.success
    assert floor.instance.get_run_by_id(red.run_id).status == dg.DagsterRunStatus.FAILURE
    assert list(failures(red)) == ["documents_sources_were_read"] or "sources_were_read" in "".join(
        failures(red)
    )
    (said,) = failures(red).values()
    assert "'wiki'" in said
    assert str(floor.folder / "wiki") in said
    assert not checks(red)["sources_were_read"].passed
    assert "wiki" in checks(red)["sources_were_read"].metadata["sources"].value
    documents = figures(red, "documents")
    assert "'wiki'" in documents["wiki"]["error"]
    assert documents["wiki"]["dagster/partition_row_count"] == 1
    assert [name for name, made in documents.items() if "error" in made] == ["wiki"]
    assert documents["docs"]["added"] == 1
    # The rest was done to the end.
    assert floor.indexed_paths() == ["briefing.md", "nueva.md", "vacaciones.md", "vpn.md"]

    (floor.folder / "wiki-away").rename(floor.folder / "wiki")
    green = floor.materialise(ALL)
    assert green.success
    assert checks(green)["sources_were_read"].passed
    assert "error" not in figures(green, "documents")["wiki"]
    assert floor.rows("SELECT source FROM bib_sources WHERE error IS NOT NULL") == []


def test_a_source_that_has_become_empty_is_taken_for_a_fault(floor: Floor) -> None:
    floor.materialise(ALL)
    (floor.folder / "wiki" / "vacaciones.md").unlink()
    red = floor.materialise(["wiki"])
    assert not red.success
    (said,) = failures(red).values()
    assert "its rows are kept" in said
    assert "Take the source out of bib.toml" in said
    assert "vacaciones.md" in floor.indexed_paths()


def test_a_run_over_some_sources_does_not_answer_for_the_others(floor: Floor) -> None:
    (floor.folder / "wiki").rename(floor.folder / "wiki-away")
    assert not floor.materialise(ALL).success
    result = floor.materialise(["docs", "notas"])
    assert result.success
    assert set(figures(result, "documents")) == {"docs", "notas"}


@pytest.mark.parametrize("live", [False, True], ids=["no index yet", "an index that serves"])
def test_a_failing_embedder_makes_the_run_red_and_the_old_index_serves(floor: Floor, live: bool) -> None:
    if live:
        floor.materialise(ALL)
        before = floor.indexed_paths()
        floor.write("docs/nueva.md", "# Nueva\n\nEl robot pinta las vigas.\n")

    def fail(texts: object) -> None:
        raise ConnectionError("429 RESOURCE_EXHAUSTED")

    floor.embedder.fail = fail
    red = floor.materialise(ALL)
    assert not red.success
    assert list(failures(red)) == ["chunk_index"]
    assert "429 RESOURCE_EXHAUSTED" in failures(red)["chunk_index"]
    if live:
        assert floor.indexed_paths() == before

    floor.embedder.fail = lambda texts: None
    green = floor.materialise(ALL)
    assert green.success
    assert figures(green, "chunk_index")[None]["added"] == (1 if live else 3)
    assert len(floor.indexed_paths()) == (4 if live else 3)


def test_a_bad_file_is_listed_with_its_path_and_the_reason_and_stops_nothing(floor: Floor) -> None:
    floor.write("wiki/roto|raro.md", b"PNG\x00\x01\x02\x00binary\xff\xfe")
    result = floor.materialise(ALL)
    assert result.success
    documents = figures(result, "documents")
    assert documents["wiki"]["skipped"] == 1
    head, _, row = documents["wiki"]["skipped_files"].split("\n")
    assert head == "| path | reason |"
    assert row.startswith("| roto\\|raro.md | ")
    assert len(row) > len("| roto\\|raro.md |  |")
    assert documents["docs"]["skipped"] == 0
    assert "skipped_files" not in documents["docs"]
    assert "vacaciones.md" in floor.indexed_paths()


def test_a_source_taken_out_of_bib_toml_goes_with_the_next_run(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.reload(BIB_TOML[: BIB_TOML.rindex("[[sources]]")])
    result = floor.materialise(["docs", "wiki"])
    assert result.success
    assert floor.indexed_paths() == ["vacaciones.md", "vpn.md"]
    assert floor.rows("SELECT DISTINCT source FROM bib_docs ORDER BY ALL") == [("docs",), ("wiki",)]
    assert ["notas"] in [made.get("sources_removed") for made in figures(result, "documents").values()]


def test_an_edit_a_move_and_a_deletion_are_told_apart(floor: Floor) -> None:
    floor.write("docs/otra.md", "# Otra\n\nSe borrará.\n")
    floor.write("docs/larga.md", "# Larga\n\nCambiará de sitio.\n")
    floor.materialise(["docs"])
    floor.embedder.texts.clear()
    (floor.folder / "docs/otra.md").unlink()
    (floor.folder / "docs/larga.md").rename(floor.folder / "docs/corta.md")
    floor.write("docs/vpn.md", PAGES["docs/vpn.md"] + "\nY una frase.\n")
    made = figures(floor.materialise(["docs"]), "documents")["docs"]
    assert {what: made[what] for what in ("added", "changed", "moved", "deleted")} == {
        "added": 0,
        "changed": 1,
        "moved": 1,
        "deleted": 1,
    }
    assert "larga.md → corta.md" in made["changes"]
    assert not any("Cambiará de sitio" in text for text in floor.embedder.texts)
