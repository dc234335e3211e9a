"""More incidents in the layout of `incidents/`: own runs and re-created logs of kinds that those do not have."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from test_incidents import judged

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.model import KINDS

CASES = sorted((Path(__file__).parent / "incidents_more").glob("*/truth.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_cause_ranks_and_silence(path, tmp_path):
    folder = tmp_path / "job"
    shutil.copytree(path.parent / "evidence", folder)
    found = diagnose([str(folder)])
    assert not judged(yaml.safe_load(path.read_text("utf-8")), found)
    assert not [p for p in found.inventory.problems if "torchvet failed here" in str(p[1])]
    for h in found.verdicts + found.side_findings:
        assert h.cause in KINDS
        assert re.search(r"[\u4e00-\u9fff]", h.summary.render("zh")), "no Chinese summary"


def test_most_kinds_are_there():
    kinds = {c["kind"] for p in CASES for c in yaml.safe_load(p.read_text("utf-8"))["causes"]}
    assert len(CASES) >= 40
    assert len(kinds) >= 14
    # the others are runs in `incidents/`
    assert set(KINDS) - kinds <= {"native-crash", "group-order-cycle", "configuration", "store-rendezvous", "gpu-oom"}


def test_a_stall_without_its_log_is_not_certain(tmp_path):
    """Where a rank stands is not why: an error of memory or of a worker before it stands only in its log."""
    for name in ("gloo-rlimit-memory", "gloo-shm-feeder-hang"):
        evidence = Path(__file__).parent / "incidents" / name / "evidence"
        hidden = shutil.ignore_patterns("logs", "procs.txt", "df_*")
        folder = tmp_path / name
        shutil.copytree(evidence, folder, ignore=hidden)
        first = diagnose([str(folder)]).verdicts[0]
        assert first.confidence != "confirmed"
        assert any("log of rank" in text.render("en") for text in first.missing)


def test_the_rank_that_aborted_is_the_receiver():
    """examples/incident: rank 0 evaluates alone while rank 1 is in the backward pass of DDP."""
    example = Path(__file__).parents[2] / "examples" / "incident"
    first = diagnose([str(example)]).verdicts[0]
    assert (first.cause, first.ranks, first.rule) == ("collective-mismatch", [0], "rank-guarded-collective")
    assert first.site is not None
    assert (first.site[0].rpartition("/")[2], first.site[1]) == ("evaluation.py", 13)


def test_a_stale_stack_names_no_call(tmp_path):
    """The stack of the receiver counts only when it is of the abort."""
    example = Path(__file__).parents[2] / "examples" / "incident"
    folder = tmp_path / "job"
    shutil.copytree(example, folder)
    stack = folder / "run" / "attempt_0" / "rank_0" / "stacks.txt"
    stack.write_text(stack.read_text("utf-8").replace("Fatal Python error: Aborted\n\n", ""), "utf-8")
    first = diagnose([str(folder)]).verdicts[0]
    assert first.cause == "shape-mismatch"
    assert "rank 0" in first.summary.render("en")


@pytest.mark.parametrize(
    "name, sub, words",
    [
        ("oom-leak-series", "leak", "9.63 MiB per step"),
        # in a container the rank's own process is listed under a number that it does not know
        ("srun-oom", "full", "33.90 GiB in use by PyTorch"),
        ("oom-other-21", "other-process", "process 1840022 outside this rank"),
        ("uneven-dataset", "dataset length", "no batches left after step 411"),
        ("uneven-skip", "skipped batch", "left out a batch"),
        ("gloo-sigstop", "stopped", "stopped by a signal"),
    ],
)
def test_what_the_numbers_mean(name, sub, words):
    first = diagnose([str(Path(__file__).parent / "incidents_more" / name / "evidence")]).verdicts[0]
    assert first.sub == sub
    assert words in first.summary.render("en")
