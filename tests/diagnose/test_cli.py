"""`torchvet diagnose` as it is typed: exit codes, formats, files, mistakes, code, interruption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import made
import pytest

from torchvet import diagnose as package
from torchvet.diagnose.model import Fact, Link

SOURCE = Path(package.__file__).parents[2]

HANG = """\
import torch
import torch.distributed as dist


def evaluate(model, batch):
    loss = model(batch)
    dist.all_reduce(loss)
    return loss


def main(model, loader):
    dist.init_process_group("nccl")
    for batch in loader:
        evaluate(model, batch)
    if dist.get_rank() == 0:
        dist.barrier()
"""


@pytest.fixture
def hang(monkeypatch):
    """The analysis always finds the hang of `made`."""

    def set_site(site=("/workspace/proj/train.py", 51), cause="rank-absent"):
        diagnosis = made.hang()
        diagnosis.verdicts[0].site = site
        diagnosis.verdicts[0].cause = cause
        diagnosis.side_findings[0].site = None
        monkeypatch.setattr("torchvet.diagnose.engine.diagnose", lambda paths, progress=None, world=None: diagnosis)

    set_site()
    return set_site


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "notes.bin").write_bytes(b"\0\1\2")
    return folder


def test_nothing_found(torchvet, job):
    r = torchvet("diagnose", job)
    assert (r.code, r.err) == (0, "")
    assert "cannot tell: no file here is evidence" in r.out
    assert json.loads(torchvet("diagnose", job, "--output-format", "json").out)["verdicts"] == []
    assert torchvet("diagnose", job, "--facts").out == ""


@pytest.mark.parametrize("name", ["text", "json", "markdown", "html", "facts"])
def test_a_cause_found(torchvet, hang, job, name, tmp_path):
    r = torchvet("diagnose", job, "--output-format", name)
    assert (r.code, r.err) == (1, "")
    assert "rank 5" in r.out or '"rank": 5' in r.out
    target = tmp_path / "report"
    assert torchvet("diagnose", job, "-o", f"{name}={target}").code == 1
    assert target.read_text("utf-8").split() == r.out.split() or name == "text"


def test_the_ending_chooses_the_format(torchvet, hang, job, tmp_path):
    r = torchvet("diagnose", job, "-o", tmp_path / "r.html", "-o", tmp_path / "r.md", "-o", tmp_path / "r.json")
    assert r.code == 1 and r.out == ""
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "r.md").read_text("utf-8").startswith("## rank 5")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["schema"] == 1


def test_chinese(torchvet, hang, job):
    assert "结论      rank 5 提前离开了循环（已确认）" in torchvet("diagnose", job, "--lang", "zh").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a path (a folder with what the job left: torchvet diagnose runs/a)"),
        (["nowhere"], "nowhere does not exist (give a folder with logs and dumps, or files)"),
        (["*.nope"], "nothing fits *.nope"),
        ([".", "--code", "nowhere"], "nowhere is not a folder (--code needs the folder with the job's code)"),
        ([".", "-o", "nowhere/x.html"], "cannot write nowhere/x.html: there is no folder nowhere"),
        ([".", "--output-format", "pdf"], "must be one of text, json, markdown, html, facts"),
        ([".", "--jsno"], "unknown option --jsno"),
        (["."], "there is no file in ."),
    ],
)
def test_mistakes(torchvet, tmp_path, monkeypatch, words, said):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    r = torchvet("diagnose", *words)
    assert (r.code, r.out) == (2, "")
    assert said in r.err and r.err.count("\n") == 1


LAUNCHER = """\
E1129 12:55:48.162000 462 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 2 (pid: 466) of binary: /usr/bin/python
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_12:55:48
  host      : localhost
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 466)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_a_failure_that_nothing_explains_is_no_health(torchvet, tmp_path):
    (tmp_path / "launcher.log").write_text(LAUNCHER)
    r = torchvet("diagnose", tmp_path, "--output-format", "json")
    (verdict,) = json.loads(r.out)["verdicts"]
    assert r.code == 1
    assert (verdict["cause"], verdict["confidence"], verdict["ranks"]) == ("unknown", "possible", [])
    assert "rank 2 ended with an error" in verdict["summary"]
    assert any("standard error of every rank" in m for m in verdict["missing"])


def test_the_number_of_ranks_can_be_given(torchvet, tmp_path):
    (tmp_path / "rank_0.log").write_text("step 1\nstep 2\n" * 20)
    r = torchvet("diagnose", tmp_path, "--ranks", 4)
    assert "4 ranks: 1 log" in r.out and "log of rank 1-3" in r.out


def test_progress_is_shown_on_a_terminal_only(torchvet, job, monkeypatch, capsys):
    monkeypatch.setattr("torchvet.cli.terminal.is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm")
    (job / "a.log").write_text("step 1\n")
    assert "reading 1: " in torchvet("diagnose", job).err
    monkeypatch.setenv("CI", "1")
    assert torchvet("diagnose", job).err == ""


def test_help_fits(torchvet):
    r = torchvet("diagnose", "--help")
    assert r.code == 0 and "--code DIR" in r.out
    assert max(map(len, r.out.split("\n"))) <= 150
    assert "diagnose" in torchvet("--help").out


# ------------------------------------------------------------------------------------------------------------------- code
def test_code_shows_the_line_and_what_check_finds(torchvet, hang, job, tmp_path):
    project = tmp_path / "proj"
    project.mkdir()
    (project / "train.py").write_text(HANG)
    hang(("/workspace/elsewhere/proj/train.py", 16), "collective-mismatch")
    r = torchvet("diagnose", job, "--code", project)
    assert "Line      train.py:16   dist.barrier()" in r.out
    assert "rank-guarded-collective TV401" in r.out and "fix: " in r.out
    verdict = json.loads(torchvet("diagnose", job, "--code", project, "--output-format", "json").out)["verdicts"][0]
    assert verdict["code"]["findings"][0]["name"] == "rank-guarded-collective"
    assert verdict["site"]["path"] == "/workspace/elsewhere/proj/train.py"


def test_a_rule_about_something_else_is_not_joined(torchvet, hang, job, tmp_path):
    (tmp_path / "train.py").write_text(HANG)
    hang(("/workspace/proj/train.py", 16), "gpu-oom")
    assert "rank-guarded-collective" not in torchvet("diagnose", job, "--code", tmp_path).out


def test_two_files_that_fit(torchvet, hang, job, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(HANG)
    r = torchvet("diagnose", job, "--code", tmp_path)
    assert "one of a/train.py, b/train.py: several files fit this path" in " ".join(r.out.split())
    hang(("/workspace/b/train.py", 16))
    assert "b/train.py:16   dist.barrier()" in torchvet("diagnose", job, "--code", tmp_path).out


def test_code_that_is_not_there(torchvet, hang, job, tmp_path):
    (tmp_path / "other.py").write_text("x = 1\n")
    r = torchvet("diagnose", job, "--code", tmp_path)
    assert r.code == 1
    assert "/workspace/proj/train.py:51" in r.out and "no file in" in r.out


def test_code_in_the_evidence_is_shown_without_asking(torchvet, hang, job):
    (job / "src").mkdir()
    (job / "src" / "train.py").write_text(HANG)
    hang(("/workspace/run/src/train.py", 16))
    assert "Line      src/train.py:16   dist.barrier()" in torchvet("diagnose", job).out


def test_a_line_that_the_code_does_not_have(torchvet, hang, job, tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")
    assert "Line      train.py:51\n" in torchvet("diagnose", job, "--code", tmp_path).out


GROWS = """\
def train(model, loader, optimizer):
    history = []
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        history.append(loss)
"""


def test_memory_that_grew_is_joined_with_what_keeps_graphs(torchvet, job, tmp_path, monkeypatch):
    """The log says that memory grew, not where: what check finds in the code are candidates."""
    diagnosis = made.hang()
    side = diagnosis.side_findings[0]
    side.site = None
    side.supports = [Link(Fact("series", "log", 1, 0), side.summary)]
    monkeypatch.setattr("torchvet.diagnose.engine.diagnose", lambda paths, progress=None, world=None: diagnosis)
    (tmp_path / "other.py").write_text(GROWS)
    assert "(other.py:7 stored-graph)" in torchvet("diagnose", job, "--code", tmp_path).out
    found = json.loads(torchvet("diagnose", job, "--code", tmp_path, "--output-format", "json").out)
    assert [c["name"] for c in found["side_findings"][0]["candidates"]] == ["stored-graph"]
    assert found["side_findings"][0]["site"] is None


def test_settings_of_the_code_that_cannot_be_read(torchvet, hang, job, tmp_path):
    (tmp_path / "train.py").write_text(HANG)
    (tmp_path / "pyproject.toml").write_text("[tool.torchvet]\nselect = 5\n")
    hang(("/workspace/proj/train.py", 16), "collective-mismatch")
    assert "rank-guarded-collective" in torchvet("diagnose", job, "--code", tmp_path).out


# -------------------------------------------------------------------------------------------------------------- processes
def process(*words, cwd, **more):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "torchvet", "diagnose", *words], cwd=cwd, capture_output=True, text=True, timeout=60,
        env=environment, **more,
    )  # fmt: skip


def test_standard_input(tmp_path):
    r = process("-", "--output-format", "json", cwd=tmp_path, input="step 1\nstep 2\n")
    assert r.returncode == 0, r.stderr
    assert [f["path"] for f in json.loads(r.stdout)["inventory"]["files"]] == ["stdin"]


def test_no_colour_and_no_progress_in_a_pipe(job):
    r = process(".", cwd=job)
    assert "\x1b" not in r.stdout + r.stderr and r.stderr == ""


def test_interruption_leaves_no_half_file(job, tmp_path, monkeypatch, torchvet, hang):
    def interrupted(*_):
        raise KeyboardInterrupt

    target = tmp_path / "r.html"
    target.write_text("before")
    monkeypatch.setattr("os.replace", interrupted)
    assert torchvet("diagnose", job, "-o", target).code == 130
    assert target.read_text() == "before" and set(os.listdir(tmp_path)) == {"job", "r.html"}


def test_the_start_imports_little():
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\nfrom torchvet.cli import main\nmain(['--help'])\n"
        "print(sorted(m for m in sys.modules if m.startswith('torchvet.') and 'cli' not in m and 'findings' not in m))"
    )
    r = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert r.stdout.endswith("[]\n"), r.stdout[-300:]
