"""What sources.py promises: the files of a folder, or of a commit, with every problem named."""

from __future__ import annotations

import io
import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bib_orchestration.biblioteca.corpus import folders, git_trees, raw_files
from bib_orchestration.biblioteca.corpus.sources import (
    Problem,
    RawFile,
    Snapshot,
    SourceError,
    read_source,
    source_fingerprint,
)
from bib_orchestration.biblioteca.settings import Source

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
AS_ROOT = os.geteuid() == 0


def git(place: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-C", str(place), *IDENTITY, *arguments], input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def write(root: Path, files: dict[str, bytes | str]) -> None:
    for name, data in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)


def commit(repository: Path, files: dict[str, bytes | str]) -> str:
    write(repository, files)
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--message", "x")
    return git(repository, "rev-parse", "HEAD")


def paths(snapshot: Snapshot) -> list[str]:
    return [file.path for file in snapshot.files]


def problems(snapshot: Snapshot) -> dict[str, Problem]:
    return {problem.path: problem for problem in snapshot.problems}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "wiki"
    made.mkdir()
    return made


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    return tmp_path / "home" / "checkouts"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "--quiet")
    commit(made, {"README.md": "# Léeme\n", "docs/a.md": "a\n", "docs/sub/b.mdx": "b\n", "code.py": "pass\n"})
    return made


def folder(root: Path, **settings: Any) -> Source:
    return Source(name="wiki", path=root, **settings)


def of_git(path: Path | None = None, **settings: Any) -> Source:
    return Source(name="repo", kind="git", path=path, **settings)


class TestFolder:
    def test_selected_files_sorted_with_their_bytes(self, root: Path, checkouts: Path) -> None:
        write(root, {"b.md": b"\xff\r\n", "a/z.mdx": "z", "a/y.markdown": "", "c.txt": "no", "a/d/e.md": "e"})
        snapshot = read_source(folder(root), checkouts)
        assert snapshot == Snapshot(
            [
                RawFile("a/d/e.md", b"e"),
                RawFile("a/y.markdown", b""),
                RawFile("a/z.mdx", b"z"),
                RawFile("b.md", b"\xff\r\n"),
            ],
            [],
            None,
        )
        assert not checkouts.exists()

    def test_globs_are_those_of_gitignore(self, root: Path, checkouts: Path) -> None:
        files = ("a.md", "docs/b.md", "docs/old/c.md", "x/docs/d.md", "docs/keep/e.md", ".venv/f.md", "g.rst")
        write(root, dict.fromkeys(files, "x"))
        source = folder(root, include=("/docs/**/*.md", "*.rst"), exclude=("old/", "!old/c.md"))
        # As in git: what lies below an excluded folder does not come back.
        assert paths(read_source(source, checkouts)) == ["docs/b.md", "docs/keep/e.md", "g.rst"]

    def test_bad_glob(self, root: Path, checkouts: Path) -> None:
        with pytest.raises(SourceError, match=r"'wiki'.*`exclude`.*gitignore"):
            read_source(folder(root, exclude=("a\\",)), checkouts)

    def test_excluded_folders_are_not_entered(
        self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"node_modules/a/b.md": "x", ".git/c.md": "x", "d.md": "d"})
        scandir, entered = os.scandir, []
        monkeypatch.setattr(os, "scandir", lambda place: entered.append(place) or scandir(place))
        assert paths(read_source(folder(root), checkouts)) == ["d.md"]
        assert entered == [os.fsencode(root) + b"/"]

    def test_session_source_leaves_out_log_reports_archive(self, root: Path, checkouts: Path) -> None:
        write(root, dict.fromkeys(("LOG.md", "a/LOG.md", "reports/x.md", "_archive/y.md", "brief.md"), "x"))
        assert paths(read_source(folder(root, source_type="session"), checkouts)) == ["brief.md"]
        assert len(read_source(folder(root), checkouts).files) == 5

    @pytest.mark.parametrize(
        "name",
        [
            'it\'s "quoted".md',
            "two\nlines.md",
            "x\ny/in.md",
            "a\\b.md",
            " .md",
            "-rf.md",
            "$(x).md",
            "ñ🦉.md",
        ],
    )
    def test_odd_names(self, root: Path, checkouts: Path, name: str) -> None:
        write(root, {name: "x"})
        assert read_source(folder(root), checkouts).files == [RawFile(name, b"x")]

    def test_a_newline_ends_no_name(self, root: Path, checkouts: Path) -> None:
        write(root, {"a.md\n": "x"})
        assert read_source(folder(root), checkouts).files == []

    def test_composed_and_decomposed_names_side_by_side(self, root: Path, checkouts: Path) -> None:
        write(root, {"a\u00f1o.md": "NFC", "an\u0303o.md": "NFD"})
        if len(list(root.iterdir())) == 1:
            pytest.skip("this file system takes both names for one")
        assert sorted(paths(read_source(folder(root), checkouts))) == ["an\u0303o.md", "a\u00f1o.md"]

    def test_names_that_are_not_utf8(self, root: Path, checkouts: Path) -> None:
        os.mkdir(os.fsencode(root) + b"/d\xff")  # noqa: PTH102
        for name in (b"/caf\xe9.md", b"/caf\xe9.txt", b"/d\xff/a.md"):
            with open(os.fsencode(root) + name, "wb"):  # noqa: PTH123
                pass
        snapshot = read_source(folder(root), checkouts)
        assert snapshot.files == []
        assert snapshot.problems == [
            Problem(r"caf\xe9.md", "the name is not valid UTF-8", False),
            Problem("d\\xff/", "the folder's name is not valid UTF-8", False),
        ]

    def test_large_line_and_large_file(
        self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"line.md": b"x" * 2_000_000, "large.md": b"x" * 2_000_001})
        monkeypatch.setattr(raw_files, "MAX_BYTES", 2_000_000)
        snapshot = read_source(folder(root), checkouts)
        assert [len(file.data) for file in snapshot.files] == [2_000_000]
        assert snapshot.problems == [
            Problem("large.md", "2,000,001 bytes; files over 2,000,000 are not read", False)
        ]

    def test_lfs_pointer(self, root: Path, checkouts: Path) -> None:
        write(root, {"big.md": LFS, "about.md": LFS + b"\nThis is what a pointer looks like.\n"})
        snapshot = read_source(folder(root), checkouts)
        assert paths(snapshot) == ["about.md"]
        assert "git lfs pull" in problems(snapshot)["big.md"].reason
        assert not problems(snapshot)["big.md"].kept

    @pytest.mark.parametrize("made", ["missing", "file", "loop"])
    def test_root_that_is_no_folder(self, tmp_path: Path, checkouts: Path, made: str) -> None:
        place = tmp_path / "place"
        if made == "file":
            place.write_text("x")
        elif made == "loop":
            place.symlink_to(place)
        for ask in (read_source, source_fingerprint):
            with pytest.raises(SourceError, match=rf"'wiki' \({place}\).*name a folder"):
                ask(folder(place), checkouts)

    def test_root_may_be_a_link(self, root: Path, tmp_path: Path, checkouts: Path) -> None:
        write(root, {"a.md": "a"})
        (root / "b.md").symlink_to("a.md")
        (tmp_path / "link").symlink_to(root)
        assert paths(read_source(folder(tmp_path / "link"), checkouts)) == ["a.md", "b.md"]


class TestFolderLinksAndPipes:
    def test_links(self, root: Path, tmp_path: Path, checkouts: Path) -> None:
        write(root, {"docs/a.md": "a", "node_modules/x/y.md": "x"})
        write(tmp_path, {"outside.md": "secret", "wiki-2/z.md": "secret"})
        for name, target in {
            "inside.md": "docs/a.md",
            "outside.md": "../outside.md",
            "sibling.md": "../wiki-2/z.md",
            "loop": ".",
            "docs/up": "..",
            "self.md": "self.md",
            "dangling.md": "nowhere.md",
            "dangling.txt": "nowhere.txt",
            "folder.md": "docs",
            ".venv": "docs",
            "device.md": "/dev/zero",
        }.items():
            (root / name).symlink_to(target)
        snapshot = read_source(folder(root), checkouts)
        assert snapshot.files == [RawFile("docs/a.md", b"a"), RawFile("inside.md", b"a")]
        found = problems(snapshot)
        assert sorted(found) == [
            "dangling.md",
            "device.md",
            "docs/up",
            "folder.md",
            "loop",
            "outside.md",
            "self.md",
            "sibling.md",
        ]
        assert not any(problem.kept for problem in found.values())
        assert "outside" in found["outside.md"].reason
        assert "outside" in found["sibling.md"].reason
        assert "not followed" in found["loop"].reason

    def test_pipes_and_sockets_are_never_opened(self, root: Path, checkouts: Path) -> None:
        os.mkfifo(root / "pipe.md")
        (root / "link.md").symlink_to("pipe.md")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(root / "socket.md"))
            done = threading.Event()
            # A writer that is let in would show that somebody opened the pipe.
            writer = threading.Thread(target=_opened, args=(root / "pipe.md", done), daemon=True)
            writer.start()
            snapshot = read_source(folder(root), checkouts)
            source_fingerprint(folder(root), checkouts)
            assert not done.wait(0.2)
        assert sorted(problems(snapshot)) == ["link.md", "pipe.md", "socket.md"]
        assert not any(problem.kept for problem in snapshot.problems)
        (root / "pipe.md").open("rb", buffering=0).close()
        writer.join(5)

    def test_a_pipe_that_takes_a_files_place_is_not_waited_for(
        self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"a.md": "a"})

        def swap(place: Path) -> None:
            place.unlink()
            os.mkfifo(place)

        before_reading(monkeypatch, swap)
        assert problems(read_source(folder(root), checkouts))["a.md"].kept


def _opened(place: Path, done: threading.Event) -> None:
    place.open("wb", buffering=0).close()
    done.set()


def before_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]) -> None:
    """Do `act` to each file between its listing and its reading."""
    read = folders._read_regular

    def read_after(place: bytes) -> bytes:
        act(Path(os.fsdecode(place)))
        return read(place)

    monkeypatch.setattr(folders, "_read_regular", read_after)


class TestFolderThatChangesOrRefuses:
    def test_file_that_vanishes(self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(root, {"a.md": "a", "b.md": "b"})
        before_reading(monkeypatch, lambda place: place.unlink() if place.name == "a.md" else None)
        snapshot = read_source(folder(root), checkouts)
        assert paths(snapshot) == ["b.md"]
        assert snapshot.problems == [Problem("a.md", "vanished while the source was being read", True)]

    def test_file_that_becomes_a_link(
        self, root: Path, tmp_path: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"a.md": "a"})
        write(tmp_path, {"secret.md": "secret"})

        def swap(place: Path) -> None:
            place.unlink()
            place.symlink_to(tmp_path / "secret.md")

        before_reading(monkeypatch, swap)
        snapshot = read_source(folder(root), checkouts)
        assert snapshot.files == []
        assert problems(snapshot)["a.md"].kept

    def test_file_that_is_being_written(
        self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"a.md": "a"})
        fstat, asked = os.fstat, []

        def grow(descriptor: int) -> os.stat_result:
            asked.append(descriptor)
            if len(asked) == 2:
                write(root, {"a.md": "aa"})
            return fstat(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", grow)
            snapshot = read_source(folder(root), checkouts)
        assert problems(snapshot)["a.md"] == Problem("a.md", "cannot be read: it was being written", True)

    def test_folder_that_vanishes_keeps_what_was_below(
        self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(root, {"a.md": "a", "docs/b.md": "b"})
        scandir = os.scandir

        def scan(place: Any) -> Any:
            if isinstance(place, bytes) and place.endswith(b"docs"):
                (root / "docs" / "b.md").unlink()
                (root / "docs").rmdir()
            return scandir(place)

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", scan)
            snapshot = read_source(folder(root), checkouts)
        assert paths(snapshot) == ["a.md"]
        assert problems(snapshot)["docs/"].kept

    @pytest.mark.skipif(AS_ROOT, reason="root may read everything")
    def test_permissions(self, root: Path, checkouts: Path) -> None:
        write(root, {"a.md": "a", "docs/b.md": "b"})
        (root / "a.md").chmod(0)
        (root / "docs").chmod(0)
        try:
            snapshot = read_source(folder(root), checkouts)
        finally:
            (root / "docs").chmod(stat.S_IRWXU)
        assert [(problem.path, problem.kept) for problem in snapshot.problems] == [
            ("a.md", True),
            ("docs/", True),
        ]

    def test_a_name_too_long_to_open_is_one_problem(self, root: Path, checkouts: Path) -> None:
        # Root may read everything, but nobody can name a path of over 4,095 bytes at once.
        write(root, {"a.md": "a"})
        deep = os.open(root, os.O_RDONLY)
        for _ in range(17):
            os.mkdir("d" * 250, dir_fd=deep)
            below = os.open("d" * 250, os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = below
        os.close(deep)
        snapshot = read_source(folder(root), checkouts)
        shutil.rmtree(root)
        assert paths(snapshot) == ["a.md"]
        assert [problem.kept for problem in snapshot.problems] == [True]
        assert snapshot.problems[0].path.endswith("d/")


class TestFingerprint:
    def test_changes_with_selected_files_only(self, root: Path, checkouts: Path) -> None:
        write(root, {"a.md": "a", "c.txt": "c"})
        seen = [source_fingerprint(folder(root), checkouts)]
        write(root, {"c.txt": "other", "node_modules/x.md": "x"})
        assert source_fingerprint(folder(root), checkouts) == seen[0]
        write(root, {"b.md": "b"})
        seen.append(source_fingerprint(folder(root), checkouts))
        (root / "b.md").rename(root / "c.md")
        seen.append(source_fingerprint(folder(root), checkouts))
        (root / "c.md").unlink()
        assert source_fingerprint(folder(root), checkouts) == seen[0]
        write(root, {"a.md": "aa"})
        seen.append(source_fingerprint(folder(root), checkouts))
        assert len(set(seen)) == 4

    def test_sees_an_edit_that_keeps_size_and_mtime(self, root: Path, checkouts: Path) -> None:
        write(root, {"a.md": "a"})
        before, status = source_fingerprint(folder(root), checkouts), (root / "a.md").stat()
        time.sleep(0.02)
        write(root, {"a.md": "b"})
        os.utime(root / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert source_fingerprint(folder(root), checkouts) != before

    def test_of_git_is_the_commit(self, repository: Path, checkouts: Path) -> None:
        head = git(repository, "rev-parse", "HEAD")
        assert source_fingerprint(of_git(repository), checkouts) == head
        write(repository, {"README.md": "dirty"})
        assert source_fingerprint(of_git(repository), checkouts) == head


class TestGitCheckout:
    def test_reads_the_commit_and_not_the_work_tree(self, repository: Path, checkouts: Path) -> None:
        write(repository, {"README.md": "dirty", "new.md": "untracked", "staged.md": "staged"})
        git(repository, "add", "staged.md")
        (repository / "docs/a.md").unlink()
        snapshot = read_source(of_git(repository), checkouts)
        assert snapshot.files == [
            RawFile("README.md", "# Léeme\n".encode()),
            RawFile("docs/a.md", b"a\n"),
            RawFile("docs/sub/b.mdx", b"b\n"),
        ]
        assert snapshot.commit == git(repository, "rev-parse", "HEAD")
        assert snapshot.problems == []
        assert not checkouts.exists()

    def test_folder_inside(self, repository: Path, checkouts: Path) -> None:
        snapshot = read_source(of_git(repository / "docs", include=("/*.md",)), checkouts)
        assert snapshot.files == [RawFile("a.md", b"a\n")]

    def test_folder_that_is_not_committed(self, repository: Path, checkouts: Path) -> None:
        (repository / "drafts").mkdir()
        with pytest.raises(SourceError, match="has no folder 'drafts'"):
            read_source(of_git(repository / "drafts"), checkouts)

    def test_what_the_config_of_a_repository_names_is_not_run(
        self, repository: Path, tmp_path: Path, checkouts: Path
    ) -> None:
        ran, theirs = tmp_path / "ran", tmp_path / "theirs"
        git(tmp_path, "clone", "--quiet", str(repository), "theirs")
        git(theirs, "config", "remote.origin.uploadpack", f"touch {ran}; git-upload-pack")
        assert read_source(of_git(theirs, fetch=True), checkouts).files
        # A partial clone would fetch what it lacks while it is read.
        git(theirs, "config", "extensions.partialClone", "origin")
        git(theirs, "config", "remote.origin.promisor", "true")
        blob = git(theirs, "rev-parse", "HEAD:README.md")
        (theirs / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        found = problems(read_source(of_git(theirs), checkouts))
        assert found["README.md"].kept
        assert not ran.exists()

    def test_bare_repository(self, repository: Path, tmp_path: Path, checkouts: Path) -> None:
        git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare.git")
        assert len(read_source(of_git(tmp_path / "bare.git"), checkouts).files) == 3

    def test_refs(self, repository: Path, checkouts: Path) -> None:
        first = git(repository, "rev-parse", "HEAD")
        git(repository, "tag", "--annotate", "-m", "x", "v1")
        second = commit(repository, {"c.md": "c"})
        for ref, expected in {
            "v1": first,
            "main": second,
            "HEAD": second,
            "HEAD~1": first,
            first[:9]: first,
        }.items():
            assert read_source(of_git(repository, ref=ref), checkouts).commit == expected

    @pytest.mark.parametrize("ref", ["nowhere", "main; touch x", "main:docs"])
    def test_unknown_ref(self, repository: Path, checkouts: Path, ref: str) -> None:
        for ask in (read_source, source_fingerprint):
            with pytest.raises(SourceError, match=r"'repo'.*`ref` .* not found; .*main"):
                ask(of_git(repository, ref=ref), checkouts)

    def test_repository_without_commits(self, tmp_path: Path, checkouts: Path) -> None:
        git(tmp_path, "init", "--quiet", "empty")
        with pytest.raises(SourceError, match="no branch at all"):
            read_source(of_git(tmp_path / "empty"), checkouts)

    def test_no_repository(self, root: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
        with pytest.raises(SourceError, match=r"not a git repository.*kind = .folder"):
            read_source(of_git(root), checkouts)
        with pytest.raises(SourceError, match="no such folder"):
            read_source(of_git(root / "missing"), checkouts)

    def test_git_not_installed(
        self, repository: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(checkouts))
        with pytest.raises(SourceError, match="git is not installed"):
            read_source(of_git(repository), checkouts)

    @pytest.mark.skipif(not AS_ROOT, reason="only root can give a folder away")
    def test_repository_of_another_user(
        self, repository: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.delenv("SUDO_UID", raising=False)
        for place in (repository, repository / ".git"):
            os.chown(place, 12345, 12345)
        with pytest.raises(SourceError, match=r"dubious ownership.*safe\.directory"):
            read_source(of_git(repository), checkouts)

    def test_environment_of_a_hook_does_not_lead_elsewhere(
        self, repository: Path, tmp_path: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        git(tmp_path, "init", "--quiet", "other")
        head = git(repository, "rev-parse", "HEAD")
        for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "other" / ".git"))
        assert source_fingerprint(of_git(repository), checkouts) == head

    def test_odd_names(self, repository: Path, checkouts: Path) -> None:
        names = [
            'it\'s "q".md',
            "two\nlines.md",
            "x\ny/in.md",
            "a\tb.md",
            "a\u00f1o.md",
            "an\u0303o.md",
            "🦉.md",
        ]
        commit(repository, dict.fromkeys(names, "x"))
        found = paths(read_source(of_git(repository), checkouts))
        assert set(names) <= set(found)
        assert found == sorted(found)

    def test_folder_with_an_odd_name(self, repository: Path, checkouts: Path) -> None:
        commit(repository, {'a "b"\nñ: c/in.md': "x"})
        assert paths(read_source(of_git(repository / 'a "b"\nñ: c'), checkouts)) == ["in.md"]

    def test_globs_as_in_a_folder(self, repository: Path, checkouts: Path) -> None:
        commit(repository, dict.fromkeys(("LOG.md", "reports/a.md", "old/b.md", "node_modules/c.md"), "x"))
        source = of_git(repository, source_type="session", exclude=("old/", "!old/b.md", "docs/"))
        assert paths(read_source(source, checkouts)) == ["README.md"]

    def test_links_submodules_and_lfs_pointers_are_problems(self, repository: Path, checkouts: Path) -> None:
        head = git(repository, "rev-parse", "HEAD")
        (repository / "link.md").symlink_to("docs/a.md")
        (repository / "link.txt").symlink_to("docs/a.md")
        commit(repository, {"big.md": LFS})
        for name in ("vendor", "node_modules"):
            git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},{name}")
        git(repository, "commit", "--quiet", "-m", "submodules")
        snapshot = read_source(of_git(repository), checkouts)
        assert len(snapshot.files) == 3
        assert [(problem.path, problem.kept) for problem in snapshot.problems] == [
            ("big.md", False),
            ("link.md", False),
            ("vendor", False),
        ]
        assert "git lfs pull" in problems(snapshot)["big.md"].reason
        assert "link" in problems(snapshot)["link.md"].reason
        assert "submodule" in problems(snapshot)["vendor"].reason

    def test_name_that_is_not_utf8(self, repository: Path, checkouts: Path) -> None:
        blob = git(repository, "hash-object", "-w", "--stdin", stdin=b"x")
        git(
            repository,
            "update-index",
            "-z",
            "--index-info",
            stdin=f"100644 {blob}\t".encode() + b"caf\xe9.md\0",
        )
        git(repository, "commit", "--quiet", "-m", "x")
        assert [p.path for p in read_source(of_git(repository), checkouts).problems] == [r"caf\xe9.md"]

    def test_contents_come_back_byte_for_byte(
        self, repository: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(raw_files, "MAX_BYTES", 2_000_000)
        files: dict[str, bytes | str] = {
            "line.md": b"x" * 2_000_000,
            "large.md": b"y" * 2_000_001,
            "empty.md": b"",
            "same-1.md": b"same\r\n",
            "same-2.md": b"same\r\n",
            "newlines.md": b"\n\n missing\n",
            **{f"many/{number}.md": f"{number}\n" * 1000 for number in range(400)},
        }
        head = commit(repository, files)
        snapshot = read_source(of_git(repository), checkouts)
        read = {file.path: file.data for file in snapshot.files}
        del files["large.md"]
        for name, data in files.items():
            assert read[name] == (data.encode() if isinstance(data, str) else data)
        assert [(p.path, p.kept) for p in snapshot.problems] == [("large.md", False)]
        assert snapshot.commit == head

    def test_missing_object_keeps_its_rows(self, repository: Path, checkouts: Path) -> None:
        blob = git(repository, "rev-parse", "HEAD:docs/a.md")
        (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
        snapshot = read_source(of_git(repository), checkouts)
        assert paths(snapshot) == ["README.md", "docs/sub/b.mdx"]
        assert problems(snapshot)["docs/a.md"].kept

    def test_damaged_object_keeps_its_rows(self, repository: Path, checkouts: Path) -> None:
        blob = git(repository, "rev-parse", "HEAD:docs/a.md")
        damaged = repository / ".git/objects" / blob[:2] / blob[2:]
        damaged.chmod(0o644)
        damaged.write_bytes(b"damage")
        assert problems(read_source(of_git(repository), checkouts))["docs/a.md"].kept

    def test_output_that_is_cut_off_gives_no_file(self) -> None:
        whole = b"c0ffee blob 3\nabc\n"
        assert list(git_trees._answers(io.BytesIO(whole + whole))) == [b"abc", b"abc"]
        for cut in range(len(whole)):
            assert list(git_trees._answers(io.BytesIO(whole + whole[:cut]))) == [b"abc"]

    def test_damaged_pack_is_an_error(self, repository: Path, checkouts: Path) -> None:
        git(repository, "gc", "--quiet")
        (pack,) = (repository / ".git/objects/pack").glob("*.pack")
        pack.chmod(0o644)
        pack.write_bytes(pack.read_bytes()[:60])
        with pytest.raises(SourceError):
            read_source(of_git(repository), checkouts)

    def test_fetch_in_a_checkout(self, repository: Path, tmp_path: Path, checkouts: Path) -> None:
        git(tmp_path, "clone", "--quiet", str(repository), "checkout")
        new = commit(repository, {"c.md": "c"})
        source = of_git(tmp_path / "checkout", ref="origin/main")
        assert source_fingerprint(source, checkouts) != new
        assert source_fingerprint(source.model_copy(update={"fetch": True}), checkouts) == new
        assert not (tmp_path / "checkout" / "c.md").exists()

    def test_failed_fetch(self, repository: Path, tmp_path: Path, checkouts: Path) -> None:
        git(repository, "remote", "add", "origin", str(tmp_path / "gone"))
        with pytest.raises(SourceError, match=r"`git fetch` failed: .*Could not read from remote repository"):
            source_fingerprint(of_git(repository, fetch=True), checkouts)


class TestGitClone:
    @pytest.mark.parametrize("scheme", ["", "file://"])
    def test_clone(self, repository: Path, checkouts: Path, scheme: str) -> None:
        source = of_git(url=f"{scheme}{repository}")
        snapshot = read_source(source, checkouts)
        assert len(snapshot.files) == 3
        assert snapshot.commit == git(repository, "rev-parse", "HEAD")
        assert sorted(place.name for place in checkouts.iterdir()) == ["repo.git", "repo.lock"]

    def test_folder_inside(self, repository: Path, checkouts: Path) -> None:
        source = of_git(Path("docs/sub/"), url=str(repository))
        assert read_source(source, checkouts).files == [RawFile("b.mdx", b"b\n")]
        for path in ("README.md", "nowhere"):
            with pytest.raises(SourceError, match=f"has no folder '{path}'"):
                read_source(of_git(Path(path), url=str(repository)), checkouts)
        for path in ("../docs", "/docs"):
            with pytest.raises(SourceError, match="leads out of the repository"):
                read_source(of_git(Path(path), url=str(repository)), checkouts)

    @pytest.mark.parametrize("ref", ["HEAD", "main"])
    def test_fetch_sees_a_new_commit(self, repository: Path, checkouts: Path, ref: str) -> None:
        still, fresh = of_git(url=str(repository), ref=ref), of_git(url=str(repository), ref=ref, fetch=True)
        old = source_fingerprint(still, checkouts)
        new = commit(repository, {"c.md": "c"})
        assert source_fingerprint(still, checkouts) == old
        assert source_fingerprint(fresh, checkouts) == new
        assert read_source(fresh, checkouts).commit == new

    def test_fetch_follows_rewritten_and_removed_branches(self, repository: Path, checkouts: Path) -> None:
        git(repository, "branch", "topic")
        source = of_git(url=str(repository), ref="topic", fetch=True)
        read_source(source, checkouts)
        commit(repository, {"c.md": "c"})
        git(repository, "commit", "--quiet", "--amend", "-m", "rewritten")
        rewritten = git(repository, "rev-parse", "HEAD")
        git(repository, "branch", "--force", "topic")
        assert source_fingerprint(source, checkouts) == rewritten
        git(repository, "branch", "--delete", "--force", "topic")
        with pytest.raises(SourceError, match="'topic' not found"):
            source_fingerprint(source, checkouts)

    def test_fetch_follows_the_default_branch(self, repository: Path, checkouts: Path) -> None:
        source = of_git(url=str(repository), fetch=True)
        source_fingerprint(source, checkouts)
        git(repository, "branch", "--move", "main", "trunk")
        new = commit(repository, {"c.md": "c"})
        assert source_fingerprint(source, checkouts) == new
        newer = commit(repository, {"c.md": "d"})
        assert source_fingerprint(source, checkouts) == newer

    def test_a_ref_that_is_not_there_yet_is_fetched(self, repository: Path, checkouts: Path) -> None:
        source_fingerprint(of_git(url=str(repository)), checkouts)
        new = commit(repository, {"c.md": "c"})
        git(repository, "tag", "v2")
        assert source_fingerprint(of_git(url=str(repository), ref="v2"), checkouts) == new
        with pytest.raises(SourceError, match=r"'v3' not found; .*main"):
            source_fingerprint(of_git(url=str(repository), ref="v3"), checkouts)

    def test_another_url_is_cloned_anew(self, repository: Path, tmp_path: Path, checkouts: Path) -> None:
        read_source(of_git(url=str(repository)), checkouts)
        other = tmp_path / "other"
        git(tmp_path, "init", "--quiet", "other")
        head = commit(other, {"only.md": "x"})
        assert read_source(of_git(url=str(other)), checkouts).commit == head
        assert sorted(place.name for place in checkouts.iterdir()) == ["repo.git", "repo.lock"]

    def test_relative_url_is_cloned_once(
        self, repository: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(repository.parent)
        source = of_git(url="./repo", fetch=True)
        source_fingerprint(source, checkouts)
        made = (checkouts / "repo.git").stat().st_ino
        new = commit(repository, {"c.md": "c"})
        assert source_fingerprint(source, checkouts) == new
        assert (checkouts / "repo.git").stat().st_ino == made

    def test_failed_clone_leaves_nothing(self, tmp_path: Path, checkouts: Path) -> None:
        with pytest.raises(SourceError, match=r"`git clone` failed: .*gone"):
            read_source(of_git(url=f"file://{tmp_path}/gone"), checkouts)
        assert [place.name for place in checkouts.iterdir()] == ["repo.lock"]

    def test_failed_fetch_is_an_error_and_not_the_old_commit(self, repository: Path, checkouts: Path) -> None:
        source = of_git(url=str(repository), fetch=True)
        read_source(source, checkouts)
        repository.rename(repository.with_name("moved"))
        with pytest.raises(SourceError, match=r"`git fetch` failed: .*Could not read from remote repository"):
            read_source(source, checkouts)

    def test_leftovers_of_a_killed_clone_are_removed(self, repository: Path, checkouts: Path) -> None:
        write(checkouts, {".repo.killed/new/HEAD": "half", ".repo-2.busy/new/HEAD": "not ours"})
        write(checkouts, {"repo.git/HEAD": "half-made by something else"})
        assert len(read_source(of_git(url=str(repository)), checkouts).files) == 3
        assert sorted(p.name for p in checkouts.iterdir()) == [".repo-2.busy", "repo.git", "repo.lock"]

    def test_damaged_clone_inside_another_repository(self, repository: Path, tmp_path: Path) -> None:
        # BIB_HOME often lies inside a checkout, which git would find in the clone's stead.
        git(tmp_path, "init", "--quiet", "project")
        checkouts = tmp_path / "project" / "data"
        source = of_git(url=str(repository))
        head = source_fingerprint(source, checkouts)
        (checkouts / "repo.git" / "HEAD").unlink()
        assert source_fingerprint(source, checkouts) == head

    def test_two_at_once(self, repository: Path, checkouts: Path) -> None:
        source, seen = of_git(url=str(repository), fetch=True), []
        threads = [
            threading.Thread(target=lambda: seen.append(source_fingerprint(source, checkouts)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [git(repository, "rev-parse", "HEAD")] * 4

    def test_a_remote_that_never_answers(
        self, tmp_path: Path, checkouts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(git_trees, "GIT_LIMIT_S", 1)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            started = time.monotonic()
            with pytest.raises(SourceError, match="`git clone` took over 1 s"):
                read_source(of_git(url=f"git://127.0.0.1:{silent.getsockname()[1]}/x"), checkouts)
        assert time.monotonic() - started < 5
        assert [place.name for place in checkouts.iterdir()] == ["repo.lock"]

    def test_passwords_are_not_shown(self, checkouts: Path) -> None:
        with pytest.raises(SourceError) as caught:
            read_source(of_git(url="http://ada:hunter2@127.0.0.1:9/x.git"), checkouts)
        assert "hunter2" not in str(caught.value)
        assert "***@127.0.0.1" in str(caught.value)

    def test_checkouts_that_cannot_be_made(self, repository: Path, tmp_path: Path) -> None:
        write(tmp_path, {"file": "x"})
        with pytest.raises(SourceError, match="make that folder writable"):
            read_source(of_git(url=str(repository)), tmp_path / "file" / "checkouts")
