"""The repository of a git source: one that is on this disk already, or our bare clone of one that is not.

What does not belong here: what is read from a repository (git_trees.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from bib_orchestration.biblioteca.corpus.git_trees import GIT_LIMIT_S, Repository
from bib_orchestration.biblioteca.corpus.raw_files import source_error
from bib_orchestration.biblioteca.settings import Source

CLONE_LOCK_LIMIT_S = 2 * GIT_LIMIT_S
# A clone follows the remote's default branch here: the HEAD that cloning writes never moves again.
_REMOTE_HEAD = "refs/bib/HEAD"
_CLONE_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_CLONE_URL_KEY = "bib.url"


@contextmanager
def repository_of(source: Source, checkouts: Path) -> Iterator[Repository]:
    """The repository of a git source, up to date; a clone of ours stays locked meanwhile."""
    if source.url is None:
        yield _checkout(source)
        return
    with _clone_lock(source, checkouts):
        yield _clone(source, checkouts)


def _checkout(source: Source) -> Repository:
    """A repository that belongs to somebody else: a checkout, a folder inside one, or a bare one."""
    assert source.path is not None, "settings let no git source through without path and url"
    place = str(source.path)
    if not source.path.is_dir():
        raise source_error(
            source, place, "no such folder", "name a checkout, a folder inside one, or a bare repository"
        )
    outside = Repository(source, place, ("-C", place), "")
    prefix = os.fsdecode(outside.git("rev-parse", "--show-prefix")).removesuffix("\n")
    repository = Repository(source, place, ("-C", place), prefix.rstrip("/"), (source.ref,))
    if source.fetch:
        repository.git("fetch", "--quiet", "--no-recurse-submodules", "--upload-pack=git-upload-pack")
    return repository


def _clone(source: Source, checkouts: Path) -> Repository:
    """Our bare clone of `source.url`, made or fetched as needed."""
    assert source.url is not None
    place = source.url
    clone = checkouts / f"{source.name}.git"
    names = (_REMOTE_HEAD, "HEAD") if source.ref == "HEAD" else (source.ref,)
    select = (f"--git-dir={clone}",)
    repository = Repository(source, place, select, _folder_inside(source), names)
    if not clone.is_dir() or _cloned_url(repository) != source.url:
        _make_clone(source, clone)
    elif source.fetch or repository.find() is None:
        _fetch_clone(repository)
    return repository


def _folder_inside(source: Source) -> str:
    folder = PurePosixPath(source.path or "")
    if folder.is_absolute() or ".." in folder.parts:
        right = "with `url`, name a folder inside the repository, such as docs"
        raise source_error(source, source.url, f"`path` {str(folder)!r} leads out of the repository", right)
    return "" if folder == PurePosixPath() else str(folder)


def _cloned_url(repository: Repository) -> str:
    """The `url` that the clone was made for; "" when what lies there is no clone of ours."""
    done = repository.attempt("config", "--local", "--get", _CLONE_URL_KEY)
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else ""


def _make_clone(source: Source, clone: Path) -> None:
    """Clone beside `clone`, then swap it in: a clone that is killed half-way leaves nothing in its place."""
    assert source.url is not None
    beside = Path(tempfile.mkdtemp(prefix=_unfinished(source), dir=clone.parent))
    try:
        fresh = beside / "new"
        outside = Repository(source, source.url, (), "")
        outside.git("clone", "--quiet", "--bare", "--", source.url, str(fresh))
        # Of a relative path git would note the absolute one, and it would look like another address.
        Repository(source, source.url, (f"--git-dir={fresh}",), "").git("config", _CLONE_URL_KEY, source.url)
        if clone.exists():
            clone.rename(beside / "old")
        fresh.rename(clone)
    finally:
        shutil.rmtree(beside)


def _unfinished(source: Source) -> str:
    # Names of sources hold no dot, so this is no prefix of another source's.
    return f".{source.name}."


def _fetch_clone(repository: Repository) -> None:
    head = (f"+HEAD:{_REMOTE_HEAD}",) if repository.source.ref == "HEAD" else ()
    repository.git("fetch", "--quiet", "--prune", "--no-write-fetch-head", "origin", *_CLONE_REFS, *head)


@contextmanager
def _clone_lock(source: Source, checkouts: Path) -> Iterator[None]:
    """Hold the source's clone for this process. What a killed process left unfinished is removed."""
    try:
        checkouts.mkdir(parents=True, exist_ok=True)
        with (checkouts / f"{source.name}.lock").open("ab") as lock:
            _wait_for(source, lock)
            for leftover in checkouts.glob(f"{_unfinished(source)}*"):
                shutil.rmtree(leftover)
            yield
    except OSError as error:
        what = f"its clone cannot be kept in {checkouts}: {error}"
        raise source_error(
            source, source.url, what, "make that folder writable, with room for the clone"
        ) from error


def _wait_for(source: Source, lock: IO[bytes]) -> None:
    give_up = time.monotonic() + CLONE_LOCK_LIMIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                what = f"another process has held its clone for {CLONE_LOCK_LIMIT_S} s"
                raise source_error(source, source.url, what, f"see who holds {lock.name}") from None
        time.sleep(0.05)
