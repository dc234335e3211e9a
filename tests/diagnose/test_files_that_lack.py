"""What one rank left is not there: the verdict stays, or becomes weaker; the blame moves to nobody else.

Of every stored run the log, the dumps, the stack, or all three of one rank are taken away.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from test_incidents import judged

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.model import CONFIRMED, POSSIBLE

HERE = Path(__file__).parent
SORTS = (
    ("dump", r"attempt_\d+/rank_(\d+)/recorder|fr\w*/rank_?(\d+)(?:\.json)?$"),
    ("stack", r"attempt_\d+/rank_(\d+)/stacks|stacks/rank_(\d+)"),
    ("log", r"attempt_\d+/rank_(\d+)/|attempt_\d+/(\d+)/[^/]+$|(?:^|/)rank_?(\d+)\.(?:log|err|out|txt)$"),
)


def kept(path: Path) -> tuple[int, str] | None:
    """(rank, sort) of a file of one rank."""
    for sort, pattern in SORTS:
        if found := re.search(pattern, path.as_posix()):
            return int(next(g for g in found.groups() if g is not None)), sort
    return None


def folders() -> list[Path]:
    out = []
    for name in ("incidents", "incidents_more"):
        for truth in sorted((HERE / name).glob("*/truth.yaml")):
            files = (p.relative_to(truth.parent) for p in (truth.parent / "evidence").rglob("*"))
            if len({k[1] for p in files if (k := kept(p))}) > 1:
                out.append(truth.parent)
    return out


CASES = folders()
NO_TRACE = {"gloo-subgroup-skip"}
"""All that left a dump wait; who left none may be the reason as well: said as a guess."""


def wrong(truth: dict, found) -> str:
    """What is wrong with the verdict on incomplete evidence; "" when it is right or weaker."""
    if not found.verdicts:
        return ""
    if truth["outcome"] == "ok":
        return "a healthy run is blamed"
    first = found.verdicts[0]
    if first.cause == "unknown" and not first.ranks:
        return ""
    at_fault = {r for c in truth["causes"] for r in c.get("ranks") or []}
    if not at_fault:  # nobody: then nobody may be named
        return "" if not judged(truth, found) or not first.ranks else f"names {first.ranks}"
    if set(first.ranks) <= at_fault:
        return ""
    # both sides of a tie: open which one is wrong
    if set(first.ranks) > at_fault and first.confidence != CONFIRMED:
        return ""
    return f"{first.confidence} {first.cause} {first.ranks} instead of {sorted(at_fault)}"


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_the_blame_does_not_move(case, tmp_path):
    truth = yaml.safe_load((case / "truth.yaml").read_text("utf-8"))
    evidence = case / "evidence"
    of: dict[tuple[int, str], list[Path]] = {}
    for path in (p.relative_to(evidence) for p in sorted(evidence.rglob("*")) if p.is_file()):
        if row := kept(path):
            of.setdefault(row, []).append(path)
            of.setdefault((row[0], "all"), []).append(path)
    bad = []
    for (rank, sort), gone in of.items():
        folder = tmp_path / f"{sort}{rank}"
        shutil.copytree(evidence, folder)
        for path in gone:
            (folder / path).unlink()
        found = diagnose([str(folder)])
        said = wrong(truth, found)
        guess = case.name in NO_TRACE and found.verdicts and found.verdicts[0].confidence == POSSIBLE
        if said and not guess:
            bad.append(f"without the {sort} of rank {rank}: {said}")
    assert not bad


TEXTS = sorted([*(HERE / "incidents_fresh").glob("*.yaml"), *(HERE / "incidents_ends").glob("*.yaml")])
ONE_POD = {"host-k8s-oomkilling-event"}
"""An event of a node, and the log of one of two jobs on it: with one log left, that is the job."""


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_any_one_file(path, tmp_path):
    """One file of a job is not there, whatever it is: nobody else is named for sure."""
    truth = yaml.safe_load(path.read_text("utf-8"))
    bad = []
    for gone in truth["files"] if len(truth["files"]) > 1 else ():
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in truth["files"].items():
            if name != gone:
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
        found = diagnose([str(folder)])
        guess = found.verdicts and found.verdicts[0].confidence == POSSIBLE
        if not guess and path.stem not in ONE_POD and (said := wrong(truth, found)):
            bad.append(f"without {gone}: {said}")
    assert not bad


def test_there_are_enough():
    assert len(CASES) >= 40
