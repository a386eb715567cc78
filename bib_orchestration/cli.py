"""`bib`: the command line. What each command prints is in `terminal`; what it does, below.

Only `backfill` imports Dagster. Exit status: 0 done; 1 done in part, or failed; 2 asked for wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from bib_orchestration.biblioteca.settings import TRIM_MODES, Settings, SettingsError, load_settings
from bib_orchestration.circuits import check_names

DONE, FAILED, WRONG = 0, 1, 2
_SERVER = "http://127.0.0.1:3000"
# Arithmetic on days ends with the year 9999.
_LAST_YEAR = 9000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    _mend_streams()
    # numpy's BLAS would start a thread a core for products too small to gain from it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parsed = _parser().parse_args(arguments)
    try:
        settings = load_settings(parsed.config, missing_sources="keep")
        check_names(settings)
        status: int = parsed.run(parsed, settings)
        sys.stdout.flush()
    except SettingsError as error:
        return _complain(error, WRONG)
    except KeyboardInterrupt:
        return _complain("interrupted; what was done is kept", FAILED)
    except BrokenPipeError:
        # Whoever read our output has had enough, as in `bib search … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except _asked_wrongly() as error:
        return _complain(error, WRONG)
    except _known_errors() as error:
        return _complain(error, FAILED)
    except RuntimeError as error:
        # LanceDB's own errors have no class of theirs.
        if "lance" not in str(error):
            raise
        remedy = f"If {settings.index_address} is damaged, move it away: `bib index` builds it anew"
        return _complain(f"{error}. {remedy}", FAILED)
    return status


def _mend_streams() -> None:
    """A stream that cron closed is as good as /dev/null; one that is not UTF-8 shows what it can."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bib",
        description="Keeps a knowledge base indexed for retrieval, and evaluates changes to it.",
        epilog="Settings come from bib.toml, here or above, or from the file named in BIB_CONFIG.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the bib.toml to use")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _index_command(commands)
    _search_command(commands)
    _eval_command(commands)
    _status_command(commands)
    _log_command(commands)
    _backfill_command(commands)
    return parser


def _command(
    commands: Any, name: str, run: Any, text: str, *, as_json: bool = True
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    if as_json:
        command.add_argument("--json", action="store_true", help="print JSON, for programs")
    return command


def _retrieval_options(command: argparse.ArgumentParser) -> None:
    """What a search and an evaluation have in common; bib.toml's settings are the defaults."""
    command.add_argument("--top-k", type=_positive, metavar="N", help="chunks a question")
    command.add_argument("--trim-mode", choices=TRIM_MODES, help="how the sentences that matter are told")
    command.add_argument(
        "--threshold", type=_cosine, metavar="COSINE", help="cosine from which a sentence stays (mode cosine)"
    )
    command.add_argument(
        "--min-sentences",
        type=_count,
        metavar="N",
        help="kept of each chunk at the least; with 0 whole chunks may go",
    )
    command.add_argument("--window", type=_count, metavar="N", help="neighbours kept on either side")
    command.add_argument("--source-type", metavar="TYPE", help="only chunks of such sources")
    command.add_argument("--app", metavar="APP", help="only chunks of this app")


# --- index


def _index_command(commands: Any) -> None:
    command = _command(commands, "index", _index, "Read the sources and bring the index level.")
    command.add_argument("sources", nargs="*", metavar="SOURCE", help="sources to read (default: all)")
    command.add_argument(
        "--full", action="store_true", help="ignore stored fingerprints: read and verify all"
    )


def _index(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration import terminal
    from bib_orchestration.biblioteca.indexing import index_all

    sources = _named_sources(settings, parsed.sources) if parsed.sources else None
    with terminal.progress("embedding", "contents") as progress:
        report = index_all(terminal.library(settings), sources, full=parsed.full, progress=progress)
    _print(parsed, terminal.index_json(report), lambda: terminal.show_index(report))
    return FAILED if report.errors else DONE


def _named_sources(settings: Settings, names: Sequence[str]) -> list[Any]:
    try:
        return [settings.source(name) for name in names]
    except KeyError as error:
        raise SettingsError(str(error.args[0])) from None


# --- search


def _search_command(commands: Any) -> None:
    command = _command(commands, "search", _search, "Find the chunks for a question.")
    command.add_argument("question", help="what is asked")
    command.add_argument("--ranking", choices=["vector", "hybrid"], help="how to rank (default: bib.toml's)")
    command.add_argument(
        "--trim", action=argparse.BooleanOptionalAction, help="keep only the sentences that matter"
    )
    _retrieval_options(command)


def _search(parsed: argparse.Namespace, settings: Settings) -> int:
    from dataclasses import replace

    from bib_orchestration import terminal
    from bib_orchestration.biblioteca.retrieval.retrieve import Filters, RetrievalOptions, retrieve

    if not parsed.question.strip():
        return _complain("the question is blank; ask something", WRONG)
    asked = {
        "ranking": parsed.ranking,
        "trim": parsed.trim,
        "trim_mode": parsed.trim_mode,
        "trim_threshold": parsed.threshold,
        "trim_min_sentences": parsed.min_sentences,
        "trim_window": parsed.window,
    }
    options = replace(
        RetrievalOptions.of(settings.retrieval),
        **{name: value for name, value in asked.items() if value is not None},
    )
    library = terminal.library(settings)
    top_k = settings.retrieval.top_k if parsed.top_k is None else parsed.top_k
    filters = Filters(source_type=parsed.source_type, app=parsed.app)
    index = library.index.snapshot()
    found = retrieve(library.question(parsed.question, index), top_k, options, filters, index=index)
    if not found.chunks:
        _hint_at_filters(parsed, settings)
    _print(
        parsed,
        terminal.search_json(parsed.question, found),
        lambda: terminal.show_search(found, terminal.line_numbers(settings, found)),
    )
    return DONE


def _hint_at_filters(parsed: argparse.Namespace, settings: Settings) -> None:
    """A filter that nothing in bib.toml can match is most likely a slip of the pen."""
    for option, asked, known in (
        ("--source-type", parsed.source_type, {source.source_type for source in settings.sources}),
        ("--app", parsed.app, {source.app for source in settings.sources if source.app}),
    ):
        if asked is not None and asked not in known:
            there = ", ".join(sorted(known)) or "none"
            _complain(f"{option}: no source has {asked!r}; there are: {there}", WRONG)


# --- eval


def _eval_command(commands: Any) -> None:
    command = _command(
        commands,
        "eval",
        _eval,
        "Compare whole with trimmed chunks on the newest questions, or on given ones.",
    )
    command.add_argument("--question", action="append", metavar="TEXT", help="a question; may be repeated")
    command.add_argument("--questions-file", type=Path, metavar="FILE", help="a question a line")
    command.add_argument("--day", type=_day, metavar="DAY", help="the golden set of this day")
    command.add_argument(
        "--last", type=_positive, metavar="N", help="size of the golden set (default: bib.toml's)"
    )
    command.add_argument("--variants", metavar="A,B", help="baseline,trim by default")
    _retrieval_options(command)


def _eval(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration import terminal
    from bib_orchestration.biblioteca.evaluating import ab_settings, evaluate_now

    asked = ab_settings(
        settings,
        variants=tuple(parsed.variants.split(",")) if parsed.variants else None,
        top_k=parsed.top_k,
        trim_mode=parsed.trim_mode,
        trim_threshold=parsed.threshold,
        trim_min_sentences=parsed.min_sentences,
        trim_window=parsed.window,
        source_type=parsed.source_type,
        app=parsed.app,
    )
    library = terminal.library(settings)
    evaluation = evaluate_now(library, asked, _questions(parsed), day=parsed.day, last=parsed.last)
    library.warehouse.publish()
    _print(parsed, evaluation.output, lambda: terminal.show_evaluation(evaluation))
    return DONE


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.max
    if day.year > _LAST_YEAR:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; 2026-10-31 is right")
    return day


def _cosine(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -1 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no cosine; a number from -1 to 1 is right")
    return value


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number from 0 up is right")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; a whole number from 1 up is right")
    return int(text)


def _questions(parsed: argparse.Namespace) -> list[str] | None:
    """The questions given; None when none were."""
    given = [text.encode("utf-8", "replace").decode() for text in parsed.question or []]
    if parsed.questions_file:
        try:
            given += parsed.questions_file.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SettingsError(f"--questions-file: {parsed.questions_file}: {reason}") from None
    return given if parsed.question or parsed.questions_file else None


# --- status


def _status_command(commands: Any) -> None:
    _command(commands, "status", _status, "What is indexed, how old it is, and what went wrong.")


def _status(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration import terminal
    from bib_orchestration.biblioteca.status import read_status

    status = read_status(settings)
    _print(parsed, status, lambda: terminal.show_status(status, settings))
    return DONE


# --- log


def _log_command(commands: Any) -> None:
    log = commands.add_parser("log", help="The query log.", description="The query log.")
    inner = log.add_subparsers(required=True, metavar="COMMAND")
    command = _command(
        inner,
        "import",
        _log_import,
        "Add questions from a CSV, JSON, JSON Lines, Parquet or DuckDB file to the query log.",
    )
    command.add_argument("file", type=Path, help="a DuckDB file needs a table oraculo_queries")


def _log_import(parsed: argparse.Namespace, settings: Settings) -> int:
    from bib_orchestration import terminal
    from bib_orchestration.biblioteca.warehouse.query_import import import_log
    from bib_orchestration.biblioteca.warehouse.query_log import load

    imported = import_log(parsed.file, settings.query_log)
    library = terminal.library(settings)
    loaded = load(library.warehouse, settings.query_log)
    library.warehouse.publish()
    _print(parsed, terminal.import_json(imported, loaded), lambda: terminal.show_import(imported, loaded))
    return DONE


# --- backfill


def _backfill_command(commands: Any) -> None:
    command = _command(
        commands,
        "backfill",
        _backfill,
        "Materialise assets in Dagster for sources and days, here or on the running server.",
    )
    command.add_argument("--sources", metavar="NAMES", help="'all', or names joined by commas")
    command.add_argument(
        "--days",
        metavar="DAYS",
        help="'all', or DAY, FIRST..LAST, FIRST.., ..LAST, joined by commas; up to yesterday",
    )
    command.add_argument(
        "--assets", metavar="NAMES", help="only these, joined by commas; any asset of the definitions"
    )
    command.add_argument(
        "--full", action="store_true", help="ignore stored fingerprints: read and verify all"
    )
    command.add_argument(
        "--queue",
        action="store_true",
        help="hand it to the running server as an asset backfill, instead of making the runs here",
    )
    command.add_argument(
        "--server",
        metavar="URL",
        help=f"with --queue: where the server is (default: DAGSTER_URL, or {_SERVER})",
    )
    command.add_argument("--wait", action="store_true", help="with --queue: until the backfill has ended")


def _backfill(parsed: argparse.Namespace, settings: Settings) -> int:
    if not (parsed.sources or parsed.days or parsed.assets):
        return _complain("say which: --sources all, or --days 2026-10-01..2026-10-31", WRONG)
    for option, given in (("--server", parsed.server), ("--wait", parsed.wait)):
        if given and not parsed.queue:
            return _complain(f"{option} goes with --queue; without it the runs are made here", WRONG)

    from bib_orchestration import terminal
    from bib_orchestration.backfill import backfill
    from bib_orchestration.backfill_plan import plan_backfill
    from bib_orchestration.biblioteca.library import Library
    from bib_orchestration.build import build_definitions

    library = Library(settings)
    definitions = build_definitions(settings, library=library)
    plan = plan_backfill(
        settings,
        definitions,
        models=library.models,
        sources=parsed.sources,
        days=parsed.days,
        assets=parsed.assets.split(",") if parsed.assets else None,
    )
    for span in plan.left_out:
        _note(f"--days: left out {span}")
    if parsed.queue:
        return _queue(parsed, settings, plan)
    report = backfill(
        settings,
        definitions,
        plan,
        full=parsed.full,
        on_run=lambda run: terminal.show_backfill_run(run.assets, run.label),
    )
    made = [(each.asset, each.partition, each.figures) for each in report.materialised]
    _print(
        parsed,
        {
            "materialised": [
                {"asset": asset, "partition": partition or None, "figures": figures}
                for asset, partition, figures in made
            ],
            "failures": [asdict(failure) for failure in report.failures],
            "not_made": [{"asset": asset, "partitions": label} for asset, label in report.not_made],
            "left_out": list(plan.left_out),
            "run_ids": report.run_ids,
        },
        lambda: terminal.show_backfill(made),
    )
    terminal.show_failures([*map(str, report.failures)], report.not_made)
    return FAILED if report.failures else DONE


def _queue(parsed: argparse.Namespace, settings: Settings, plan: Any) -> int:
    from bib_orchestration import terminal
    from bib_orchestration.backfill import dagster_home
    from bib_orchestration.queued_backfill import DagsterServer, QueueError

    address = parsed.server or os.environ.get("DAGSTER_URL") or _SERVER
    server = DagsterServer(address)
    try:
        queued = server.launch(plan, full=parsed.full, home=dagster_home(settings))
        if not parsed.json:
            terminal.show_queued(queued.id, queued.url)
        outcome = server.wait(queued, on_change=terminal.show_queue_progress) if parsed.wait else None
    except QueueError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted; a backfill that was queued goes on", FAILED)
    if parsed.json:
        value = {"backfill_id": queued.id, "url": queued.url, "left_out": list(plan.left_out)}
        print(json.dumps(value | (asdict(outcome) if outcome else {}), ensure_ascii=False, indent=2))
    elif outcome:
        terminal.show_outcome(outcome.status, outcome.assets)
    if outcome is None:
        return DONE
    terminal.show_failures(outcome.failures)
    return DONE if outcome.succeeded else FAILED


# --- common


def _print(parsed: argparse.Namespace, value: Any, show: Any) -> None:
    if parsed.json:
        print(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    else:
        show()


def _note(remark: str) -> None:
    """Something to know that is no fault."""
    _complain(remark, DONE)


def _complain(problem: object, status: int) -> int:
    # A file's name may hold what steers a terminal.
    text = "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in str(problem)
    )
    print(f"bib: {text}", file=sys.stderr)
    return status


def _known_errors() -> tuple[type[Exception], ...]:
    """Errors whose message is all that a person needs. Any other is a fault of ours, and shows its trace."""
    from bib_orchestration.biblioteca.index.embedders import EmbeddingError
    from bib_orchestration.biblioteca.index.sync import NothingToIndex
    from bib_orchestration.biblioteca.index.vector_index import NoIndex
    from bib_orchestration.biblioteca.warehouse.connection import WarehouseError
    from bib_orchestration.biblioteca.warehouse.locks import LockTimeout
    from bib_orchestration.biblioteca.warehouse.sql_models import ModelError

    return (EmbeddingError, NothingToIndex, NoIndex, WarehouseError, LockTimeout, ModelError, OSError)


def _asked_wrongly() -> tuple[type[Exception], ...]:
    from bib_orchestration.biblioteca.evaluation.ab_test import EvaluationError
    from bib_orchestration.biblioteca.warehouse.query_import import LogImportError

    return (EvaluationError, LogImportError)


if __name__ == "__main__":
    sys.exit(main())
