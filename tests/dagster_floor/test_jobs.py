"""The jobs that people launch themselves: `search`, step by step, and `eval_retrieval` by the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from bib_orchestration.biblioteca.retrieval.chunk import Question, Retrieval

from .conftest import BIB_TOML, PAGES, Floor, failures

SET_IN_TOML = """
[retrieval]
top_k = 2
ranking = "hybrid"
trim = true
trim_threshold = 0.3
trim_window = 2
"""


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    with dg.DagsterInstance.ephemeral() as instance:
        made = Floor(tmp_path_factory.mktemp("jobs"), instance, BIB_TOML + SET_IN_TOML)
        for path, text in PAGES.items():
            made.write(path, text)
        assert made.materialise(["docs", "notas", "wiki"]).success
        yield made


def searched(
    floor: Floor, question: str = "¿Cómo se piden las vacaciones?", **ops: Any
) -> dg.ExecuteInProcessResult:
    config = {"embed_question": {"config": {"question": question}}}
    return floor.execute("search", run_config={"ops": config | {name: {"config": ops[name]} for name in ops}})


def evaluated(floor: Floor, **config: Any) -> dg.ExecuteInProcessResult:
    return floor.execute("eval_retrieval", run_config={"ops": {"evaluate_retrieval": {"config": config}}})


def shown(result: dg.ExecuteInProcessResult, step: str) -> dict[str, Any]:
    """The metadata that a step showed of its output."""
    for event in result.all_events:
        if event.is_successful_output and event.step_key == step:
            return {name: value.value for name, value in event.step_output_data.metadata.items()}
    raise AssertionError(f"{step} gave nothing")


# --- search


def test_a_question_goes_through_its_three_steps_in_order(floor: Floor) -> None:
    result = searched(floor, trim_context={"trim": True, "trim_threshold": 0.99, "trim_window": 0})
    assert result.success
    order = [event.step_key for event in result.all_events if event.is_step_success]
    assert order == ["embed_question", "retrieve_chunks", "trim_context"]
    question: Question = result.output_for_node("embed_question")
    whole: Retrieval = result.output_for_node("retrieve_chunks")
    trimmed: Retrieval = result.output_for_node("trim_context")
    assert question.vector.shape == (floor.embedder.card.dimension,)
    assert whole.chunks[0].path == "vacaciones.md"
    assert [chunk.content_id for chunk in trimmed.chunks] == [chunk.content_id for chunk in whole.chunks]
    assert trimmed.tokens_in_context < trimmed.tokens_before == whole.tokens_in_context


def test_each_step_shows_what_it_was_asked_and_what_it_made(floor: Floor) -> None:
    result = searched(floor, trim_context={"trim": True, "trim_threshold": 0.99, "trim_window": 0})
    found, trimmed = shown(result, "retrieve_chunks"), shown(result, "trim_context")
    assert found["question"] == trimmed["question"] == "¿Cómo se piden las vacaciones?"
    assert found["tokens_in_context"] == found["tokens_before"] == trimmed["tokens_before"]
    assert trimmed["tokens_in_context"] < trimmed["tokens_before"]
    head, _, first = found["chunks"].split("\n")[:3]
    assert head == "| score | cosine | tokens | source | path | heading | text |"
    assert "| wiki | vacaciones.md |" in first


def test_the_run_config_is_filled_in_as_bib_toml_says(floor: Floor) -> None:
    job = floor.definitions.get_repository_def().get_job("search")
    ops = {name: op["config"] for name, op in (job.run_config or {})["ops"].items()}
    assert ops["embed_question"] == {"question": "¿Cómo pido vacaciones?"}
    assert (ops["retrieve_chunks"]["top_k"], ops["retrieve_chunks"]["ranking"]) == (2, "hybrid")
    assert ops["trim_context"] == {
        "trim": True,
        "trim_mode": "cosine",
        "trim_threshold": 0.3,
        "trim_min_sentences": 1,
        "trim_window": 2,
    }


def test_what_a_run_config_leaves_out_is_as_bib_toml_says(floor: Floor) -> None:
    # Once, a run with no more than a question took the defaults of the code and not those of bib.toml.
    found = searched(floor).output_for_node("retrieve_chunks").chunks
    assert len(found) == 2
    assert found[0].score > 1, "ranked by hybrid, whose best score is a sum of two"
    trimmed = searched(floor, trim_context={"trim_threshold": 0.99, "trim_window": 0})
    shown_text = trimmed.output_for_node("trim_context").chunks[0]
    assert shown_text.trimmed
    assert len(evaluated(floor, questions=["¿VPN?"]).output_for_node("evaluate_retrieval")["results"]) == 1


def test_filters_and_trimming_switched_off(floor: Floor) -> None:
    result = searched(floor, retrieve_chunks={"source_type": "session"}, trim_context={"trim": False})
    (chunk,) = result.output_for_node("trim_context").chunks
    assert chunk.path == "briefing.md"
    assert chunk.tokens == chunk.tokens_before


@pytest.mark.parametrize(
    ("question", "ops", "step", "said"),
    [
        ("  \n ", {}, "embed_question", "the question is blank; ask something"),
        ("¿VPN?", {"retrieve_chunks": {"top_k": 0}}, "retrieve_chunks", "top_k is 0; at least 1"),
        (
            "¿VPN?",
            {"retrieve_chunks": {"ranking": "hybird"}},
            "retrieve_chunks",
            "ranking is 'hybird'; vector or hybrid is right",
        ),
        (
            "¿VPN?",
            {"trim_context": {"trim_mode": "margen"}},
            "trim_context",
            "trim_mode is 'margen'; cosine, cosine-auto, margin are right",
        ),
    ],
)
def test_what_cannot_be_searched_fails_readably(
    floor: Floor, question: str, ops: dict[str, Any], step: str, said: str
) -> None:
    result = searched(floor, question, **ops)
    assert not result.success
    assert list(failures(result)) == [step]
    assert said in failures(result)[step]


# --- eval_retrieval


def test_the_defaults_of_its_config_are_the_contracts(floor: Floor) -> None:
    job = floor.definitions.get_repository_def().get_job("eval_retrieval")
    # None of the others: no questions (so the golden set) and no filter.
    assert (job.run_config or {})["ops"]["evaluate_retrieval"]["config"] == {
        "variants": ["baseline", "trim"],
        "top_k": 5,
        "trim_mode": "cosine",
        "trim_threshold": 0.38,
        "trim_window": 1,
        "synthesize": False,
    }
    # The log is empty: a defined result.
    result = evaluated(floor)
    output = result.output_for_node("evaluate_retrieval")
    assert output["results"] == []
    summary = output["summary"]
    assert (summary["top_k"], summary["trim_threshold"], summary["trim_window"]) == (5, 0.38, 1)
    assert (summary["questions"], summary["token_reduction_pct"]) == (0, None)
    assert output["gate"]["verdict"] == "cannot conclude"


def test_given_questions_and_what_the_run_shows(floor: Floor) -> None:
    result = evaluated(
        floor, questions=["¿Qué exige el acceso remoto?"] * 2 + ["", "  "], trim_threshold=0.99
    )
    assert result.success
    output = result.output_for_node("evaluate_retrieval")
    assert [made["question"] for made in output["results"]] == ["¿Qué exige el acceso remoto?"]
    metadata = shown(result, "evaluate_retrieval")
    assert metadata["questions"] == 1
    assert metadata["summary"] == output["summary"]
    assert metadata["verdict"] == output["gate"]["verdict"]
    assert "proves nothing" in metadata["gate"]
    assert "unmeasured" in metadata["gate"]


def test_a_filter_that_matches_nothing_is_a_defined_result(floor: Floor) -> None:
    result = evaluated(floor, questions=["¿VPN?"], app="no-such-app")
    output = result.output_for_node("evaluate_retrieval")
    (made,) = output["results"]
    assert made["variants"]["trim"]["chunk_ids"] == []
    assert made["variants"]["trim"]["top_score"] is None
    assert output["summary"]["avg_overlap_vs_baseline"] is None
    assert output["gate"]["verdict"] == "cannot conclude"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"variants": ["baseline", "hyde"]}, "any of 'baseline', 'trim' is right"),
        ({"variants": []}, "variants are none"),
        ({"top_k": 0}, "top_k is 0; 1 to 20 is right"),
        ({"top_k": 21}, "top_k is 21; 1 to 20 is right"),
        ({"synthesize": True}, "answers are not built yet"),
        ({"trim_window": -1}, "a number from 0 up"),
    ],
)
def test_what_cannot_be_evaluated_fails_with_what_can(
    floor: Floor, config: dict[str, Any], said: str
) -> None:
    result = evaluated(floor, questions=["¿VPN?"], **config)
    assert not result.success
    assert said in failures(result)["evaluate_retrieval"]
