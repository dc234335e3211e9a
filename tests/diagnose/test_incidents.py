"""Every stored incident: the right cause, the right ranks, and nothing that the evidence does not carry."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
import yaml

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.model import CONFIDENCES, KINDS

HERE = Path(__file__).parent
STORED = HERE / "incidents"
# dumps of a 16-rank NCCL job, published under Apache-2.0; they lie beside the project, not in it
BESIDE = HERE.parents[1].parent / "shared" / "incidents"
CASES = sorted(STORED.glob("*/truth.yaml")) + sorted(BESIDE.glob("nvrx-*/truth.yaml"))


def judged(truth: dict, found) -> list[str]:
    """What is wrong with the verdicts, by the rules of the incidents' README."""
    verdicts = found.verdicts
    if truth["outcome"] == "ok":
        return [f"a healthy run is blamed: {h.cause}" for h in verdicts]
    if not verdicts:
        return ["nothing found"]
    ranks = {r for c in truth["causes"] for r in c.get("ranks") or []}
    accepted = set(truth.get("accept_kinds") or [c["kind"] for c in truth["causes"]])
    out = []
    if verdicts[0].cause not in accepted:
        out.append(f"cause {verdicts[0].cause} instead of {sorted(accepted)}")
    got = {r for h in ([h for h in verdicts if h.cause in accepted] or verdicts[:1]) for r in h.ranks}
    if got != ranks:
        out.append(f"ranks {sorted(got)} instead of {sorted(ranks)}")
    line = " ; ".join(f"{h.cause} {h.sub} {h.summary}" for h in verdicts)
    for rule in truth.get("must_not_say") or []:
        out += [
            f"says: {rule['say']}" for pattern in rule.get("match") or [] if re.search(pattern, line, re.IGNORECASE)
        ]
    limit = truth.get("confidence_max")
    if limit and CONFIDENCES.index(verdicts[0].confidence) < CONFIDENCES.index(limit):
        out.append(f"is {verdicts[0].confidence}, the evidence allows {limit}")
    return out


@pytest.fixture(params=CASES, ids=lambda p: p.parent.name)
def incident(request, tmp_path):
    """(truth, folder with a name that gives nothing away)."""
    folder = tmp_path / "job"
    shutil.copytree(request.param.parent / "evidence", folder)
    return yaml.safe_load(request.param.read_text("utf-8")), folder


def test_cause_ranks_and_silence(incident):
    truth, folder = incident
    found = diagnose([str(folder)])
    assert not judged(truth, found)
    assert not [p for p in found.inventory.problems if "torchvet failed here" in str(p[1])]
    for h in found.verdicts + found.side_findings:
        assert h.cause in KINDS and h.confidence in CONFIDENCES
        assert re.search(r"[\u4e00-\u9fff]", h.summary.render("zh")), "no Chinese summary"
        for text in [link.reason for link in h.supports + h.contradicts] + h.missing + h.next:
            assert text.render("en") and text.render("zh")


def test_true_side_findings_are_told_apart(incident):
    truth, folder = incident
    if not truth.get("also"):
        pytest.skip("nothing beside the cause")
    found = diagnose([str(folder)])
    ranks = {r for row in truth["also"] for r in row["ranks"]}
    assert ranks <= {r for h in found.side_findings for r in h.ranks}
    assert not any(h.sub == "growth" for h in found.verdicts)


def test_what_is_not_known_is_asked_for(incident):
    truth, folder = incident
    found = diagnose([str(folder)])
    limit = truth.get("confidence_max")
    if limit is None:
        pytest.skip("the evidence is complete")
    assert any(h.missing for h in found.verdicts) or found.inventory.missing


def test_the_incidents_are_there():
    assert len(CASES) >= 38
    licences = {p.parent.parent.name for p in STORED.glob("*/*/LICENSE*")}
    assert not any(name.startswith("nvrx") for name in licences)


@pytest.mark.parametrize("truth", [p for p in CASES if p.parent.name.startswith("gloo-")], ids=lambda p: p.parent.name)
def test_logs_alone(truth, tmp_path):
    """Without dumps and stacks the answer is the same, or careful: it is never another one."""
    folder = tmp_path / "job"
    shutil.copytree(truth.parent / "evidence", folder, ignore=shutil.ignore_patterns("fr_*", "stacks"))
    row = yaml.safe_load(truth.read_text("utf-8"))
    found = diagnose([str(folder)])
    wrong = judged(row, found)
    if wrong and found.verdicts:
        first = found.verdicts[0]
        ranks = {r for c in row["causes"] for r in c.get("ranks") or []}
        careful = first.cause == "unknown" or ("cannot be told" in str(first.summary) and ranks <= set(first.ranks))
        assert careful and first.confidence != "confirmed", wrong
        assert not [w for w in wrong if w.startswith(("says", "a healthy"))]
        return
    assert not wrong


def test_logs_alone_are_mostly_enough():
    """The careful answers stay few: sizes, groups, and calls of ranks that were closed before their timeout."""
    right = total = 0
    for truth in CASES:
        if truth.parent.name.startswith("gloo-"):
            evidence = truth.parent / "evidence"
            paths = [str(p) for p in evidence.iterdir() if p.name not in ("fr_live", "fr_exit", "stacks")]
            right += not judged(yaml.safe_load(truth.read_text("utf-8")), diagnose(paths))
            total += 1
    assert right >= 0.7 * total, f"{right} of {total}"


def damaged(folder: Path, chooser: random.Random) -> None:
    """Some files are gone, cut, mixed up or have wrong bytes."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        fate, data = chooser.random(), path.read_bytes()
        if fate < 0.2:
            path.unlink()
        elif fate < 0.3:
            path.write_bytes(data[: chooser.randrange(len(data) + 1)])
        elif fate < 0.4:
            lines = data.split(b"\n")
            chooser.shuffle(lines)
            path.write_bytes(b"\n".join(lines))
        elif fate < 0.5 and data:
            wrong = bytearray(data)
            for _ in range(20):
                wrong[chooser.randrange(len(wrong))] = chooser.randrange(256)
            path.write_bytes(bytes(wrong))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_evidence_is_survived(seed, tmp_path):
    chooser = random.Random(seed)
    folder = tmp_path / "job"
    shutil.copytree(chooser.choice(CASES).parent / "evidence", folder)
    damaged(folder, chooser)
    found = diagnose([str(folder)])
    assert not [p for p in found.inventory.problems if "torchvet failed here" in str(p[1])]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["gloo-healthy", "gloo-growth-only"])
def test_damage_does_not_make_a_healthy_run_sick(name, seed, tmp_path):
    folder = tmp_path / "job"
    shutil.copytree(STORED / name / "evidence", folder)
    damaged(folder, random.Random(seed))
    assert [(h.cause, h.sub) for h in diagnose([str(folder)]).verdicts] == []
