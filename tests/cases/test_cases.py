"""Recall never falls, and nothing is reported on repaired and clean programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import cases  # noqa: E402

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

FAULTY, CLEAN = cases.load()
FLOORS = tomllib.loads(cases.FLOORS.read_text("utf-8")) if cases.FLOORS.exists() else {}


@pytest.fixture(scope="session")
def found():
    command = [sys.executable, "-m", "torchvet", "check", "--no-cache", "--isolated", "--output-format", "json"]
    made = cases.Findings(command, FAULTY, CLEAN)
    assert not made.lost
    return made


@pytest.fixture(scope="session")
def result(found):
    return cases.score(found, FAULTY, CLEAN)


def test_cases_are_well_formed():
    ids = [c["id"] for c in FAULTY + CLEAN]
    assert len(ids) == len(set(ids)) > 150
    for case in FAULTY:
        files = {name: text.split("\n") for name, text in cases.texts(case).items()}
        for x in case["expected"]:
            lines = files[x.get("file") or next(iter(files))]
            assert lines[x["line"] - 1].strip() == x["text"].strip(), case["id"]


@pytest.mark.parametrize("name", [c["id"] for c in FAULTY if cases.texts(c, True)])
def test_repaired_form_is_silent(name, found):
    assert not [cases.short(f) for f in cases.loud(found.fixed[name])]


@pytest.mark.parametrize("name", [c["id"] for c in CLEAN if c.get("strict", True)])
def test_clean_case_is_silent(name, found):
    assert not [cases.short(f) for f in cases.loud(found.clean[name])]


@pytest.mark.parametrize("case", [c for c in CLEAN if not c.get("strict", True)], ids=lambda c: c["id"])
def test_debatable_case_stays_below_its_level(case, found):
    limit = cases.LEVEL[case.get("max_severity", "warning")]
    assert not [cases.short(f) for f in found.clean[case["id"]] if cases.LEVEL[f["severity"]] > limit]


def test_there_are_floors():
    assert sum(n for kinds in FLOORS.values() for n in kinds.values()) > 0


@pytest.mark.parametrize(("family", "kind"), [(f, k) for f, kinds in FLOORS.items() for k in kinds])
def test_recall_does_not_fall(family, kind, result):
    hit = result["kinds"][family, kind]["hit"]
    assert hit >= FLOORS[family][kind], f"{hit} found, {FLOORS[family][kind]} were found before"


def test_the_order_of_sets_decides_nothing(tmp_path):
    """Two runs with different hash seeds print the same bytes."""
    import os
    import subprocess

    for case in FAULTY:
        cases.put(tmp_path / case["id"], cases.texts(case))
    command = [sys.executable, "-m", "torchvet", "check", "--no-cache", "--isolated", "--output-format", "json", "."]
    printed = {
        subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
