"""SQL models and tests in Dagster: a file that is added is an asset or a check, refreshed with what it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from bib_orchestration.assets.sql_models import MADE_BY, upstream, with_models
from bib_orchestration.biblioteca.library import MODELS_FOLDER
from bib_orchestration.biblioteca.warehouse.schema import TABLES
from bib_orchestration.biblioteca.warehouse.sql_models import ModelError, SqlModel, SqlTest, read_models
from bib_orchestration.build import build_definitions
from bib_orchestration.checks import sql_checks
from bib_orchestration.circuits import CIRCUITS, CORPUS, EVALUATION
from bib_orchestration.schedules import freshness_policies

from .conftest import Floor, checks, failures, figures

ALL = ["docs", "notas", "wiki"]
ADDED = {
    "long_pages": "-- Pages of many words.\nSELECT\n    path, -- where\n    text.length() AS size\nFROM bib_docs",
    "words": "SELECT path, tokens FROM long_pages JOIN bib_docs USING (path)",
    "asked": "-- partitions: day\nSELECT $day::DATE AS day, count(*) AS n FROM oraculo_queries WHERE ts < $day_end",
    "pages_then": "-- partitions: day\nSELECT $day AS day, count(*) AS pages FROM bib_docs",
}


@pytest.fixture
def extended(make_floor: Callable[..., Floor], tmp_path: Path) -> Floor:
    """A knowledge base whose user has added models of their own."""
    floor = make_floor()
    folder = tmp_path / "models"
    folder.mkdir()
    for file in MODELS_FOLDER.glob("*.sql"):
        (folder / file.name).write_text(file.read_text())
    for name, sql in ADDED.items():
        (folder / f"{name}.sql").write_text(sql)
    floor.library.models = read_models(folder)
    floor.definitions = build_definitions(floor.settings, library=floor.library)
    return floor


def test_every_table_has_an_asset_that_makes_it() -> None:
    assert MADE_BY.keys() == TABLES.keys()


def test_a_model_that_is_added_is_an_asset_with_its_dependencies_columns_and_lineage(extended: Floor) -> None:
    models = extended.library.models
    assert upstream(models["words"], models) == ["documents", "long_pages"]
    result = extended.materialise(ALL, with_models(CORPUS, models))
    assert result.success, failures(result)
    (page,) = figures(result, "long_pages").values()
    assert page["dagster/row_count"] == 3
    columns = {column.name: column for column in page["dagster/column_schema"].columns}
    assert columns["path"].description == "where ← documents.path"
    # What sqlglot cannot follow is said to be unknown.
    assert columns["size"].description.startswith("(lineage unknown: ")
    (words,) = figures(result, "words").values()
    lineage = words["dagster/column_lineage"].deps_by_column
    assert {dep.asset_key.to_user_string() for dep in lineage["path"]} <= {"documents", "long_pages"}
    assert lineage["tokens"][0].column_name == "tokens"


def test_models_that_are_added_are_refreshed_by_the_circuits_of_what_they_read(extended: Floor) -> None:
    models = extended.library.models
    corpus, evaluation = with_models(CORPUS, models), with_models(EVALUATION, models)
    assert {"long_pages", "words", "corpus_health"} <= set(corpus)
    # A model by day has no place in a run of sources.
    assert not {"asked", "pages_then"} & set(corpus)
    assert {"asked", "pages_then", "ab_history", "questions_by_day"} <= set(evaluation)
    assert "long_pages" not in evaluation
    # The hourly look at documents does not start to index them.
    assert not {"unique_chunks", "chunk_index"} & set(with_models(("documents", "chunks"), models))
    job = extended.definitions.resolve_job_def("refresh_wiki")
    assert dg.AssetKey("words") in job.asset_layer.executable_asset_keys


def test_a_day_of_a_model_reads_what_all_sources_have(extended: Floor) -> None:
    extended.materialise(ALL)
    result = extended.materialise(["2025-10-03", "2025-10-04"], ["pages_then"])
    assert result.success, failures(result)
    assert [rows for _, rows in extended.rows("FROM pages_then")] == [3, 3]


@pytest.mark.parametrize(
    "name",
    [
        "documents",
        "retrieval_ab",
        "refresh_wiki",
        "search",
        "embed_question",
        "vectors_are_sound",
        "chunks_are_unique",
    ],
)
def test_a_name_that_is_taken_is_refused_with_the_file(floor: Floor, name: str) -> None:
    """Dagster would load nothing, and name no file."""
    floor.library.models = {name: SqlModel(name, "SELECT 1 AS a", Path(f"/m/{name}.sql"))} | read_models(
        MODELS_FOLDER
    )
    with pytest.raises(ModelError, match=rf"/{name}\.sql: {name} is .* already; give the file another name"):
        build_definitions(floor.settings, library=floor.library)


def test_a_model_that_is_wrong_fails_its_run_with_file_and_line(extended: Floor, tmp_path: Path) -> None:
    (tmp_path / "models" / "words.sql").write_text("SELECT path,\n    no_such_column\nFROM long_pages")
    extended.library.models = read_models(tmp_path / "models")
    extended.definitions = build_definitions(extended.settings, library=extended.library)
    result = extended.materialise(ALL, with_models(CORPUS, extended.library.models))
    (said,) = failures(result).values()
    assert f"{tmp_path / 'models' / 'words.sql'}: Binder Error" in said
    assert "LINE 2" in said
    # The rest was made.
    assert figures(result, "chunk_index")


@pytest.mark.parametrize("by_day", ["golden_set", "retrieval_ab"])
def test_a_range_the_wrong_way_round_is_no_success(floor: Floor, by_day: str) -> None:
    result = floor.materialise(["2025-10-05", "2025-10-03"], [by_day])
    assert not result.success
    (said,) = failures(result).values()
    assert "no partition from 2025-10-05 to 2025-10-03: a range goes from the earlier to the later" in said


# --- checks


def test_a_table_with_bad_rows_stops_what_is_downstream_and_shows_them(floor: Floor) -> None:
    floor.materialise(ALL)
    floor.write("docs/nueva.md", "# Nueva\n\nEl robot pinta las vigas.\n")
    with floor.library.warehouse.lock(), floor.library.warehouse.transaction() as connection:
        connection.execute("INSERT INTO bib_chunks SELECT * FROM bib_chunks WHERE source = 'wiki'")
    red = floor.materialise(ALL)
    assert not red.success
    check = checks(red)["chunks_are_unique"]
    assert not check.passed
    assert check.metadata["bad_rows"].value == 2
    assert "chunk_id" in check.metadata["rows"].value
    assert not figures(red, "unique_chunks")
    assert not figures(red, "chunk_index")


def test_a_test_that_warns_stops_nothing(floor: Floor) -> None:
    floor.write("docs/vacia.md", "---\ntitle: Vacía\n---\n")
    result = floor.materialise(ALL)
    assert result.success
    check = checks(result)["documents_have_chunks"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "vacia.md" in check.metadata["rows"].value


def test_a_row_that_the_index_lost_is_missed(floor: Floor) -> None:
    floor.materialise(ALL)
    table = floor.library.store.open(floor.snapshot().generation.table)
    table.delete("text LIKE '%VPN%'")
    from dataclasses import replace

    generation = floor.library.store.current()
    assert generation is not None
    floor.library.store.go_live(replace(generation, version=table.version))
    red = floor.materialise(ALL, ["chunk_index"])
    check = checks(red)["contents_are_indexed"]
    assert not check.passed
    assert check.metadata["bad_rows"].value == 1
    assert "missing" in check.metadata["rows"].value


def test_a_test_of_a_table_that_nobody_makes_is_refused() -> None:
    test = SqlTest("t", "FROM nowhere", Path("/tests/t.sql"))
    with pytest.raises(
        ModelError, match=r"^/tests/t\.sql: it checks 'nowhere', which no asset makes; there are: "
    ):
        sql_checks({"t": test}, {})


# --- freshness


def test_assets_of_circuits_that_always_run_are_to_be_fresh(floor: Floor) -> None:
    policies = freshness_policies(floor.settings, floor.library.models)
    specs = {spec.key.to_user_string(): spec for spec in floor.definitions.resolve_all_asset_specs()}
    assert {name for name, spec in specs.items() if spec.freshness_policy} == set(policies)
    hours = {
        name: policy.fail_window.to_timedelta().total_seconds() / 3600 for name, policy in policies.items()
    }
    # Daily and weekly, and as long as a run may take.
    assert hours["retrieval_ab"] == hours["questions_by_day"] == 24 + 6
    assert hours["chunk_index"] == hours["corpus_health"] == 7 * 24 + 6


def test_without_a_circuit_that_always_runs_nothing_of_a_corpus_can_be_stale(floor: Floor) -> None:
    floor.reload('[[sources]]\nname = "docs"\npath = "docs"\n')
    assert any("documents" in circuit.assets for circuit in CIRCUITS)
    assert "chunk_index" not in freshness_policies(floor.settings, floor.library.models)
