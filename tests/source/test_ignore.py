"""`.gitignore` as git reads it: compared with `git check-ignore` on random trees."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchvet.check.source.ignore import Patterns
from torchvet.check.source.walk import walk

NAMES = ("a", "b", "ab", "data", "a.py", "b.py", "x.pyc", "a b")
PIECES = (
    "a",
    "b",
    "*",
    "?",
    "**",
    "[ab]",
    "[!a]",
    "[a-c]",
    "data",
    ".py",
    "a.py",
    "\\*",
    "\\a",
    "[[:alpha:]]",
    " ",
    "[",
)
GIT = shutil.which("git")

names = st.sampled_from(NAMES)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    parts = draw(
        st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map("".join), min_size=1, max_size=3)
    )
    line = "/".join(parts)
    return (
        draw(st.sampled_from(("", "", "", "!")))
        + draw(st.sampled_from(("", "", "/")))
        + line
        + draw(st.sampled_from(("", "", "/")))
    )


lines = st.lists(
    st.one_of(
        patterns(),
        st.sampled_from(
            (
                "",
                "# note",
                "*.py",
                "!a.py",
                "data/",
                "**/b",
                "a/**",
                "a/**/b",
                "/ab",
                "a/*",
                "!a/b",
                "*",
                "!*/",
                "/a**",
                "/a**/b",
                "!*.py",
            )
        ),
    ),
    max_size=6,
)


def ignored(tree: dict[str, Patterns], path: str, folder: bool = False) -> bool:
    """What git does: a folder that is ignored hides all below it; the innermost ignore file with a match decides."""
    parts = path.split("/")
    for i, name in enumerate(parts):
        directory = folder or i + 1 < len(parts)
        for depth in range(i, -1, -1):
            rules = tree.get("/".join(parts[:depth]))
            verdict = rules.verdict("/".join(parts[depth : i + 1]), name, directory) if rules else None
            if verdict is not None:
                if verdict:
                    return True
                break
    return False


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=lines, inner=lines, files=st.sets(paths, min_size=1, max_size=12))
def test_like_git(top: list[str], inner: list[str], files: set[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = tmp_path_factory.mktemp("repository")
    env = {"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    subprocess.run(["git", "init", "-q", "."], cwd=repository, check=True, env=env)
    made = set()
    for path in sorted(files, key=len):
        full = repository / path
        if any(str(p).startswith(path + "/") for p in made) or full.exists():
            continue
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            continue
        full.write_text("")
        made.add(path)
    tree = {"": Patterns(top)}
    (repository / ".gitignore").write_text("\n".join(top) + "\n")
    if (repository / "a").is_dir():
        (repository / "a" / ".gitignore").write_text("\n".join(inner) + "\n")
        tree["a"] = Patterns(inner)
    folders = {p.rpartition("/")[0] for p in made} - {""}
    asked = "\0".join(sorted(made | folders)).encode()
    answer = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], cwd=repository, input=asked, capture_output=True, env=env
    )
    said = set(answer.stdout.decode().split("\0")) - {""}
    assert {p for p in made if ignored(tree, p)} == said & made
    assert {p for p in folders if ignored(tree, p, folder=True)} == said & folders
    found = {e[0] for e in walk([str(repository)], root=str(repository), exclude=()).files}
    assert found == {p for p in made - said if p.endswith(".py")}
    shutil.rmtree(repository)


@pytest.mark.parametrize(
    ("line", "path", "directory", "verdict"),
    [
        ("build", "src/build", True, True),
        ("/a**", "ab/y.py", False, True),
        ("a**", "ab/y.py", False, None),
        ("/a**/b", "ab", False, True),
        ("/a**/b", "ax/b", False, True),
        ("/build", "src/build", True, None),
        ("build/", "build", False, None),
        ("doc/*.py", "doc/a.py", False, True),
        ("doc/*.py", "doc/x/a.py", False, None),
        ("**/logs", "a/b/logs", True, True),
        ("a/**/b", "a/b", False, True),
        ("a/**/b", "a/x/y/b", False, True),
        ("a/**", "a", True, None),
        ("*.py[cod]", "x/y.pyc", False, True),
        ("\\#x", "#x", False, True),
        ("trailing\\ ", "trailing ", False, True),
        ("trailing   ", "trailing", False, True),
        ("[", "[", False, None),
        ("[]-]x", "]x", False, True),
        ("[^a]x", "bx", False, True),
        ("a?c", "a/c", False, None),
        ("foo*bar", "foo/bar", False, None),
        ("*", "anything", False, True),
        ("!keep.py", "keep.py", False, False),
    ],
)
def test_single_patterns(line: str, path: str, directory: bool, verdict: bool | None) -> None:
    assert Patterns([line]).verdict(path, path.rpartition("/")[2], directory) is verdict


def test_last_match_decides() -> None:
    rules = Patterns(["*.py", "!keep.py", "sub/keep.py"])
    assert rules.verdict("keep.py", "keep.py", False) is False
    assert rules.verdict("sub/keep.py", "keep.py", False) is True
    assert rules.verdict("x.py", "x.py", False) is True
