"""The A/B run: its inputs refused or defined, and what it makes of them, on a real small index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import CountingEmbedder

from bib_orchestration.biblioteca.evaluating import Evaluation, ab_settings, evaluate_now
from bib_orchestration.biblioteca.evaluation.ab_test import AbSettings, EvaluationError
from bib_orchestration.biblioteca.evaluation.runs import load_runs
from bib_orchestration.biblioteca.indexing import index_all
from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import TRIM_MODES, load_settings

PAGES = {
    "wiki/vacaciones.md": "# Vacaciones\n\nLas vacaciones se piden en el portal. El saldo caduca en marzo. "
    "Nadie llama por teléfono para eso. Las fotos del verano van al tablón.\n",
    "wiki/vpn.md": "# VPN\n\nEl acceso remoto exige VPN. El segundo factor se activa en el móvil. "
    "La cafetería abre a las ocho.\n",
    "docs/plano.md": "# Plano\n\nEl plano se exporta en DXF. El botón está arriba. También vale el PDF.\n",
}
QUESTIONS = ["¿Cómo se piden las vacaciones?", "¿Qué exige el acceso remoto?"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("ab")
    for path, text in PAGES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "bib.toml").write_text(
        '[[sources]]\nname = "wiki"\npath = "wiki"\nsource_type = "wiki"\n\n'
        '[[sources]]\nname = "docs"\npath = "docs"\napp = "crearack"\n'
    )
    made = Library(load_settings(folder / "bib.toml", environ={"BIB_HOME": str(folder / "home")}))
    made.embedder = CountingEmbedder()
    index_all(made)
    return made


Evaluate = Callable[..., Evaluation]


@pytest.fixture
def evaluate(library: Library) -> Evaluate:
    def run(questions: Sequence[str] = QUESTIONS, **changes: Any) -> Evaluation:
        return evaluate_now(library, ab_settings(library.settings, **changes), questions)

    return run


# --- what is asked for


def test_the_defaults_are_the_contracts() -> None:
    asked = AbSettings()
    assert asked.variants == ("baseline", "trim")
    assert (asked.top_k, asked.trim_threshold, asked.trim_window, asked.trim_min_sentences) == (5, 0.38, 1, 1)
    assert asked.trim_mode == "cosine"
    assert (asked.source_type, asked.app, asked.synthesize) == (None, None, False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"variants": ("baseline", "hyde")}, "'hyde'.*any of 'baseline', 'trim' is right"),
        ({"variants": ()}, "variants are none"),
        ({"variants": ("trim", "trim")}, "each once"),
        ({"top_k": 0}, "top_k is 0; 1 to 20 is right"),
        ({"top_k": 21}, "top_k is 21; 1 to 20 is right"),
        ({"trim_window": -1}, "trim_window -1"),
        ({"trim_mode": "auto"}, "trim_mode is 'auto'; cosine, cosine-auto, margin are right"),
        ({"trim_min_sentences": -1}, "trim_min_sentences is -1; a number from 0 up is right"),
        ({"trim_threshold": 1.5}, "trim_threshold is 1.5"),
        ({"trim_threshold": float("nan")}, "trim_threshold is nan"),
        ({"synthesize": True}, "synthesize: answers are not built yet"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        AbSettings(**wrong)


@pytest.mark.parametrize("top_k", [1, 20])
def test_top_k_at_its_limits(evaluate: Evaluate, top_k: int) -> None:
    results = evaluate(top_k=top_k).run.results
    assert {len(result.chunk_ids) for result in results} == {min(top_k, len(PAGES))}


# --- what comes out


def test_the_contracts_output(evaluate: Evaluate) -> None:
    output = evaluate().output
    assert [result["question"] for result in output["results"]] == QUESTIONS
    for result in output["results"]:
        baseline, trim = result["variants"]["baseline"], result["variants"]["trim"]
        assert list(baseline) == ["chunk_ids", "top_score", "tokens", "tokens_before"]
        assert list(trim) == [*baseline, "overlap_vs_baseline"]
        assert baseline["tokens"] == baseline["tokens_before"] == trim["tokens_before"]
        assert 0 < trim["tokens"] <= trim["tokens_before"]
        assert trim["chunk_ids"] == baseline["chunk_ids"]
        assert (trim["overlap_vs_baseline"], trim["top_score"]) == (1.0, baseline["top_score"])
        assert baseline["top_score"] == round(baseline["top_score"], 3)
    summary = output["summary"]
    assert (summary["questions"], summary["top_k"]) == (2, 5)
    assert (summary["trim_threshold"], summary["trim_window"]) == (0.38, 1)
    assert summary["avg_overlap_vs_baseline"] == 1.0
    assert output["gate"]["verdict"] in ("cannot conclude", "no-go")


def test_a_high_threshold_trims_and_the_gate_cannot_conclude(evaluate: Evaluate) -> None:
    evaluation = evaluate(trim_threshold=0.99, trim_window=0)
    assert evaluation.run.summary["token_reduction_pct"] > 20
    assert evaluation.gate.verdict == "cannot conclude"


@pytest.mark.parametrize("mode", TRIM_MODES)
def test_each_mode_runs_and_is_noted(evaluate: Evaluate, library: Library, mode: str) -> None:
    made = evaluate(trim_mode=mode, trim_window=0, trim_min_sentences=0, trim_threshold=0.9)
    run = json.loads((made.stored.folder / "run.json").read_text(encoding="utf-8"))
    assert (run["settings"]["trim_mode"], run["settings"]["trim_min_sentences"]) == (mode, 0)
    assert run["generation"]["calibration"]["contents"] == len(PAGES)
    with library.warehouse.read() as connection:
        rows = connection.execute(
            "SELECT trim_mode, trim_min_sentences FROM ab_runs WHERE run_id = ?", [made.stored.run_id]
        ).fetchall()
    assert rows == [(mode, 0)]


def test_chunks_that_trimming_lets_go_count_in_overlap_and_in_tokens_before(evaluate: Evaluate) -> None:
    made = evaluate(trim_mode="margin", trim_window=0, trim_min_sentences=0)
    pairs = list(zip(made.run.results[::2], made.run.results[1::2], strict=True))
    assert any(len(trim.chunk_ids) < len(baseline.chunk_ids) for baseline, trim in pairs)
    for baseline, trim in pairs:
        assert trim.tokens_before == baseline.tokens
        assert trim.overlap_vs_baseline == round(len(trim.chunk_ids) / len(baseline.chunk_ids), 2)
    assert not made.gate.condition("overlap").note


def test_a_run_of_before_there_were_modes_is_loaded_as_the_one_that_there_was(
    evaluate: Evaluate, library: Library
) -> None:
    stored = evaluate().stored
    file = stored.folder / "run.json"
    run = json.loads(file.read_text(encoding="utf-8"))
    del run["settings"]["trim_mode"]
    file.write_text(json.dumps(run), encoding="utf-8")
    with library.warehouse.lock(), library.warehouse.transaction() as connection:
        connection.execute("DELETE FROM ab_runs")
    load_runs(library.warehouse, library.settings.runs)
    with library.warehouse.read() as connection:
        query = "SELECT trim_mode FROM ab_runs WHERE run_id = ?"
        assert connection.execute(query, [stored.run_id]).fetchall() == [("cosine",)]


def test_one_variant_alone(evaluate: Evaluate) -> None:
    trim = evaluate(variants=("trim",), trim_threshold=0.99, trim_window=0)
    assert trim.run.summary["reduction_is_against"] == "tokens_before"
    assert trim.run.summary["token_reduction_pct"] > 20
    assert {result.overlap_vs_baseline for result in trim.run.results} == {None}
    baseline = evaluate(variants=("baseline",))
    assert baseline.run.summary["token_reduction_pct"] is None
    assert [list(result["variants"]) for result in baseline.output["results"]] == [["baseline"]] * 2
    assert {evaluation.gate.verdict for evaluation in (trim, baseline)} == {"cannot conclude"}


@pytest.mark.parametrize(
    ("questions", "asked"),
    [
        ([], []),
        (["", "  ", "\n", "\t "], []),
        (["¿Qué exige el acceso remoto?"] * 3, ["¿Qué exige el acceso remoto?"]),
        (["  ¿VPN?", "¿VPN?  ", ""], ["¿VPN?"]),
        (["no", "sí"], ["no", "sí"]),
    ],
    ids=["none", "blank", "identical", "identical but for spaces", "short ones that were given"],
)
def test_each_question_once_and_blank_ones_never(
    evaluate: Evaluate, questions: list[str], asked: list[str]
) -> None:
    evaluation = evaluate(questions)
    assert [result["question"] for result in evaluation.output["results"]] == asked
    assert evaluation.run.summary["questions"] == len(asked)
    assert len(evaluation.run.latencies_ms) == len(asked)
    if not asked:
        assert evaluation.gate.verdict == "cannot conclude"
        assert evaluation.run.summary["avg_tokens_trim"] is None


def test_a_filter_that_matches_nothing_is_a_defined_result(evaluate: Evaluate) -> None:
    evaluation = evaluate(source_type="no-such-type")
    for result in evaluation.run.results:
        assert (result.chunk_ids, result.top_score, result.tokens) == ((), None, 0)
        assert result.overlap_vs_baseline is None
    assert evaluation.run.summary["token_reduction_pct"] is None
    assert evaluation.run.summary["avg_overlap_vs_baseline"] is None
    assert evaluation.gate.verdict == "cannot conclude"


@pytest.mark.parametrize(("filters", "count"), [({"source_type": "wiki"}, 2), ({"app": "crearack"}, 1)])
def test_filters(evaluate: Evaluate, filters: dict[str, str], count: int) -> None:
    assert {len(result.chunk_ids) for result in evaluate(**filters).run.results} == {count}


# --- as files and rows


def test_equal_questions_index_and_settings_give_equal_bytes(evaluate: Evaluate) -> None:
    first, second = evaluate().stored, evaluate().stored
    assert first.run_id != second.run_id
    for name in ("results.json", "results.parquet"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()
    assert (first.folder / "run.json").read_bytes() != (second.folder / "run.json").read_bytes()
    other = evaluate(trim_threshold=0.99).stored
    assert (other.folder / "results.json").read_bytes() != (first.folder / "results.json").read_bytes()


def test_results_are_json_without_nan_and_readable_as_they_were_typed(evaluate: Evaluate) -> None:
    text = (evaluate(source_type="no-such-type").stored.folder / "results.json").read_text(encoding="utf-8")
    assert "¿Cómo se piden las vacaciones?" in text
    refuse = pytest.fail
    assert json.loads(text, parse_constant=refuse)["summary"]["token_reduction_pct"] is None


def test_rows_are_rebuilt_from_the_files(evaluate: Evaluate, library: Library) -> None:
    evaluate()
    evaluate([])
    assert load_runs(library.warehouse, library.settings.runs).added == 0
    before = _stored(library)
    Path(library.settings.warehouse_address).unlink()
    anew = Library(library.settings)
    assert load_runs(anew.warehouse, library.settings.runs).added == len(before["ab_runs"])
    assert _stored(anew) == before
    index_all(library)


def test_a_run_without_questions_is_listed_without_figures(evaluate: Evaluate, library: Library) -> None:
    run_id = evaluate([]).stored.run_id
    row = next(row for row in _stored(library)["ab_runs"] if row["run_id"] == run_id)
    assert (row["questions"], row["verdict"]) == (0, "cannot conclude")
    assert row["token_reduction_pct"] is row["avg_overlap_vs_baseline"] is None


def test_rows_of_a_warehouse_that_did_not_list_its_runs_are_not_doubled(
    evaluate: Evaluate, library: Library
) -> None:
    evaluate()
    before = _stored(library)
    with library.warehouse.lock(), library.warehouse.transaction() as connection:
        connection.execute("DELETE FROM ab_runs")
    assert load_runs(library.warehouse, library.settings.runs).added == len(before["ab_runs"])
    assert _stored(library) == before


def _stored(library: Library) -> dict[str, list[dict[str, Any]]]:
    with library.warehouse.read() as connection:
        tables = {name: connection.sql(f"FROM {name} ORDER BY ALL") for name in ("ab_runs", "ab_results")}
        return {
            name: [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
            for name, relation in tables.items()
        }


def test_a_run_that_is_half_written_is_ignored(evaluate: Evaluate, library: Library) -> None:
    stored = evaluate().stored
    for name in (f".{stored.run_id}x.4242", f"{stored.run_id}-without-run-json"):
        half = stored.folder.with_name(name)
        half.mkdir()
        (half / "results.json").write_text('{"summary"')
        if name.startswith("."):
            (half / "run.json").write_text('{"run_id"')
    assert load_runs(library.warehouse, library.settings.runs).added == 0


def test_a_run_with_a_value_of_another_type_costs_only_itself(evaluate: Evaluate, library: Library) -> None:
    stored = evaluate().stored
    for name, file, before, now in [
        ("count", "results.json", '"questions": ', '"questions": "many", "q": '),
        ("huge", "results.json", '"questions": ', f'"questions": {2**70}, "q": '),
        ("text", "run.json", '"golden_hash": ', '"golden_hash": 5, "h": '),
        ("deep", "run.json", '"run_id": ', f'"deep": {"[" * 100_000}{"]" * 100_000}, "run_id": '),
    ]:
        folder = stored.folder.with_name(name)
        shutil.copytree(stored.folder, folder)
        text = (folder / file).read_text(encoding="utf-8")
        assert before in text
        (folder / file).write_text(text.replace(before, now, 1), encoding="utf-8")
    shutil.copytree(stored.folder, stored.folder.with_name("sound"))
    loaded = load_runs(library.warehouse, library.settings.runs)
    assert loaded.added == 1
    assert [Path(line.split(": ")[0]).name for line in loaded.unreadable] == ["count", "deep", "huge", "text"]
    for name in ("count", "huge", "text", "deep", "sound"):
        shutil.rmtree(stored.folder.with_name(name))
    with library.warehouse.lock(), library.warehouse.transaction() as connection:
        connection.execute("DELETE FROM ab_runs WHERE run_id = 'sound'")
        connection.execute("DELETE FROM ab_results WHERE run_id = 'sound'")


def test_a_run_that_cannot_be_written_leaves_nothing(
    evaluate: Evaluate, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate()
    before = sorted(library.settings.runs.iterdir())

    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bib_orchestration.biblioteca.evaluation.runs._write_parquet", full_disk)
    with pytest.raises(OSError, match="No space left"):
        evaluate()
    assert sorted(library.settings.runs.iterdir()) == before
