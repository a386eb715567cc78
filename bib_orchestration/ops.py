"""Ops over the shared retrieve and trim module: what a question goes through, step by step.

Each shows in the run what it was given and what it made of it. What needs numpy is imported by the op that
runs it: to load the definitions must stay cheap.
"""

from dataclasses import replace

import dagster as dg

from bib_orchestration.biblioteca.retrieval.chunk import Filters, Question, Retrieval, RetrievalOptions
from bib_orchestration.biblioteca.settings import TRIM_MODES
from bib_orchestration.displays import evaluation_metadata, table
from bib_orchestration.resources import LibraryResource


class QuestionConfig(dg.Config):
    """What is asked."""

    question: str


class RetrieveConfig(dg.Config):
    """How many chunks, how they are ranked (both as bib.toml says unless given), and what they must belong to."""

    top_k: int | None = None
    ranking: str | None = None
    source_type: str | None = None
    app: str | None = None


class TrimConfig(dg.Config):
    """Whether and how chunks are trimmed; what is not given is as bib.toml says."""

    trim: bool | None = None
    trim_mode: str | None = None
    trim_threshold: float | None = None
    trim_min_sentences: int | None = None
    trim_window: int | None = None


class EvalConfig(dg.Config):
    """The contract's inputs. Without `questions`, the golden set as it is now; other things that are not given
    are as bib.toml says."""

    questions: list[str] | None = None
    variants: list[str] = ["baseline", "trim"]  # noqa: RUF012 (Dagster copies defaults)
    top_k: int | None = None
    trim_mode: str | None = None
    trim_threshold: float | None = None
    trim_min_sentences: int | None = None
    trim_window: int | None = None
    synthesize: bool = False
    source_type: str | None = None
    app: str | None = None


@dg.op(description="A question and its vector, by the model that made the live index.")
def embed_question(config: QuestionConfig, library: LibraryResource) -> Question:
    if not config.question.strip():
        raise dg.Failure("the question is blank; ask something", allow_retries=False)
    return library.question(config.question)


@dg.op(description="The chunks for a question, best first, whole.")
def retrieve_chunks(
    context: dg.OpExecutionContext, config: RetrieveConfig, library: LibraryResource, question: Question
) -> Retrieval:
    from bib_orchestration.biblioteca.retrieval.retrieve import retrieve

    settings = library.settings.retrieval
    ranking = config.ranking or settings.ranking
    if ranking not in ("vector", "hybrid"):
        raise dg.Failure(f"ranking is {ranking!r}; vector or hybrid is right", allow_retries=False)
    options = RetrievalOptions(ranking="hybrid" if ranking == "hybrid" else "vector")
    top_k = settings.top_k if config.top_k is None else config.top_k
    filters = Filters(source_type=config.source_type, app=config.app)
    found = retrieve(question, top_k, options, filters, index=library.index.snapshot())
    _show(context, question, found)
    return found


@dg.op(description="The same chunks with only the sentences that matter, if trimming is on.")
def trim_context(
    context: dg.OpExecutionContext,
    config: TrimConfig,
    library: LibraryResource,
    question: Question,
    retrieval: Retrieval,
) -> Retrieval:
    from bib_orchestration.biblioteca.retrieval.trim import trim_retrieval

    if config.trim_mode not in (None, *TRIM_MODES):
        raise dg.Failure(
            f"trim_mode is {config.trim_mode!r}; {', '.join(TRIM_MODES)} are right", allow_retries=False
        )
    given = {name: value for name, value in config.model_dump().items() if value is not None}
    options = replace(RetrievalOptions.of(library.settings.retrieval), **given)
    shown = trim_retrieval(question, retrieval, options) if options.trim else retrieval
    _show(context, question, shown)
    return shown


@dg.op(description="An A/B run by the contract, on the questions given or on the golden set as it is now.")
def evaluate_retrieval(
    context: dg.OpExecutionContext, config: EvalConfig, library: LibraryResource
) -> dict[str, object]:
    from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_now

    changes = config.model_dump(exclude={"questions"}) | {"variants": tuple(config.variants)}
    settings = ab_settings(library.settings, **changes)
    evaluation = evaluate_now(library, settings, config.questions)
    library.warehouse.publish()
    context.add_output_metadata(
        {name.removeprefix("dagster/"): value for name, value in evaluation_metadata(evaluation).items()}
    )
    return evaluation.output


def _show(context: dg.OpExecutionContext, question: Question, retrieval: Retrieval) -> None:
    rows = [
        {
            "score": f"{chunk.score:.3f}",
            "cosine": f"{chunk.cosine:.3f}",
            "tokens": chunk.tokens,
            "source": chunk.source,
            "path": chunk.path,
            "heading": chunk.heading_path,
            "text": chunk.text[:300],
        }
        for chunk in retrieval.chunks
    ]
    context.add_output_metadata(
        {
            "question": question.text,
            "tokens_in_context": retrieval.tokens_in_context,
            "tokens_before": retrieval.tokens_before,
            "chunks": table(rows, ["score", "cosine", "tokens", "source", "path", "heading", "text"]),
        }
    )
