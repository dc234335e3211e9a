"""What torchvet reports as ranks out of step hangs or fails on real processes, and the repaired form ends.

A handful of cases runs by default. All of them, and the clean programs:

    TORCHVET_ALL_RANKS=1 pytest tests/reality_ranks

which takes three minutes on two cores. Cases that import accelerate, torchmetrics or lightning run where these are installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))

import cases  # noqa: E402

ALL = bool(os.environ.get("TORCHVET_ALL_RANKS"))
# a barrier in the branch, a reduction three calls away, a wrapped forward, a gather in an override, full_tensor, an early
# return before it, a group made by some, a stop that rank 0 takes alone, and programs of which look-alikes were reported
DEFAULT = ("B002", "B008", "B014", "B022", "B027", "B028", "B045", "B071")
DEFAULT_CLEAN = ("BN008", "BN009", "BN012", "BN044")
NEEDS_GPU = ("B084", "B085")
NOT_A_PROGRAM = ("B023",)  # a class that nothing makes
# the fault is there, and this run does not show it
SHOWS_NOTHING = {
    "B024": "save_state of plain DDP holds no collective; with a sharded optimizer it does",
    "B070": "gloo makes groups of one rank without the others; NCCL does not",
    "B074": "a race, lost in some runs only",
    "B080": "needs half an hour to show",
}
# the failing rank raises again, which is right; its peers learn of it from the launcher
RAISES_WHEN_REPAIRED = ("B060",)
WORLD = {"B073": 3}
# sets of strings have the same order in forks of one interpreter
FRESH = ("B052",)
LOUD = ("warning", "error")

FAULTY, CLEAN = cases.load(("hangs",))
CODE = {c["id"]: cases.texts(c) for c in FAULTY}
FIXED = {c["id"]: cases.texts(c, True) for c in FAULTY}
LEGAL = {c["id"]: cases.texts(c) for c in CLEAN}
IDS = [n for n in CODE if ALL or n in DEFAULT]
CLEAN_IDS = [n for n in LEGAL if ALL or n in DEFAULT_CLEAN]


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for form, texts in (("code", CODE), ("fixed", FIXED), ("clean", LEGAL)):
        for name, files in texts.items():
            cases.put(folder / form / name, files)
    return folder


@pytest.fixture(scope="session")
def said(root):
    """{(id, form): error and warning findings about ranks}"""
    found = {(p.name, p.parent.name): [] for p in root.glob("*/*")}
    command = [sys.executable, "-m", "torchvet", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
    for form in ("code", "fixed", "clean"):
        r = subprocess.run(command, cwd=root / form, capture_output=True, text=True, timeout=120)
        for f in json.loads(r.stdout)["findings"]:
            assert f["code"] != "TV009", f["message"]
            if f["code"].startswith("TV4") and f["severity"] in LOUD:
                found[f["path"].split("/")[0], form].append(f)
    return found


@pytest.fixture(scope="session")
def ran(root, said):  # after `said`: the runs write files beside the programs
    """{(id, form): result} of run_ranks.py, which says what a job and a result are."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if not sys.platform.startswith("linux"):
        pytest.skip("gloo over the loopback of Linux")
    jobs = []
    pairs = [(n, form) for n in IDS for form in ("code", "fixed")] + [(n, "clean") for n in CLEAN_IDS]
    for name, form in pairs:
        folder = root / form / name
        shutil.copy(HERE / "proj_data.py", folder)
        path = str(folder / "train.py")
        jobs.append({"key": [name, form], "path": path, "world": WORLD.get(name, 2), "fresh": name in FRESH})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    r = subprocess.run(
        [sys.executable, str(HERE / "run_ranks.py")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
    )
    assert r.returncode == 0, r.stderr[-3000:]
    return {tuple(result["key"]): result for result in map(json.loads, r.stdout.splitlines())}


def outcome(ran, name, form):
    if name in NEEDS_GPU:
        pytest.skip("needs a GPU")
    if name in NOT_A_PROGRAM:
        pytest.skip("nothing in the file starts it")
    result = ran[name, form]
    if result["outcome"] == "missing":
        pytest.skip(result["ranks"][0])
    return result


@pytest.mark.parametrize("name", IDS)
def test_faulty_program_hangs_or_fails(name, ran):
    if name in SHOWS_NOTHING:
        pytest.skip(SHOWS_NOTHING[name])
    result = outcome(ran, name, "code")
    assert result["outcome"] in ("hangs", "fails"), result


@pytest.mark.parametrize("name", IDS)
def test_repaired_program_ends(name, ran):
    result = outcome(ran, name, "fixed")
    assert result["outcome"] == ("fails" if name in RAISES_WHEN_REPAIRED else "ends"), result


@pytest.mark.parametrize("name", CLEAN_IDS)
def test_legal_program_ends(name, ran):
    result = outcome(ran, name, "clean")
    assert result["outcome"] == "ends", result


@pytest.mark.parametrize("name", IDS)
def test_what_is_reported_is_so(name, said, ran):
    """Nothing that ends is reported; what hangs and is not reported is listed at the end of the run."""
    if said[name, "code"] and name not in SHOWS_NOTHING:
        result = outcome(ran, name, "code")
        assert result["outcome"] != "ends", [f["message"] for f in said[name, "code"]]
    assert not [f["message"] for f in said[name, "fixed"]]


@pytest.mark.parametrize("case", [c for c in CLEAN if c["id"] in CLEAN_IDS and c["strict"]], ids=lambda c: c["id"])
def test_nothing_is_reported_on_what_ends(case, said, ran):
    name = case["id"]
    if outcome(ran, name, "clean")["outcome"] == "ends":
        assert not [f["message"] for f in said[name, "clean"]]


def test_the_default_cases_are_reported_and_run(said, ran, rank_lines):
    reported = [n for n in IDS if said[n, "code"]]
    bad = [n for n in IDS if ran[n, "code"]["outcome"] in ("hangs", "fails") and n not in NEEDS_GPU]
    missed = [n for n in bad if n not in reported]
    rank_lines.append(
        f"{len(bad)} of {len(IDS)} faulty programs hang or fail, {len(set(bad) & set(reported))} of them are reported"
    )
    rank_lines.append(f"hang or fail and are not reported: {', '.join(missed) or 'none'}")
    for n in IDS:
        result = ran[n, "code"]
        why = "needs a GPU" if n in NEEDS_GPU else "nothing starts it" if n in NOT_A_PROGRAM else SHOWS_NOTHING.get(n)
        if result["outcome"] == "missing":
            rank_lines.append(f"{n} not run: {result['ranks'][0]}")
        elif why:
            rank_lines.append(f"{n} {'reported' if n in reported else 'not reported'}, not shown: {why}")
    if not ALL:
        rank_lines.append("TORCHVET_ALL_RANKS=1 runs all cases of hangs.yaml and hangs_clean.yaml")
    assert {n for n in bad if n in DEFAULT} == set(DEFAULT)
    assert len(set(reported) & set(DEFAULT)) >= 4
