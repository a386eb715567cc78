"""What a source holds right now: the raw files of a folder, or of a git commit's tree.

Reading is all this module does. A file that cannot be had becomes a `Problem` beside the others; only when
the source as a whole cannot be read is `SourceError` raised, so that an unmounted disk or a mistyped branch
is never taken for a source that has become empty.

What does not belong here: what the bytes mean (documents.py), and anything that is stored.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from pathspec import GitIgnoreSpec

from bib_orchestration.biblioteca.settings import Source

MAX_BYTES = 32 * 1024 * 1024
GIT_LIMIT_S = 300
CLONE_LOCK_LIMIT_S = 2 * GIT_LIMIT_S

# The whole of a Git LFS pointer file, so that a page which only quotes one is still read.
_LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:[0-9a-f]{64}\nsize \d+\n?"
)
_LFS_POINTER_MAX_BYTES = 1024
_LINK_MODE = b"120000"
_SUBMODULE_MODE = b"160000"
# A clone follows the remote's default branch here: the HEAD that cloning writes never moves again.
_REMOTE_HEAD = "refs/bib/HEAD"
_CLONE_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_CLONE_URL_KEY = "bib.url"
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
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class SourceError(Exception):
    """A source as a whole cannot be read; the message names it, its place, and what would be right."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file as it was read."""

    path: str
    """POSIX, relative to the source's root, exactly as it is stored: never normalised."""
    data: bytes
    """All its bytes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that gave no file, and why."""

    path: str
    """As in `RawFile`, with "\\xff" for bytes that are not UTF-8; ends in "/" for a whole folder."""
    reason: str
    """What was wrong, for a person."""
    kept: bool
    """True: it could not be read just now, so rows of it that exist should stay. False: nothing to index."""


@dataclass(frozen=True)
class Snapshot:
    """What a source holds at one moment."""

    files: list[RawFile]
    """Sorted by path."""
    problems: list[Problem]
    """Sorted by path."""
    commit: str | None
    """The commit's full hash; None for a folder."""


def read_source(source: Source, checkouts: Path) -> Snapshot:
    """Read all files of `source` that its globs select.

    `checkouts` is the folder for bare clones of sources with a `url`; it is made when needed.

    Raises SourceError when the source as a whole cannot be read.
    """
    if source.kind == "folder":
        return _read_folder(source)
    with _repository(source, checkouts) as repository:
        return _read_commit(repository, repository.commit())


def source_fingerprint(source: Source, checkouts: Path) -> str:
    """A string that changes when the source may have: cheap, reads no file's content.

    A folder gives a SHA-256 over (path, size, mtime, ctime) of the selected files and over the problems of
    listing them; a git source gives the commit that `ref` names, after a fetch when `fetch` is set. Settings
    of the source other than its globs do not enter.

    Raises SourceError when the source as a whole cannot be read.
    """
    if source.kind == "git":
        with _repository(source, checkouts) as repository:
            return repository.commit()
    found, problems = _list_folder(source)
    digest = hashlib.sha256()
    for listed in sorted(found, key=lambda listed: listed.path):
        status = listed.status
        digest.update(repr((listed.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode())
    for problem in _sorted(problems):
        digest.update(repr(problem).encode())
    return digest.hexdigest()


def _error(source: Source, place: object, what: str, right: str) -> SourceError:
    place = _CREDENTIALS.sub("***@", str(place))
    return SourceError(f"source {source.name!r} ({place}): {what}; {right}")


def _sorted(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.path, problem.reason))


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Selection:
    """The globs of a source. Nothing below an excluded folder is selected, as in git."""

    def __init__(self, source: Source) -> None:
        self._include = self._globs(source, "include", source.include)
        self._exclude = self._globs(source, "exclude", source.excluded)
        self._pruned: dict[str, bool] = {"": False}

    @staticmethod
    def _globs(source: Source, key: str, globs: Sequence[str]) -> GitIgnoreSpec:
        try:
            # The faster backends are optional packages: the same globs must mean the same everywhere.
            return GitIgnoreSpec.from_lines(globs, backend="simple")
        except ValueError as error:
            raise _error(
                source, source.path or source.url, f"`{key}`: {error}", "write globs as in .gitignore"
            ) from None

    @staticmethod
    def _matches(globs: GitIgnoreSpec, path: str) -> bool:
        # pathspec's patterns take a newline for the end of the name.
        return globs.match_file(path.replace("\n", "\ue000"))

    def prunes(self, folder: str) -> bool:
        """Whether all below `folder` (without a closing slash) is left out."""
        if folder not in self._pruned:
            parent = folder.rpartition("/")[0]
            self._pruned[folder] = self.prunes(parent) or self._matches(self._exclude, folder + "/")
        return self._pruned[folder]

    def excludes(self, path: str) -> bool:
        """Whether `path` is left out, be it a file or a folder."""
        return self.prunes(path) or self._matches(self._exclude, path)

    def takes(self, path: str) -> bool:
        """Whether the file `path` is selected."""
        return (
            self._matches(self._include, path)
            and not self.prunes(path.rpartition("/")[0])
            and not self._matches(self._exclude, path)
        )


# --- folders


@dataclass(frozen=True, slots=True)
class _Listed:
    """A file that a walk found: `place` is where its bytes are (for a link, the target)."""

    path: str
    place: bytes
    status: os.stat_result


class _Walk:
    """One pass over a folder. Names are bytes until they are known to be UTF-8, whatever the locale."""

    def __init__(self, source: Source, root: bytes) -> None:
        self.found: list[_Listed] = []
        self.problems: list[Problem] = []
        self._selection = _Selection(source)
        self._root = root
        self._inside = root.rstrip(b"/") + b"/"

    def run(self) -> None:
        """Fill `found` and `problems`. Raises OSError when the root itself cannot be listed."""
        folders = self._visit(b"")
        while folders:
            folder = folders.pop()
            try:
                folders += self._visit(folder)
            except OSError as error:
                self._refuse(folder + b"/", f"folder cannot be listed: {error.strerror}", kept=True)

    def _visit(self, folder: bytes) -> list[bytes]:
        """Take the files of `folder` (relative to the root); return its folders."""
        folders = []
        with os.scandir(self._inside + folder) as entries:
            for entry in entries:
                path = folder + b"/" + entry.name if folder else entry.name
                try:
                    if self._take(entry, path):
                        folders.append(path)
                except OSError as error:
                    if self._selection.takes(_shown(path)):
                        self._refuse(path, f"cannot be read: {error.strerror}", kept=True)
        return folders

    def _take(self, entry: os.DirEntry[bytes], path: bytes) -> bool:
        """Take the entry if it is a selected file; True if it is a folder to go into."""
        shown = _shown(path)
        if entry.is_symlink():
            self._take_link(path)
        elif entry.is_dir(follow_symlinks=False):
            if self._selection.prunes(shown):
                return False
            if _is_utf8(path):
                return True
            self._refuse(path + b"/", "the folder's name is not valid UTF-8", kept=False)
        elif self._selection.takes(shown):
            self._take_file(path, self._inside + path, entry.stat(follow_symlinks=False))
        return False

    def _take_link(self, path: bytes) -> None:
        shown = _shown(path)
        if self._selection.excludes(shown):
            return
        try:
            target = os.path.realpath(self._inside + path, strict=True)
            status = os.stat(target)  # noqa: PTH116 - the path is bytes
        except OSError as error:
            if not self._selection.takes(shown):
                return
            # A link to nowhere, or to itself, stays so; other errors may pass.
            lasting = error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
            self._refuse(path, f"link that leads nowhere: {error.strerror}", kept=not lasting)
            return
        if stat.S_ISDIR(status.st_mode):
            self._refuse(path, "link to a folder; such links are not followed", kept=False)
        elif not self._selection.takes(shown):
            return
        elif not target.startswith(self._inside):
            self._refuse(path, "link to a file outside the source", kept=False)
        else:
            self._take_file(path, target, status)

    def _take_file(self, path: bytes, place: bytes, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._refuse(path, "not a regular file, but a pipe, socket or device", kept=False)
        elif not _is_utf8(path):
            self._refuse(path, "the name is not valid UTF-8", kept=False)
        elif status.st_size > MAX_BYTES:
            self._refuse(path, _too_large(status.st_size), kept=False)
        else:
            self.found.append(_Listed(path.decode("utf-8"), place, status))

    def _refuse(self, path: bytes, reason: str, *, kept: bool) -> None:
        self.problems.append(Problem(_shown(path), reason, kept))


def _too_large(size: int) -> str:
    return f"{size:,} bytes; files over {MAX_BYTES:,} are not read"


def _list_folder(source: Source) -> tuple[list[_Listed], list[Problem]]:
    assert source.path is not None, "settings let no folder source through without a path"
    right = "name a folder that exists and may be read"
    try:
        root = os.path.realpath(os.fsencode(source.path), strict=True)
        walk = _Walk(source, root)
        walk.run()
    except NotADirectoryError:
        raise _error(source, source.path, "not a folder", right) from None
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        raise _error(source, source.path, what, right) from error
    return walk.found, walk.problems


def _read_folder(source: Source) -> Snapshot:
    found, problems = _list_folder(source)
    files = []
    for listed in found:
        read = _read_listed(listed)
        if isinstance(read, RawFile):
            files.append(read)
        else:
            problems.append(read)
    return Snapshot(sorted(files, key=lambda file: file.path), _sorted(problems), None)


def _read_listed(listed: _Listed) -> RawFile | Problem:
    try:
        data = _read_regular(listed.place)
    except FileNotFoundError:
        return Problem(listed.path, "vanished while the source was being read", kept=True)
    except OSError as error:
        return Problem(listed.path, f"cannot be read: {error.strerror}", kept=True)
    if len(data) > MAX_BYTES:
        return Problem(listed.path, _too_large(len(data)), kept=False)
    if _is_lfs_pointer(data):
        reason = "a Git LFS pointer, without its content; run `git lfs pull` in the checkout"
        return Problem(listed.path, reason, kept=False)
    return RawFile(listed.path, data)


def _read_regular(place: bytes) -> bytes:
    """The file's bytes, at most one over MAX_BYTES. Raises OSError, also when it changes meanwhile."""
    # Since the listing a pipe or a link may have taken the file's place: neither may hold us or lead us away.
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor is no path
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EAGAIN, "no longer a regular file")
        data = file.read(MAX_BYTES + 1)
        after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise OSError(errno.EAGAIN, "it was being written")
    return data


def _is_lfs_pointer(data: bytes) -> bool:
    return len(data) <= _LFS_POINTER_MAX_BYTES and _LFS_POINTER.fullmatch(data) is not None


# --- git


@dataclass(frozen=True)
class _Repository:
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
        return _error(self.source, self.place, what, right)

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


@contextmanager
def _repository(source: Source, checkouts: Path) -> Iterator[_Repository]:
    """The repository of a git source, up to date; a clone of ours stays locked meanwhile."""
    if source.url is None:
        yield _checkout(source)
        return
    with _clone_lock(source, checkouts):
        yield _clone(source, checkouts)


def _checkout(source: Source) -> _Repository:
    """A repository that belongs to somebody else: a checkout, a folder inside one, or a bare one."""
    assert source.path is not None, "settings let no git source through without path and url"
    place = str(source.path)
    if not source.path.is_dir():
        raise _error(
            source, place, "no such folder", "name a checkout, a folder inside one, or a bare repository"
        )
    outside = _Repository(source, place, ("-C", place), "")
    prefix = os.fsdecode(outside.git("rev-parse", "--show-prefix")).removesuffix("\n")
    repository = _Repository(source, place, ("-C", place), prefix.rstrip("/"), (source.ref,))
    if source.fetch:
        repository.git("fetch", "--quiet", "--no-recurse-submodules")
    return repository


def _clone(source: Source, checkouts: Path) -> _Repository:
    """Our bare clone of `source.url`, made or fetched as needed."""
    assert source.url is not None
    place = source.url
    clone = checkouts / f"{source.name}.git"
    names = (_REMOTE_HEAD, "HEAD") if source.ref == "HEAD" else (source.ref,)
    select = (f"--git-dir={clone}",)
    repository = _Repository(source, place, select, _folder_inside(source), names)
    if not clone.is_dir() or _cloned_url(repository) != source.url:
        _make_clone(source, clone)
    elif source.fetch or repository.find() is None:
        _fetch_clone(repository)
    return repository


def _folder_inside(source: Source) -> str:
    folder = PurePosixPath(source.path or "")
    if folder.is_absolute() or ".." in folder.parts:
        right = "with `url`, name a folder inside the repository, such as docs"
        raise _error(source, source.url, f"`path` {str(folder)!r} leads out of the repository", right)
    return "" if folder == PurePosixPath() else str(folder)


def _cloned_url(repository: _Repository) -> str:
    """The `url` that the clone was made for; "" when what lies there is no clone of ours."""
    done = repository.attempt("config", "--local", "--get", _CLONE_URL_KEY)
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else ""


def _make_clone(source: Source, clone: Path) -> None:
    """Clone beside `clone`, then swap it in: a clone that is killed half-way leaves nothing in its place."""
    assert source.url is not None
    beside = Path(tempfile.mkdtemp(prefix=_unfinished(source), dir=clone.parent))
    try:
        fresh = beside / "new"
        outside = _Repository(source, source.url, (), "")
        outside.git("clone", "--quiet", "--bare", "--", source.url, str(fresh))
        # Of a relative path git would note the absolute one, and it would look like another address.
        _Repository(source, source.url, (f"--git-dir={fresh}",), "").git("config", _CLONE_URL_KEY, source.url)
        if clone.exists():
            clone.rename(beside / "old")
        fresh.rename(clone)
    finally:
        shutil.rmtree(beside)


def _unfinished(source: Source) -> str:
    # Names of sources hold no dot, so this is no prefix of another source's.
    return f".{source.name}."


def _fetch_clone(repository: _Repository) -> None:
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
        raise _error(
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
                raise _error(source, source.url, what, f"see who holds {lock.name}") from None
        time.sleep(0.05)


def _read_commit(repository: _Repository, commit: str) -> Snapshot:
    selection = _Selection(repository.source)
    wanted: list[tuple[str, str]] = []
    problems = []
    for mode, blob, raw_path in _list_tree(repository, commit):
        path = _shown(raw_path)
        if mode == _SUBMODULE_MODE:
            # Like a link to a folder: what is behind it cannot be known from here.
            if not selection.excludes(path):
                problems.append(Problem(path, "submodule; make it a source of its own", kept=False))
        elif not selection.takes(path):
            continue
        elif mode == _LINK_MODE:
            problems.append(Problem(path, "link; links in a commit are not followed", kept=False))
        elif not _is_utf8(raw_path):
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
    return Snapshot(sorted(files, key=lambda file: file.path), _sorted(problems), commit)


def _list_tree(repository: _Repository, commit: str) -> Iterator[tuple[bytes, str, bytes]]:
    """(mode, object id, path relative to the source's folder) of all that the commit has in it."""
    entries = repository.git("ls-tree", "-r", "-z", "--full-tree", _tree(repository, commit))
    for entry in entries.split(b"\0")[:-1]:
        head, _, path = entry.partition(b"\t")
        mode, _, blob = head.split(b" ")
        yield mode, blob.decode("ascii"), path


def _tree(repository: _Repository, commit: str) -> str:
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


def _read_blobs(repository: _Repository, blobs: Iterable[str]) -> Mapping[str, bytes | _Refusal]:
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
        if size > MAX_BYTES:
            if not _skip(stream, size + 1):
                return
            yield _Refusal(_too_large(size), kept=False)
            continue
        data = stream.read(size + 1)
        if len(data) <= size:
            return
        yield _LFS_IN_COMMIT if _is_lfs_pointer(data[:-1]) else data[:-1]


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
            raise _error(source, place, what, "see whether the remote answers") from None
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
            env=_environment(),
            # Without a terminal nobody can be asked for a password; and its own group can be ended whole.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise _error(source, place, "git is not installed", "install git, on the PATH") from None
    with process:
        try:
            yield process
        except BaseException:
            _stop(process)
            raise


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
    # Messages in English: `_advice` reads them.
    return kept | {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C", "LANGUAGE": ""}


def _complaint(stderr: bytes) -> str:
    """The line of git's that tells most: the last fatal one with the line before it, else the last."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").split("\n")]
    lines = [line for line in lines if line and not line.startswith(("hint:", "warning:", "Cloning into"))]
    fatal = [number for number, line in enumerate(lines) if line.startswith(("fatal:", "error:"))]
    chosen = lines[max(0, fatal[-1] - 1) : fatal[-1] + 1] if fatal else lines[-1:]
    return _CREDENTIALS.sub("***@", " / ".join(chosen))


def _advice(stderr: bytes) -> str:
    if b"dubious ownership" in stderr:
        return (
            "the repository belongs to another user: trust it with "
            "`git config --global --add safe.directory <its path>`"
        )
    if b"not a git repository" in stderr:
        return 'name a checkout, a folder inside one or a bare repository, or set kind = "folder"'
    return "see whether the same git command works by hand"
