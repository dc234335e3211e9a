"""How jobs end outside PyTorch: schedulers, memory watchers, containers, and logs decorated by launchers and loggers.

Each YAML file is one incident: the truth, and the files that it left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from test_incidents import judged

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.evidence.lines import Literals, distinct
from torchvet.diagnose.evidence.tracebacks import are_victims

CASES = sorted((Path(__file__).parent / "incidents_ends").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_cause_ranks_and_silence(path, tmp_path):
    truth = yaml.safe_load(path.read_text("utf-8"))
    for name, text in truth["files"].items():
        file = tmp_path / "job" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    found = diagnose([str(tmp_path / "job")])
    assert not judged(truth, found)
    assert not [p for p in found.inventory.problems if "torchvet failed here" in str(p[1])]
    for h in found.verdicts + found.side_findings:
        assert re.search(r"[\u4e00-\u9fff]", h.summary.render("zh")), "no Chinese summary"


def test_there_are_healthy_ones():
    assert len(CASES) >= 40
    assert sum(yaml.safe_load(p.read_text("utf-8"))["outcome"] == "ok" for p in CASES) >= 4


def test_who_ended_a_process_is_named(tmp_path):
    for name, word in (("ray-oom", "Ray"), ("hostoom-earlyoom", "earlyoom"), ("condor-mem", "HTCondor")):
        files = yaml.safe_load((CASES[0].parent / f"{name}.yaml").read_text("utf-8"))["files"]
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert word in diagnose([str(tmp_path / name)]).verdicts[0].summary.render("en")


def test_a_store_that_is_lost_is_named_with_its_host(tmp_path):
    for name, words in (
        ("agent-gone-with-its-store", ("launcher of node0", "store", "why is not known")),
        ("store-lost-host-unseen", ("store (127.0.0.1:22992)", "nothing here says why")),
        ("node-gone-with-its-store", ("ranks 0, 1 on node0", "why is not known")),
    ):
        files = yaml.safe_load((CASES[0].parent / f"{name}.yaml").read_text("utf-8"))["files"]
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        (first,) = diagnose([str(tmp_path / name)]).verdicts
        assert first.confidence == "possible" and all(w in first.summary.render("en") for w in words)


def test_a_server_is_no_peer():
    """A connection that a server reset is not the end of another rank."""
    reset = "Connection reset by peer"
    assert are_victims([("RuntimeError", f"[pair.cc:553] {reset}")])
    assert are_victims([("ConnectionResetError", reset)])
    assert not are_victims([("ConnectionResetError", reset), ("RuntimeError", "shard 7 could not be read")])
    assert not are_victims([("requests.exceptions.ConnectionError", reset)])
    assert not are_victims([("CalledProcessError", "Command '['ninja', '-v']' returned non-zero exit status 1.")])
    assert are_victims(
        [("CalledProcessError", "Command '['/usr/bin/python3', 't.py']' died with <Signals.SIGKILL: 9>.")]
    )


def test_literals_are_found_in_their_order_whatever_the_digits():
    literals = Literals([b"out of memory", b"memory", b"Errno 28", b"172.17.", b"absent"])
    text = b"step 1\nstep 2\n[Errno 28] memory\nstep 3 at 172.18.0.1\nout of memory"
    assert literals.inside(text, distinct(text)) == (b"out of memory", b"memory", b"Errno 28")
    assert distinct(text).count(b"step ") == 2  # "step " and "step  at ...": lines that differ in digits are one


def test_a_child_that_failed_is_no_end_when_the_program_goes_on(tmp_path):
    child = "subprocess.CalledProcessError: Command '['/usr/bin/python3', 'score.py']' returned non-zero exit status 1."
    steps = [f"step {n} loss 2.{90 - n}" for n in range(40)]
    for name, lines, silent in (("on", [*steps[:20], child, *steps[20:]], True), ("end", [*steps, child], False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.log").write_text("\n".join(lines) + "\n", "utf-8")
        assert (not diagnose([str(tmp_path / name)]).verdicts) == silent


def test_rows_of_a_table_are_no_services(tmp_path):
    rows = [f"block-{n}  | Conv2d | {n * 64}" for n in range(9)]
    text = "\n".join(["model:", *rows, *(f"step {n} loss 2.1" for n in range(30))])
    text += "\nTraceback (most recent call last):\n  File \"t.py\", line 3, in main\n    f()\nKeyError: 'x'\n"
    (tmp_path / "run.log").write_text(text, "utf-8")
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.ranks) == ("rank-absent", [0])
