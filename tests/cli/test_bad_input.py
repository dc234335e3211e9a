"""Files and folders as they are found in the wild: what cannot be read is said, the rest is checked, nothing crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet import cli

LEAK = b"""\
import torch
def train(model, data, criterion, optimizer):
    total = 0
    for x, y in data:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with one good file that has one finding, so that each test sees that the run went on."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "good.py").write_bytes(LEAK)
    os.utime(folder / "good.py", (1_700_000_000, 1_700_000_000))  # what changed a moment ago is not cached
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TORCHVET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCHVET_OUTPUT_FORMAT", raising=False)
    return folder


def others(torchvet, *words) -> list[tuple[str, str, str]]:
    """(severity, name, path) of all findings but the one in good.py."""
    outcome = torchvet("check", "--output-format", "json", *words)
    assert outcome.code == 1, outcome.err
    rows = [(f["severity"], f["name"], f["path"]) for f in json.loads(outcome.out)["findings"]]
    assert ("warning", "accumulated-graph", "good.py") in rows
    return [r for r in rows if r[2] != "good.py"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"\xef\xbb\xbf",
        bytes(range(256)) * 40,
        b"\0" * 1000,
        b"\x7fELF" + b"\0\1\2" * 500,
        b"# no framework here\nx = '\xe9'\n",
    ],
)
def test_files_without_anything_to_check_are_silent(project, torchvet, data):
    (project / "odd.py").write_bytes(data)
    assert others(torchvet) == []


@pytest.mark.parametrize(
    "data",
    [
        LEAK + b"\0\n",
        LEAK + b"x = '\xe9'\n",
        LEAK + b"def f(:\n",
        b"# coding: nonsense\n" + LEAK,
        LEAK + b"x = '''\n",
        LEAK + b"  x = 1\n y = 2\n",
        LEAK + b"x = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n",
    ],
)
def test_files_that_python_does_not_accept_are_syntax_errors(project, torchvet, data):
    (project / "odd.py").write_bytes(data)
    assert others(torchvet) == [("error", "syntax-error", "odd.py")]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + LEAK,
        LEAK.replace(b"\n", b"\r\n"),
        LEAK.replace(b"\n", b"\r"),
        b"# -*- coding: latin-1 -*-\nname = '\xe9'\n" + LEAK,
        "# coding: gbk\nname = '中文'\n".encode("gbk") + LEAK,
        "总 = '中文'\n".encode() + LEAK,
        LEAK + b"x = 1",
        b"\x0c\n" + LEAK,
        LEAK + b"x = [\n" + b"    0.123456,\n" * 20_000 + b"]\n",
    ],
    ids=["bom", "crlf", "cr", "latin-1", "gbk", "utf-8", "no newline", "form feed", "long"],
)
def test_files_that_python_accepts_are_checked(project, torchvet, data):
    (project / "odd.py").write_bytes(data)
    assert others(torchvet) == [("warning", "accumulated-graph", "odd.py")]
    assert torchvet("check", "--fix").code == 0
    assert (project / "odd.py").read_bytes() == data.replace(b"total += loss", b"total += loss.detach()")


def test_a_deep_expression_does_not_stop_the_run(project, torchvet):
    (project / "odd.py").write_bytes(LEAK + b"x = " + b"-" * 3000 + b"1\n" + b"y = a" + b".b" * 3000 + b"\n")
    assert {name for _, name, _ in others(torchvet)} <= {"accumulated-graph", "syntax-error"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_does_not_block(project, torchvet):
    os.mkfifo(project / "odd.py")
    assert others(torchvet) == []


def test_links_that_lead_nowhere_or_in_circles(project, torchvet):
    (project / "dead.py").symlink_to("nowhere.py")
    (project / "round.py").symlink_to("round.py")
    (project / "sub").mkdir()
    (project / "sub" / "up").symlink_to("..")
    (project / "twin.py").symlink_to("good.py")
    assert others(torchvet) == []


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said(project, torchvet):
    (project / "odd.py").write_bytes(LEAK)
    (project / "odd.py").chmod(0)
    (project / "sub").mkdir()
    (project / "sub").chmod(0)
    try:
        assert sorted(others(torchvet)) == [
            ("warning", "unreadable-file", "odd.py"),
            ("warning", "unreadable-file", "sub"),
        ]
    finally:
        (project / "sub").chmod(0o700)


@pytest.mark.parametrize(
    "text", ["{", "[]", "", "null", '{"cells": 3}', '{"cells": [{"cell_type": "code", "source": "torch']
)
def test_a_broken_notebook_is_one_finding_at_most(project, torchvet, text):
    (project / "odd.ipynb").write_text(text + " torch.utils.data DataLoader( loss.backward()")
    assert [r[1:] for r in others(torchvet)] in ([], [("syntax-error", "odd.ipynb")])


def test_names_with_blanks_quotes_and_other_scripts(project, torchvet):
    names = ["a b.py", "it's.py", '"q".py', "中文.py", "a:b.py", "%0A.py", "new\nline.py"]
    for name in names:
        (project / name).write_bytes(LEAK)
    assert sorted(path for _, _, path in others(torchvet)) == sorted(names)
    for form in ("full", "concise", "github", "gitlab", "sarif", "junit", "rdjson", "markdown", "html", "jsonl"):
        assert torchvet("check", "--output-format", form).code == 1


def test_a_cache_that_cannot_be_written_is_no_matter(project, torchvet, monkeypatch):
    (project / "file").write_text("")
    monkeypatch.setenv("TORCHVET_CACHE_DIR", str(project / "file" / "cache"))
    assert others(torchvet) == []
    monkeypatch.setenv("TORCHVET_CACHE_DIR", "/proc/torchvet")
    assert others(torchvet) == []


def test_two_runs_at_once_say_the_same(project, tmp_path):
    for n in range(20):
        (project / f"m{n}.py").write_bytes(LEAK)
        os.utime(project / f"m{n}.py", (1_700_000_000, 1_700_000_000))
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    words = [sys.executable, "-m", "torchvet", "check", "--output-format", "jsonl"]
    running = [subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    said = [p.communicate(timeout=120) for p in running]
    assert {p.returncode for p in running} == {1}
    assert len(set(said)) == 1
    assert said[0][1] == b""


def test_a_foreign_cache_is_an_empty_cache(project, torchvet, tmp_path):
    first = torchvet("check", "--output-format", "json").out
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert files
    for path in files:
        path.chmod(0o600)
        path.write_bytes(os.urandom(300))
    assert torchvet("check", "--output-format", "json").out == first
