"""The start file: what a process took from many compiled files, the next one takes from one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet.check.source import patterns
from torchvet.cli.compiled import HEAD, SIGN, Start

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "torchvet"
LEAK = """\
import torch

def train(model, batches, optimizer):
    total = 0
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""
NUMBERS = [
    r"(?i)loader$|^loader",
    rb"rank(?:(?<=get_rank)\(| ?[!=]= ?)",
    r"^(?P<name>\w+)\s*=(?!=)(.*)$",
    r"\b([^\W\d]\w{0,9}?)\.\1\b",
]
TEXTS = ["my_loader", "if get_rank() == 0:", "länge = 3", "a.a or b.c", "", "\n x == y\n"]


class Copy:
    """torchvet in a folder of its own, run as its console script is."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        for part in ("check", "cli", "findings", "knowledge", "report"):
            shutil.copytree(PACKAGE / part, self.site / "torchvet" / part)
        shutil.copy2(PACKAGE / "__init__.py", self.site / "torchvet")
        self.code = folder / "code"
        self.code.mkdir()
        (self.code / "train.py").write_text(LEAK)

    @property
    def files(self) -> list[Path]:
        return list((self.site / "torchvet" / "__pycache__").glob("start.*"))

    def check(self, after: str = "", **environment: str) -> tuple[str, str]:
        """Standard output and error of a check in a process that ends as the console script does; `after` runs just
        before the end."""
        script = (
            f"import os, sys; sys.path.insert(0, {str(self.site)!r})\n"
            "sys.argv = ['torchvet', 'check', '--no-cache', '--isolated', '--output-format', 'concise', '.']\n"
            f"leave = os._exit\ndef end(code):\n    {after or 'pass'}\n    sys.stderr.flush(); leave(code)\n"
            "os._exit = end\nfrom torchvet.cli import console\nconsole()\n"
        )
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        r = subprocess.run(
            [sys.executable, "-s", "-c", script],
            cwd=self.code,
            env={**kept, **environment},
            capture_output=True,
            text=True,
        )
        assert r.returncode == 1, r.stderr
        return r.stdout, r.stderr


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Copy:
    """A copy that has left a start file: Python compiles, the second process gathers."""
    copy = Copy(tmp_path_factory.mktemp("start"))
    copy.check()
    copy.check()
    assert len(copy.files) == 1
    return copy


def test_the_next_process_needs_no_compiled_files_and_no_re(warm):
    said, before = warm.check(), warm.files[0].stat().st_mtime_ns
    found = (
        "sys.stderr.write(' '.join(sorted({'re', 'enum'} & set(sys.modules))) + '|' + str(len(m._installed[0].fresh)))"
    )
    again, told = warm.check(f"import torchvet.cli.compiled as m; {found}")
    assert told == "|0"
    assert again == said[0]
    assert "accumulated-graph" in again
    assert warm.files[0].stat().st_mtime_ns == before, "it was written again though nothing was missing"


def test_a_changed_source_counts(warm):
    path = warm.site / "torchvet" / "report" / "concise.py"
    old = path.read_text("utf-8")
    path.write_text(old.replace("warning", "warnung") + "\nimport sys\nsys.stdout.write('changed\\n')\n", "utf-8")
    try:
        assert warm.check()[0].startswith("changed\n")
        assert warm.check()[0].startswith("changed\n")
    finally:
        path.write_text(old, "utf-8")
    assert not warm.check()[0].startswith("changed\n")


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"no start file at all", "cut", "longer", "overwritten"])
def test_a_damaged_file_counts_as_none(warm, damage):
    expected = warm.check()[0]
    path = warm.files[0]
    whole = path.read_bytes()
    table = HEAD + int.from_bytes(whole[len(SIGN) : HEAD], "little")
    changed = {"cut": whole[:-100], "longer": whole + b"x", "overwritten": whole[:table] + b"\0" * (len(whole) - table)}
    path.write_bytes(changed.get(damage, damage))
    assert warm.check()[0] == expected
    assert warm.check()[0] == expected
    assert len(path.read_bytes()) > len(whole) // 2, "it was not written anew"


def test_a_moved_package_does_not_take_it(warm, tmp_path):
    shutil.copytree(warm.site, tmp_path / "site")
    moved = Copy.__new__(Copy)
    moved.site, moved.code = tmp_path / "site", warm.code
    told = moved.check("import torchvet.cli.compiled as m; sys.stderr.write(str(len(m._installed[0].fresh) > 50))")[1]
    assert told == "True", "places in tracebacks would be those of another folder"


def test_nothing_is_written_where_python_may_not_write(warm):
    warm.files[0].unlink()
    warm.check(PYTHONDONTWRITEBYTECODE="1")
    assert not warm.files
    warm.check()
    assert warm.files


def test_what_cannot_be_kept_fails_nothing(warm):
    broken = "import torchvet.check.source.patterns as p; p.made.append(('(', 0)); p.made.append(('a', -1))"
    before = warm.files[0].read_bytes()
    said = warm.check()[0]
    script = warm.check(f"{broken}; import torchvet.cli.compiled as m; m.keep()")
    assert script == (said, "")
    assert warm.files[0].read_bytes() == before


ONE, TWO, THREE = (compile(f"value = {n}", "<test>", "exec") for n in range(3))


def test_a_folder_that_cannot_be_written(tmp_path):
    start = Start(str(tmp_path / "none" / "start"), ("1",))
    with pytest.raises(OSError, match="No such file"):
        start.write({"torchvet.one": ((1, 1, False, "torchvet.one"), ONE)}, {})


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / "start")
    one, two = (1, 2, False, "torchvet.one"), (3, 4, True, "torchvet.two")
    three = (5, 6, False, "torchvet.one")
    Start(path, ("1", "x")).write({"torchvet.one": (one, ONE), "torchvet.three": (three, TWO)}, {("a", 0): b"p"})
    again = Start(path, ("1", "x"))
    assert again.code("torchvet.one") == ONE
    again.write({"torchvet.two": (two, TWO), "torchvet.three": (three, THREE)}, {("b", 0): b"q"})
    last = Start(path, ("1", "x"))
    assert last.entries == {"torchvet.one": one, "torchvet.two": two, "torchvet.three": three}
    assert {name: last.code(name) for name in last.entries} == {
        "torchvet.one": ONE, "torchvet.two": TWO, "torchvet.three": THREE,
    }  # fmt: skip
    assert set(last.groups) == {"torchvet.one", "torchvet.two"}
    assert last.patterns == {("a", 0): b"p", ("b", 0): b"q"}
    assert not Start(path, ("1", "another interpreter")).entries
    assert os.listdir(tmp_path) == ["start"]


@pytest.mark.parametrize("expression", NUMBERS)
@pytest.mark.parametrize("flags", [0, re.MULTILINE])
def test_kept_programs_match_as_those_of_re(expression, flags, monkeypatch):
    flags = int(flags)
    kept = patterns.programs([(expression, flags)])
    assert kept.keys() == {(expression, flags)}
    monkeypatch.setattr(patterns, "kept", kept)
    monkeypatch.setattr(patterns, "made", [])
    ours, theirs = patterns.compiled(expression, flags), re.compile(expression, flags)
    assert not patterns.made
    assert (ours.flags, ours.groups, ours.groupindex) == (theirs.flags, theirs.groups, theirs.groupindex)
    for text in TEXTS:
        data = text if isinstance(expression, str) else text.encode()
        assert [m.span() for m in ours.finditer(data)] == [m.span() for m in theirs.finditer(data)]
        assert ours.findall(data) == theirs.findall(data)


@pytest.mark.parametrize("program", [b"", b"no program", b"(\x01\x00\x00\x00N"])
def test_a_program_that_is_none_is_compiled(program, monkeypatch):
    monkeypatch.setattr(patterns, "kept", {("a+", 0): program})
    monkeypatch.setattr(patterns, "made", [])
    assert patterns.Later("a+").findall("aa b a") == ["aa", "a"]
    assert patterns.made == [("a+", 0)]


def test_an_expression_that_is_none_raises_as_in_re():
    with pytest.raises(re.error):
        patterns.compiled("(")
    patterns.made.remove(("(", 0))
