"""`bib`: the command line. The commands are in `commands`; what goes wrong in any of them ends here.

Exit status: 0 done; 1 done in part, or failed; 2 asked for wrongly.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bib_orchestration import terminal
from bib_orchestration.biblioteca.settings import SettingsError, load_settings
from bib_orchestration.circuits import check_names
from bib_orchestration.commands import FAILED, WRONG, backfill, evaluate, index, query_log, search, status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    _mend_streams()
    # numpy's BLAS would start a thread a core for products too small to gain from it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parsed = _parser().parse_args(arguments)
    try:
        settings = load_settings(parsed.config, missing_sources="keep")
        check_names(settings)
        exit_status: int = parsed.run(parsed, settings)
        sys.stdout.flush()
    except SettingsError as error:
        return terminal.complain(error, WRONG)
    except KeyboardInterrupt:
        return terminal.complain("interrupted; what was done is kept", FAILED)
    except BrokenPipeError:
        # Whoever read our output has had enough, as in `bib search … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except _asked_wrongly() as error:
        return terminal.complain(error, WRONG)
    except _known_errors() as error:
        return terminal.complain(error, FAILED)
    except RuntimeError as error:
        # LanceDB's own errors have no class of theirs.
        if "lance" not in str(error):
            raise
        remedy = f"If {settings.index_address} is damaged, move it away: `bib index` builds it anew"
        return terminal.complain(f"{error}. {remedy}", FAILED)
    return exit_status


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
    for command in (index, search, evaluate, status, query_log, backfill):
        command.add(commands)
    return parser


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
