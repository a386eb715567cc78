"""What a commit of a git repository holds, and the git processes that tell.

What does not belong here: where a repository comes from (git_clones.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from bib_orchestration.biblioteca.corpus.raw_files import (
    Problem,
    RawFile,
    Selection,
    Snapshot,
    SourceError,
    is_lfs_pointer,
    is_utf8,
    shown_path,
    source_error,
    too_large,
    without_credentials,
)
from bib_orchestration.biblioteca.settings import Source

GIT_LIMIT_S = 300
_LINK_MODE = b"120000"
_SUBMODULE_MODE = b"160000"
_GIT_SETTINGS = (
    "-c",
    "core.quotepath=off",
    # Housekeeping left running in the background would outlive us, and our lock.
    "-c",
    "gc.autoDetach=false",
    "-c",
    "maintenance.autoDetach=false",
    # Somebody else's repository runs no programs here.
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
)
# Set inside a git hook, these would send our git to another repository than the one asked for.
_TRANSPORTS = "file:git:http:https:ssh"
_REDIRECTING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
)


@dataclass(frozen=True)
class Repository:
    """A repository on this disk, as `source` asks for it."""

    source: Source
    place: str
    """For messages: the path or address that the settings give."""
    select: tuple[str, ...]
    """git's options that name the repository."""
    folder: str
    """POSIX path of the source's root inside the repository, without a closing slash; "" for all of it."""
    names: tuple[str, ...] = field(default=())
    """What to look up, in order, for `source.ref`."""

    def git(self, *arguments: str) -> bytes:
        """What git prints. Raises SourceError with git's own complaint."""
        done = self.attempt(*arguments)
        if done.returncode:
            raise self.error(f"`git {arguments[0]}` failed: {_complaint(done.stderr)}", _advice(done.stderr))
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return _run_git(self.source, self.place, (*self.select, *arguments))

    def error(self, what: str, right: str) -> SourceError:
        return source_error(self.source, self.place, what, right)

    def find(self) -> str | None:
        """The commit that the source's ref names, if there is one."""
        for name in self.names:
            done = self.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            if done.returncode == 0:
                return done.stdout.decode("ascii").split()[-1]
        return None

    def commit(self) -> str:
        """The commit that the source's ref names. Raises SourceError, with the branches that there are."""
        commit = self.find()
        if commit is None:
            right = f"name a branch, tag or commit that it has ({self._branches()})"
            raise self.error(f"`ref` {self.source.ref!r} not found", right)
        return commit

    def _branches(self) -> str:
        listed = self.git(
            "for-each-ref", "--count=9", "--format=%(refname:short)", "refs/heads", "refs/remotes"
        )
        return ", ".join(listed.decode("utf-8", "replace").split()) or "it has no branch at all"


def read_commit(repository: Repository, commit: str) -> Snapshot:
    """All selected files of a commit. Raises SourceError when the commit as a whole cannot be read."""
    selection = Selection(repository.source)
    wanted: list[tuple[str, str]] = []
    problems = []
    for mode, blob, raw_path in _list_tree(repository, commit):
        path = shown_path(raw_path)
        if mode == _SUBMODULE_MODE:
            # Like a link to a folder: what is behind it cannot be known from here.
            if not selection.excludes(path):
                problems.append(Problem(path, "submodule; make it a source of its own", kept=False))
        elif not selection.takes(path):
            continue
        elif mode == _LINK_MODE:
            problems.append(Problem(path, "link; links in a commit are not followed", kept=False))
        elif not is_utf8(raw_path):
            problems.append(Problem(path, "the name is not valid UTF-8", kept=False))
        else:
            wanted.append((path, blob))
    contents = _read_blobs(repository, {blob for _, blob in wanted})
    files = []
    for path, blob in wanted:
        content = contents[blob]
        if isinstance(content, bytes):
            files.append(RawFile(path, content))
        else:
            problems.append(Problem(path, content.reason, content.kept))
    return Snapshot.of(files, problems, commit)


def _list_tree(repository: Repository, commit: str) -> Iterator[tuple[bytes, str, bytes]]:
    """(mode, object id, path relative to the source's folder) of all that the commit has in it."""
    entries = repository.git("ls-tree", "-r", "-z", "--full-tree", _tree(repository, commit))
    for entry in entries.split(b"\0")[:-1]:
        head, _, path = entry.partition(b"\t")
        mode, _, blob = head.split(b" ")
        yield mode, blob.decode("ascii"), path


def _tree(repository: Repository, commit: str) -> str:
    """The id of the source's folder in the commit."""
    if not repository.folder:
        return commit
    name = f"{commit}:{repository.folder}"
    found = repository.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    tree = found.stdout.decode("ascii").strip()
    if found.returncode or repository.git("cat-file", "-t", tree) != b"tree\n":
        what = f"commit {commit[:12]} ({repository.source.ref}) has no folder {repository.folder!r}"
        raise repository.error(what, "name a folder that is committed there")
    return tree


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    kept: bool


_MISSING = _Refusal("its content is missing from the repository; `git fsck` tells more", kept=True)
_LFS_IN_COMMIT = _Refusal(
    "a Git LFS pointer: the content is not in the commit; "
    'run `git lfs pull` in a checkout and read that as kind = "folder"',
    kept=False,
)


def _read_blobs(repository: Repository, blobs: Iterable[str]) -> Mapping[str, bytes | _Refusal]:
    """The contents of all `blobs`, through one process."""
    blobs = sorted(blobs)
    if not blobs:
        return {}
    # Questions and complaints go through files: with three pipes, the two sides could wait for each other.
    with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as complaints:
        questions.write("".join(f"{blob}\n" for blob in blobs).encode())
        questions.seek(0)
        arguments = (*repository.select, "cat-file", "--batch", "--buffer")
        with _started(repository.source, repository.place, arguments, questions, complaints) as process:
            clock = threading.Timer(GIT_LIMIT_S, _stop, [process])
            clock.start()
            try:
                assert process.stdout is not None
                contents = dict(zip(blobs, _answers(process.stdout), strict=False))
            finally:
                clock.cancel()
        if len(contents) < len(blobs) or process.returncode:
            complaints.seek(0)
            said = complaints.read()
            what = f"`git cat-file` stopped early: {_complaint(said) or f'after {GIT_LIMIT_S} s'}"
            raise repository.error(what, "run `git fsck` in the repository")
    return contents


def _answers(stream: IO[bytes]) -> Iterator[bytes | _Refusal]:
    """What `git cat-file --batch` says, one answer a question; ends where its output ends or is cut off."""
    while (head := stream.readline()).endswith(b"\n"):
        if head.endswith(b" missing\n"):
            yield _MISSING
            continue
        size = int(head.rsplit(b" ", 1)[1])
        if reason := too_large(size):
            if not _skip(stream, size + 1):
                return
            yield _Refusal(reason, kept=False)
            continue
        data = stream.read(size + 1)
        if len(data) <= size:
            return
        yield _LFS_IN_COMMIT if is_lfs_pointer(data[:-1]) else data[:-1]


def _skip(stream: IO[bytes], size: int) -> bool:
    """Read on by `size` bytes; False where the stream ends before."""
    while size and (piece := stream.read(min(size, 1024 * 1024))):
        size -= len(piece)
    return size == 0


def _run_git(source: Source, place: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    with _started(source, place, arguments, subprocess.DEVNULL, subprocess.PIPE) as process:
        try:
            stdout, stderr = process.communicate(timeout=GIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            verb = next(word for word in arguments if not word.startswith("-"))
            what = f"`git {verb}` took over {GIT_LIMIT_S} s"
            raise source_error(source, place, what, "see whether the remote answers") from None
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)


@contextmanager
def _started(
    source: Source, place: str, arguments: Sequence[str], stdin: IO[bytes] | int, stderr: IO[bytes] | int
) -> Iterator[subprocess.Popen[bytes]]:
    """A git process, ended with all its children when the block is left in whatever way."""
    try:
        process = subprocess.Popen(
            ["git", *_GIT_SETTINGS, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=_environment(arguments),
            # Without a terminal nobody can be asked for a password; and its own group can be ended whole.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise source_error(source, place, "git is not installed", "install git, on the PATH") from None
    with process:
        try:
            yield process
        except BaseException:
            _stop(process)
            raise


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(arguments: Sequence[str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
    # Reading starts no transport: what a partial clone lacks is missing, and nothing that its config names is
    # run to get it.
    kept["GIT_ALLOW_PROTOCOL"] = _TRANSPORTS if {"fetch", "clone"} & set(arguments) else "none"
    # Messages in English: `_advice` reads them.
    return kept | {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C", "LANGUAGE": ""}


def _complaint(stderr: bytes) -> str:
    """The line of git's that tells most: the last fatal one with the line before it, else the last."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").split("\n")]
    lines = [line for line in lines if line and not line.startswith(("hint:", "warning:", "Cloning into"))]
    fatal = [number for number, line in enumerate(lines) if line.startswith(("fatal:", "error:"))]
    chosen = lines[max(0, fatal[-1] - 1) : fatal[-1] + 1] if fatal else lines[-1:]
    return without_credentials(" / ".join(chosen))


def _advice(stderr: bytes) -> str:
    if b"dubious ownership" in stderr:
        return (
            "the repository belongs to another user: trust it with "
            "`git config --global --add safe.directory <its path>`"
        )
    if b"not a git repository" in stderr:
        return 'name a checkout, a folder inside one or a bare repository, or set kind = "folder"'
    return "see whether the same git command works by hand"
