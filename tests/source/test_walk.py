"""Which files a walk finds, and what it survives."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from torchvet.check.source.walk import NOTEBOOK, PYTHON, read, walk
from torchvet.findings import UserError

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
not_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")


def make(top: Path, *paths: str) -> None:
    for path in paths:
        full = top / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text("x = 1\n")


def names(top: Path, *given: str, **options: object) -> list[str]:
    paths = [str(top / g) for g in given] or [str(top)]
    return [row[0] for row in walk(paths, root=str(top), **options).files]  # type: ignore[arg-type]


def test_rows_are_sorted_and_say_size_time_and_kind(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.py", "a.ipynb", "notes.txt", "a.pyi", "train")
    found = walk([str(tmp_path)], root=str(tmp_path))
    assert [(r[0], r[4]) for r in found.files] == [("a.ipynb", NOTEBOOK), ("a/z.py", PYTHON), ("b.py", PYTHON)]
    status = (tmp_path / "b.py").stat()
    assert found.files[-1][1:4] == (str(tmp_path / "b.py"), status.st_size, status.st_mtime_ns)
    assert not found.problems and not found.skipped


def test_excluded_and_hidden_folders(tmp_path: Path) -> None:
    make(
        tmp_path, "src/a.py", "build/b.py", "src/build/c.py", "node_modules/d.py", ".hidden/e.py", ".github/f.py", ".git/g.py",
        "lib/site-packages/h.py", "env2/x.py", "env2/pyvenv.cfg", "conda/y.py", "conda/conda-meta/z.py", ".circleci/i.py",
        "p.egg-info/j.py", "src/__pycache__/k.py", ".devcontainer/l.py", "src/._a.py", ".conf.py",
    )  # fmt: skip
    assert names(tmp_path) == [".circleci/i.py", ".conf.py", ".devcontainer/l.py", ".github/f.py", "src/a.py"]
    assert names(tmp_path, extend_exclude=["src/*.py", ".c*"]) == [".devcontainer/l.py", ".github/f.py"]
    assert "build/b.py" in names(tmp_path, exclude=["node_modules"])


def test_given_paths_are_checked_whatever_the_patterns_say(tmp_path: Path) -> None:
    make(tmp_path, "build/b.py", "build/sub/build/c.py", ".hidden/e.py", "tool")
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / ".git").mkdir()
    assert names(tmp_path, "build/b.py", ".hidden/e.py") == [".hidden/e.py", "build/b.py"]
    assert names(tmp_path, "build/b.py", "tool", force_exclude=True) == ["tool"]
    assert names(tmp_path, "build", respect_gitignore=False) == ["build/b.py"]
    assert names(tmp_path, "build/b.py", "build/b.py", ".") == ["build/b.py"]


def test_a_given_file_needs_no_telling_name(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python3\nx = 1\n")
    assert walk([str(tmp_path / "train")], root=str(tmp_path)).files[0][4] == PYTHON
    assert names(tmp_path) == []


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        walk([str(tmp_path / "no.py")])
    assert "no.py does not exist" in str(caught.value)


def test_files_outside_the_root(tmp_path: Path) -> None:
    make(tmp_path, "one/a.py", "two/b.py")
    found = walk([str(tmp_path / "one"), str(tmp_path / "two" / "b.py")], root=str(tmp_path / "one"))
    assert [r[0] for r in found.files] == ["../two/b.py", "a.py"]


def test_ignore_files_from_the_top_of_the_repository(tmp_path: Path) -> None:
    make(
        tmp_path,
        "src/a.py",
        "src/gen/b.py",
        "src/gen/keep.py",
        "src/old.py",
        "src/deep/old.py",
        "sub/c.py",
        "sub/out/d.py",
    )
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("old.py\n")
    (tmp_path / ".gitignore").write_text("src/gen/*\nout/\n")
    (tmp_path / "src" / ".gitignore").write_text("!gen/keep.py\n!deep/old.py\n")
    assert names(tmp_path) == ["src/a.py", "src/deep/old.py", "src/gen/keep.py", "sub/c.py"]
    assert names(tmp_path, "src") == ["src/a.py", "src/deep/old.py", "src/gen/keep.py"]
    assert "src/gen/b.py" in names(tmp_path, respect_gitignore=False)


def test_a_repository_inside_has_rules_of_its_own(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "inner/a.py", "inner/b.py")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/a.py\nb.py\n")
    (tmp_path / "real" / "info").mkdir(parents=True)
    (tmp_path / "real" / "info" / "exclude").write_text("a.py\n")
    (tmp_path / "inner" / ".git").write_text("gitdir: ../real\n")
    assert names(tmp_path) == ["inner/b.py"]


def test_project_roots(tmp_path: Path) -> None:
    make(tmp_path, "pyproject.toml", "one/requirements-dev.txt", "one/x/a.py", "two/setup.py", "three/b.py")
    found = walk([str(tmp_path)], root=str(tmp_path))
    assert found.roots == {"", "one", "two"}
    assert found.project_root("one/x/a.py") == "one"
    assert found.project_root("three/b.py") == ""
    single = walk([str(tmp_path / "one" / "x" / "a.py")], root=str(tmp_path))
    assert single.project_root("one/x/a.py") == "one"
    make(tmp_path / "bare", "c.py")
    (tmp_path / "pyproject.toml").unlink()
    assert walk([str(tmp_path)], root=str(tmp_path)).project_root("bare/c.py") is None


@posix
def test_links(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "pkg/b.py")
    make(tmp_path.parent / (tmp_path.name + "_out"), "c.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "pkg" / "up").symlink_to("..")
    (tmp_path / "again.py").symlink_to("a.py")
    (tmp_path / "outside.py").symlink_to(tmp_path.parent / (tmp_path.name + "_out") / "c.py")
    (tmp_path / "dead.py").symlink_to("nowhere.py")
    (tmp_path / "round.py").symlink_to("round.py")
    (tmp_path / "folder.py").symlink_to("pkg")
    found = walk([str(tmp_path)], root=str(tmp_path))
    assert [r[0] for r in found.files] == ["a.py", "outside.py", "pkg/b.py"]
    assert [(path, str(text)) for path, text in found.skipped] == [
        ("dead.py", "is a link that leads nowhere"),
        ("round.py", "is a link that leads nowhere"),
    ]
    assert names(tmp_path, "loop/pkg") == ["loop/pkg/b.py"]
    given = walk([str(tmp_path / "dead.py")], root=str(tmp_path))
    assert not given.files and given.skipped[0][0] == "dead.py"


@posix
def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "dir.py").mkdir()
    make(tmp_path, "dir.py/a.py")
    here = socket.socket(socket.AF_UNIX)
    os.chdir(tmp_path)  # the path of a socket is short
    here.bind("socket.py")
    found = walk([str(tmp_path)], root=str(tmp_path))
    here.close()
    assert [r[0] for r in found.files] == ["dir.py/a.py"]
    assert [(p, str(t)) for p, t in found.skipped] == [
        ("pipe.py", "is not a regular file"), ("socket.py", "is not a regular file"),
    ]  # fmt: skip
    assert walk([str(tmp_path / "pipe.py")], root=str(tmp_path)).skipped[0][0] == "pipe.py"
    with pytest.raises(OSError):
        read(str(tmp_path / "pipe.py"))


@posix
def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.py", "shut/b.py", "z.py")
    scandir = os.scandir

    def closed(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    found = walk([str(tmp_path)], root=str(tmp_path))
    assert [r[0] for r in found.files] == ["a.py", "z.py"]
    assert [(p, str(t)) for p, t in found.problems] == [("shut", "folder cannot be read: Permission denied")]
    assert "无法读取" in found.problems[0][1].render("zh")


@not_root
def test_unreadable_for_real(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "shut/b.py")
    (tmp_path / "shut").chmod(0)
    (tmp_path / "a.py").chmod(0)
    try:
        found = walk([str(tmp_path)], root=str(tmp_path))
        assert [p for p, _ in found.problems] == ["shut"]
        with pytest.raises(PermissionError):
            read(found.files[0][1])
    finally:
        (tmp_path / "shut").chmod(0o700)


def test_read_gives_every_byte(tmp_path: Path) -> None:
    for size in (0, 1, 70_000, 3_000_000):
        data = bytes(range(251)) * (size // 251 + 1)
        (tmp_path / "x").write_bytes(data[:size])
        assert read(str(tmp_path / "x")) == data[:size]
    if sys.platform == "linux":
        with open("/proc/self/maps", "rb") as f:
            assert len(read("/proc/self/maps")) >= len(f.read()) // 2  # its size is said to be 0


@posix
def test_names_that_are_no_text(tmp_path: Path) -> None:
    try:
        with open(os.fsencode(tmp_path) + b"/caf\xe9.py", "w") as f:
            f.write("x = 1\n")
    except OSError:
        pytest.skip("the file system wants UTF-8")
    (row,) = walk([str(tmp_path)], root=str(tmp_path)).files
    assert os.fsencode(row[0]) == b"caf\xe9.py"
    assert read(row[1]) == b"x = 1\n"


def test_a_broken_ignore_file_ignores_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    (tmp_path / ".gitignore").write_bytes(b"\x00\xff[\n[z-a]\n\xe9\\\n")
    assert names(tmp_path) == ["a.py"]
    (tmp_path / "sub" / ".gitignore").mkdir(parents=True)
    make(tmp_path, "sub/b.py")
    assert names(tmp_path) == ["a.py", "sub/b.py"]


def test_generated_files(tmp_path: Path) -> None:
    (tmp_path / "table.py").write_bytes(b"x = 1\n" * 4_000_000)
    (tmp_path / "pictures.ipynb").write_bytes(b" " * 20_000_000)
    for given in (tmp_path, tmp_path / "table.py"):
        found = walk([str(given)], root=str(tmp_path))
        assert [r[0] for r in found.files] == (["pictures.ipynb"] if given == tmp_path else [])
        assert [(p, str(t)) for p, t in found.skipped] == [("table.py", "is too large to be written by hand")]
