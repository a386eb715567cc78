"""A folder's files: what is there, and its bytes.

What does not belong here: git repositories (git_trees.py), and what the bytes mean (documents.py).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass

from bib_orchestration.biblioteca.corpus.raw_files import (
    MAX_BYTES,
    Problem,
    RawFile,
    Selection,
    Snapshot,
    is_lfs_pointer,
    is_utf8,
    shown_path,
    sorted_problems,
    source_error,
    too_large,
)
from bib_orchestration.biblioteca.settings import Source


def folder_fingerprint(source: Source) -> str:
    """SHA-256 over (path, size, mtime, ctime) of the selected files and over the problems of listing them.

    Raises SourceError when the folder as a whole cannot be read.
    """
    found, problems = _list_folder(source)
    digest = hashlib.sha256()
    for listed in sorted(found, key=lambda listed: listed.path):
        status = listed.status
        digest.update(repr((listed.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode())
    for problem in sorted_problems(problems):
        digest.update(repr(problem).encode())
    return digest.hexdigest()


def read_folder(source: Source) -> Snapshot:
    """All selected files of a folder. Raises SourceError when the folder as a whole cannot be read."""
    found, problems = _list_folder(source)
    files = []
    for listed in found:
        read = _read_listed(listed)
        if isinstance(read, RawFile):
            files.append(read)
        else:
            problems.append(read)
    return Snapshot.of(files, problems, None)


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
        self._selection = Selection(source)
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
                    if self._selection.takes(shown_path(path)):
                        self._refuse(path, f"cannot be read: {error.strerror}", kept=True)
        return folders

    def _take(self, entry: os.DirEntry[bytes], path: bytes) -> bool:
        """Take the entry if it is a selected file; True if it is a folder to go into."""
        shown = shown_path(path)
        if entry.is_symlink():
            self._take_link(path)
        elif entry.is_dir(follow_symlinks=False):
            if self._selection.prunes(shown):
                return False
            if is_utf8(path):
                return True
            self._refuse(path + b"/", "the folder's name is not valid UTF-8", kept=False)
        elif self._selection.takes(shown):
            self._take_file(path, self._inside + path, entry.stat(follow_symlinks=False))
        return False

    def _take_link(self, path: bytes) -> None:
        shown = shown_path(path)
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
        elif not is_utf8(path):
            self._refuse(path, "the name is not valid UTF-8", kept=False)
        elif reason := too_large(status.st_size):
            self._refuse(path, reason, kept=False)
        else:
            self.found.append(_Listed(path.decode("utf-8"), place, status))

    def _refuse(self, path: bytes, reason: str, *, kept: bool) -> None:
        self.problems.append(Problem(shown_path(path), reason, kept))


def _list_folder(source: Source) -> tuple[list[_Listed], list[Problem]]:
    assert source.path is not None, "settings let no folder source through without a path"
    right = "name a folder that exists and may be read"
    try:
        root = os.path.realpath(os.fsencode(source.path), strict=True)
        walk = _Walk(source, root)
        walk.run()
    except NotADirectoryError:
        raise source_error(source, source.path, "not a folder", right) from None
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        raise source_error(source, source.path, what, right) from error
    return walk.found, walk.problems


def _read_listed(listed: _Listed) -> RawFile | Problem:
    try:
        data = _read_regular(listed.place)
    except FileNotFoundError:
        return Problem(listed.path, "vanished while the source was being read", kept=True)
    except OSError as error:
        return Problem(listed.path, f"cannot be read: {error.strerror}", kept=True)
    if reason := too_large(len(data)):
        return Problem(listed.path, reason, kept=False)
    if is_lfs_pointer(data):
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
