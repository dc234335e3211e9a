"""The command line over the real analysis: `python -m torchvet check` on small projects."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet import cli
from torchvet.check.config import FORMATS

TRAIN = """\
import torch
from torch.utils.data import DataLoader


def train(model, dataset, criterion, optimizer):
    loader = DataLoader(dataset, num_workers=4)
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""
WORKERS = "from torch.utils.data import DataLoader\n\n\ndef load(data):\n    return DataLoader(data, num_workers=64)\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "data").mkdir()
    (folder / "data" / "load.py").write_text(WORKERS)
    (folder / "other.py").write_text("x = 1\n")
    for path in folder.rglob("*.py"):  # files changed a moment ago are not trusted to the cache
        os.utime(path, (1_700_000_000, 1_700_000_000))
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.startswith(("TORCHVET_", "GITHUB_", "LC_")) or name in ("CI", "PRE_COMMIT", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TORCHVET_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def rows(outcome) -> list[tuple[str, str, int]]:
    return [(f["name"], f["path"], f["line"]) for f in json.loads(outcome.out)["findings"]]


FOUND = [("too-many-workers", "data/load.py", 5), ("accumulated-graph", "train.py", 12)]


def test_the_findings_and_what_was_read(project, torchvet):
    outcome = torchvet("check", "--output-format", "json")
    assert outcome.code == 1
    assert rows(outcome) == FOUND
    assert json.loads(outcome.out)["summary"] == {"files": 3, "parsed": 2, "errors": 0, "warnings": 2, "notes": 0}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_both_and_blocks(project, torchvet, form):
    outcome = torchvet("check", "--output-format", form, "--no-cache")
    assert outcome.code == 1
    assert "train.py" in outcome.out
    assert "load.py" in outcome.out
    assert outcome.err == ""


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_nothing_to_say_about_clean_code(project, torchvet, form):
    assert torchvet("check", "other.py", "--output-format", form).code == 0


def test_a_second_run_says_the_same(project, torchvet):
    first = torchvet("check", "--output-format", "json")
    second = torchvet("check", "--output-format", "json", "--timing")
    assert second.out == first.out
    assert "run cache" in second.err
    assert "accumulated-graph" not in second.err
    third = torchvet("check", "--output-format", "json", "--timing", "--no-cache")
    assert third.out == first.out
    assert "accumulated-graph" in third.err


def test_settings_change_what_a_cached_run_says(project, torchvet):
    assert len(rows(torchvet("check", "--output-format", "json"))) == 2
    assert len(rows(torchvet("check", "--output-format", "json", "--max-workers", "64"))) == 1
    assert len(rows(torchvet("check", "--output-format", "json", "--ignore", "loader"))) == 1
    assert len(rows(torchvet("check", "--output-format", "json", "--select", "TV4"))) == 0
    (project / "pyproject.toml").write_text('[tool.torchvet.per-file-ignores]\n"data/*" = ["TV202"]\n')
    assert rows(torchvet("check", "--output-format", "json")) == FOUND[1:]
    assert rows(torchvet("check", "--output-format", "json", "--isolated")) == FOUND


CONFIGURED = """\
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

cfg = OmegaConf.load("train.yaml")
loader = DataLoader([], num_workers=cfg.workers)
"""


def test_a_file_of_settings_changes_what_a_cached_run_says(tmp_path, monkeypatch, torchvet):
    """YAML is not walked; a result that depends on such a file, or on there being none, notices its change."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(CONFIGURED)
    for path in (tmp_path / "train.py", tmp_path):
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def found() -> list[str]:
        outcome = torchvet("check", "--output-format", "json")
        return [f["message"] for f in json.loads(outcome.out)["findings"]]

    assert found() == found() == []
    for time, workers in ((1_700_000_100, 64), (1_700_000_200, 4), (1_700_000_300, 32)):
        (tmp_path / "train.yaml").write_text(f"workers: {workers}\n")
        os.utime(tmp_path / "train.yaml", (time, time))
        expected = [f"num_workers is {workers} in train.yaml:1; 8 for each rank are allowed"] if workers > 8 else []
        assert found() == found() == expected


def test_a_suppression_and_its_end(project, torchvet):
    train = project / "train.py"
    line = "        total += loss  # torchvet: ignore[accumulated-graph] the caller needs it\n"
    train.write_text(TRAIN.replace("        total += loss\n", line))
    outcome = torchvet("check", "train.py", "--strict")
    assert outcome.code == 0
    assert "1 suppressed" in outcome.out
    train.write_text(train.read_text().replace("+= loss ", "+= loss.item() "))
    assert rows(torchvet("check", "train.py", "--output-format", "json")) == [("unused-suppression", "train.py", 12)]
    (project / "other.py").write_text(WORKERS.replace("64)", "2)  # torchvet: ignore[TV202]"))
    assert rows(torchvet("check", "other.py", "--output-format", "json")) == [("unused-suppression", "other.py", 5)]
    assert torchvet("check", "other.py", "--select", "graph", "--strict").code == 0


def test_a_suppression_of_an_unknown_rule_blocks(project, torchvet):
    (project / "other.py").write_text(WORKERS.replace("64)", "64)  # torchvet: ignore[to-many-workers]"))
    outcome = torchvet("check", "other.py", "--output-format", "concise")
    assert outcome.code == 1
    assert "no rule is called to-many-workers" in outcome.out


def test_fix_repairs_once_and_for_all(project, torchvet):
    (project / "train.py").write_bytes(TRAIN.replace("\n", "\r\n").encode())
    outcome = torchvet("check", "train.py", "--fix")
    assert outcome.code == 0
    fixed = (project / "train.py").read_bytes()
    assert fixed == TRAIN.replace("total += loss", "total += loss.detach()").replace("\n", "\r\n").encode()
    assert torchvet("check", "train.py", "--fix").code == 0
    assert (project / "train.py").read_bytes() == fixed


def test_fix_of_standard_input(project, torchvet, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRAIN.encode())))
    outcome = torchvet("check", "-", "--fix", "--stdin-filename", "train.py")
    assert outcome.out == TRAIN.replace("total += loss", "total += loss.detach()")
    assert (project / "train.py").read_text() == TRAIN


def test_standard_input_stands_for_the_file(project, torchvet, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WORKERS.encode())))
    outcome = torchvet("check", "-", "--stdin-filename", "sub/new.py", "--output-format", "json")
    assert rows(outcome) == [("too-many-workers", "sub/new.py", 5)]


def test_a_syntax_error_is_a_finding_and_the_run_goes_on(project, torchvet):
    (project / "broken.py").write_text("import torch\nloss.backward()\ndef f(:\n")
    found = rows(torchvet("check", "--output-format", "json"))
    assert ("syntax-error", "broken.py", 3) in found
    assert len(found) == 3
    assert torchvet("check", "broken.py", "--ignore", "syntax-error").code == 0


def test_diff_in_a_repository(project, torchvet):
    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "one")
    assert torchvet("check", "--diff", "main").code == 0
    (project / "train.py").write_text(TRAIN.replace("num_workers=4", "num_workers=48"))
    assert rows(torchvet("check", "--diff", "main", "--output-format", "json")) == [("too-many-workers", "train.py", 6)]


def test_a_baseline_over_the_real_findings(project, torchvet):
    torchvet("check", "--write-baseline", "known.json")
    assert torchvet("check", "--baseline", "known.json", "--strict").code == 0
    (project / "train.py").write_text("# a line above\n" + TRAIN)
    assert torchvet("check", "--baseline", "known.json", "--strict").code == 0
    (project / "train.py").write_text(TRAIN.replace("+= loss", "+= loss.detach()"))
    outcome = torchvet("check", "--baseline", "known.json", "--output-format", "json")
    assert [name for name, _, _ in rows(outcome)] == ["stale-baseline"]


def test_as_a_program(project):
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    words = [sys.executable, "-m", "torchvet", "check", ".", "--output-format", "concise", "--lang", "zh"]
    done = subprocess.run(words, env=env, capture_output=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr == b""
    assert b"train.py:12:9" in done.stdout
    pipe = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pipe.stdout.close()  # as `| head -0` does
    assert pipe.stderr.read() == b""
    assert pipe.wait(120) == 1
