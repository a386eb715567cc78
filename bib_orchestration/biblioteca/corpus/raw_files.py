"""What all kinds of sources have in common: the files and problems they give, their globs, their errors.

What does not belong here: how a folder or a repository is read (folders.py, git_trees.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bib_orchestration.biblioteca.settings import Source

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_BYTES = 32 * 1024 * 1024

# The whole of a Git LFS pointer file, so that a page which only quotes one is still read.
_LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:[0-9a-f]{64}\nsize \d+\n?"
)
_LFS_POINTER_MAX_BYTES = 1024
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

    @classmethod
    def of(cls, files: Iterable[RawFile], problems: Iterable[Problem], commit: str | None) -> Snapshot:
        """The snapshot of files and problems in whatever order they were found."""
        return cls(sorted(files, key=lambda file: file.path), sorted_problems(problems), commit)


def source_error(source: Source, place: object, what: str, right: str) -> SourceError:
    """`what` is wrong with `source` at `place`, and what would be `right`."""
    return SourceError(f"source {source.name!r} ({without_credentials(str(place))}): {what}; {right}")


def without_credentials(text: str) -> str:
    """`text` without the names and passwords in its addresses.

    >>> without_credentials("https://ada:hunter2@example.org/x.git")
    'https://***@example.org/x.git'
    """
    return _CREDENTIALS.sub("***@", text)


def sorted_problems(problems: Iterable[Problem]) -> list[Problem]:
    """As a `Snapshot` has them."""
    return sorted(problems, key=lambda problem: (problem.path, problem.reason))


def shown_path(path: bytes) -> str:
    """`path` for a person, and for globs: bytes that are not UTF-8 as "\\xff"."""
    return path.decode("utf-8", "backslashreplace")


def is_utf8(path: bytes) -> bool:
    """Whether `path` can be a `RawFile`'s."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def too_large(size: int) -> str | None:
    """Why a file of `size` bytes is not read; None when it is."""
    return f"{size:,} bytes; files over {MAX_BYTES:,} are not read" if size > MAX_BYTES else None


def is_lfs_pointer(data: bytes) -> bool:
    """Whether a file is what Git LFS left in place of its content."""
    return len(data) <= _LFS_POINTER_MAX_BYTES and _LFS_POINTER.fullmatch(data) is not None


class Selection:
    """The globs of a source. Nothing below an excluded folder is selected, as in git."""

    def __init__(self, source: Source) -> None:
        self._include = self._globs(source, "include", source.include)
        self._exclude = self._globs(source, "exclude", source.excluded)
        self._pruned: dict[str, bool] = {"": False}

    @staticmethod
    def _globs(source: Source, key: str, globs: Sequence[str]) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        try:
            # The faster backends are optional packages: the same globs must mean the same everywhere.
            return GitIgnoreSpec.from_lines(globs, backend="simple")
        except ValueError as error:
            raise source_error(
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
