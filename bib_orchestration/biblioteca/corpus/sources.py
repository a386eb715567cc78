"""What a source holds right now: the raw files of a folder, or of a git commit's tree.

Reading is all that happens here. A file that cannot be had becomes a `Problem` beside the others; only when
the source as a whole cannot be read is `SourceError` raised, so that an unmounted disk or a mistyped branch
is never taken for a source that has become empty.

How it is done stands in folders.py, git_clones.py and git_trees.py; what they share, in raw_files.py.

What does not belong here: what the bytes mean (documents.py), and anything that is stored.
"""

from __future__ import annotations

from pathlib import Path

from bib_orchestration.biblioteca.corpus.folders import folder_fingerprint, read_folder
from bib_orchestration.biblioteca.corpus.git_clones import repository_of
from bib_orchestration.biblioteca.corpus.git_trees import read_commit
from bib_orchestration.biblioteca.corpus.raw_files import Problem, RawFile, Snapshot, SourceError
from bib_orchestration.biblioteca.settings import Source

__all__ = ["Problem", "RawFile", "Snapshot", "SourceError", "read_source", "source_fingerprint"]


def read_source(source: Source, checkouts: Path) -> Snapshot:
    """Read all files of `source` that its globs select.

    `checkouts` is the folder for bare clones of sources with a `url`; it is made when needed.

    Raises SourceError when the source as a whole cannot be read.
    """
    if source.kind == "folder":
        return read_folder(source)
    with repository_of(source, checkouts) as repository:
        return read_commit(repository, repository.commit())


def source_fingerprint(source: Source, checkouts: Path) -> str:
    """A string that changes when the source may have: cheap, reads no file's content.

    A folder gives a SHA-256 over (path, size, mtime, ctime) of the selected files and over the problems of
    listing them; a git source gives the commit that `ref` names, after a fetch when `fetch` is set. Settings
    of the source other than its globs do not enter.

    Raises SourceError when the source as a whole cannot be read.
    """
    if source.kind == "git":
        with repository_of(source, checkouts) as repository:
            return repository.commit()
    return folder_fingerprint(source)
