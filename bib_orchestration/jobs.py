"""Jobs that people launch themselves: a search, and an A/B run. Those of schedules are in `schedules`."""

import dagster as dg

from bib_orchestration.biblioteca.library import Library
from bib_orchestration.biblioteca.settings import Settings
from bib_orchestration.ops import (
    EvalConfig,
    RetrieveConfig,
    TrimConfig,
    embed_question,
    evaluate_retrieval,
    retrieve_chunks,
    trim_context,
)

# A step costs a process of 4 s by Dagster's default executor, and none of ours gains from one.
IN_PROCESS = dg.in_process_executor


def build_jobs(settings: Settings, library: Library) -> list[dg.JobDefinition]:
    """`search` and `eval_retrieval`, with bib.toml's settings as the defaults of their run config."""

    @dg.graph
    def search_graph() -> None:
        question = embed_question()
        trim_context(question, retrieve_chunks(question))

    @dg.graph
    def eval_graph() -> None:
        evaluate_retrieval()

    retrieval, evaluation = settings.retrieval, settings.evaluation
    # Vectors and chunks are handed from op to op, and never worth a file.
    resources = {"library": library, "io_manager": dg.mem_io_manager}
    search = search_graph.to_job(
        name="search",
        description="The chunks for a question, found and trimmed as bib.toml says unless the config does.",
        executor_def=IN_PROCESS,
        resource_defs=resources,
        config=dg.RunConfig(
            ops={
                "embed_question": {"config": {"question": "¿Cómo pido vacaciones?"}},
                "retrieve_chunks": RetrieveConfig(top_k=retrieval.top_k, ranking=retrieval.ranking),
                "trim_context": TrimConfig(
                    trim=retrieval.trim,
                    trim_mode=retrieval.trim_mode,
                    trim_threshold=retrieval.trim_threshold,
                    trim_min_sentences=retrieval.trim_min_sentences,
                    trim_window=retrieval.trim_window,
                ),
            }
        ),
    )
    eval_retrieval = eval_graph.to_job(
        name="eval_retrieval",
        description="Whole against trimmed chunks, on given questions or the golden set as it is now.",
        executor_def=IN_PROCESS,
        resource_defs=resources,
        config=dg.RunConfig(
            ops={
                "evaluate_retrieval": EvalConfig(
                    top_k=evaluation.top_k,
                    trim_mode=evaluation.trim_mode,
                    trim_threshold=evaluation.trim_threshold,
                    trim_window=evaluation.trim_window,
                )
            }
        ),
    )
    return [search, eval_retrieval]
