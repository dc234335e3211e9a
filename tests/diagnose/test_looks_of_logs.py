"""The same words in another dress, and words of which a part lacks.

What collectors, terminals and Windows put around lines changes no verdict; a log that was cut may make it weaker and
must not move the blame.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml
from test_incidents import judged

from torchvet.diagnose.engine import diagnose

HERE = Path(__file__).parent
CASES = sorted([*(HERE / "incidents_fresh").glob("*.yaml"), *(HERE / "incidents_ends").glob("*.yaml")])


def stamped(form: str):
    def change(text: str) -> str:
        lines = text.split("\n")
        return "\n".join(form % (n // 60 % 60, n % 60) + line if line else line for n, line in enumerate(lines))

    return change


LOOKS = {
    "crlf": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "ansi": lambda text: "\n".join(f"\x1b[36m{line}\x1b[0m" if line else line for line in text.split("\n")),
    "kubectl --timestamps": stamped("2026-03-04T11:%02d:%02d.123456789Z "),
    "logging": stamped("[03/04/26 11:%02d:%02d] "),
    "glog": stamped("I20260304 11:%02d:%02d.123 991 logger.py:61] "),
    "syslog": stamped("Mar  4 11:%02d:%02d node-7 trainer: "),
}
RECORDS = {"condor-evicted", "condor-mem", "k8s-multiline-stern", "k8s-json-logs-oomkilled"}
"""Files that are themselves what a scheduler or a collector wrote."""
CUTS = {"begin": (0.0, 0.7), "nearly all": (0.0, 0.95), "end": (0.4, 1.0)}
BEGINS_BEHIND = {"cuda-assert", "kill9-sagemaker", "mpi-segv"}
"""What says whose log it is, or that a rank lost its peer, stood in the part that lacks."""


def of_a_program(name: str) -> bool:
    """Records of schedulers and JSON have a form of their own."""
    if re.search(r"dmesg|condor|describe|\.json", name):
        return False
    return re.search(r"stdout|stderr|launcher|rank|worker|train|log|out", name) is not None


def judge(files: dict[str, bytes], folder: Path):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return diagnose([str(folder)])


@pytest.mark.parametrize("look", LOOKS)
def test_the_dress_of_lines(look, tmp_path):
    bad = []
    for path in CASES:
        if path.stem in RECORDS:
            continue
        truth = yaml.safe_load(path.read_text("utf-8"))
        files = {
            name: (LOOKS[look](text) if of_a_program(name) else text).encode() for name, text in truth["files"].items()
        }
        found = judge(files, tmp_path / path.stem)
        unsaid = bool(found.verdicts) and found.verdicts[0].cause == "unknown" and not found.verdicts[0].ranks
        if not unsaid and (wrong := judged(truth, found)):
            bad.append((path.stem, wrong))
    assert not bad


@pytest.mark.parametrize("mark", ["{r}: ", "[rank{r}]: ", "[default{r}]:", "[1,{r}]<stderr>:"])
def test_logs_of_ranks_in_one_file(mark, tmp_path):
    """srun -l, torch, torchrun --tee and mpirun --tag-output: lines of all ranks, as they come."""
    rng = random.Random(7)
    bad, seen = [], 0
    for path in CASES:
        truth = yaml.safe_load(path.read_text("utf-8"))
        rows: dict[int, list[str]] = {}
        rest: dict[str, bytes] = {}
        for name, text in sorted(truth["files"].items(), reverse=True):  # standard output first
            found = re.search(r"attempt_0/(\d+)/(?:stdout|stderr)\.log$", name)
            if found:
                rows.setdefault(int(found[1]), []).extend(
                    re.sub(r"^\[rank\d+\]: ?", "", line) for line in text.splitlines()
                )
            else:
                rest[name] = text.encode()
        if len(rows) < 2 or any("attempt_1" in name for name in truth["files"]):
            continue
        seen += 1
        lines = []
        while any(rows.values()):
            rank = rng.choice([r for r in rows if rows[r]])
            count = rng.randint(1, 3)
            lines += [mark.format(r=rank) + line for line in rows[rank][:count]]
            rows[rank] = rows[rank][count:]
        found = judge({**rest, "job.log": ("\n".join(lines) + "\n").encode()}, tmp_path / path.stem)
        unsaid = bool(found.verdicts) and found.verdicts[0].cause == "unknown" and not found.verdicts[0].ranks
        if not unsaid and (wrong := judged(truth, found)):
            bad.append((path.stem, wrong))
    assert not bad
    assert seen > 12


@pytest.mark.parametrize("part", CUTS)
def test_a_part_of_every_log(part, tmp_path):
    low, high = CUTS[part]
    bad = []
    for path in CASES:
        truth = yaml.safe_load(path.read_text("utf-8"))
        if part == "end" and path.stem in BEGINS_BEHIND:
            continue
        files = {
            name: text[int(len(text) * low) : int(len(text) * high)].encode() if of_a_program(name) and "launcher" not in name
            else text.encode() for name, text in truth["files"].items()
        }  # fmt: skip
        found = judge(files, tmp_path / path.stem)
        at_fault = {r for c in truth["causes"] for r in c.get("ranks") or []}
        named = set(found.verdicts[0].ranks) if found.verdicts else set()
        if named - at_fault and not (at_fault and named > at_fault and found.verdicts[0].confidence != "confirmed"):
            bad.append(
                (path.stem, found.verdicts[0].confidence, found.verdicts[0].cause, sorted(named), sorted(at_fault))
            )
    assert not bad
