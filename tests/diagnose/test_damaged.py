"""Damaged evidence: cut, shuffled, flipped, with numbers that no job has. Nothing raises, and no part of torchvet fails."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.outputs import FORMATS, Style, render

INCIDENT = Path(__file__).resolve().parents[2] / "examples" / "incident"
NUMBERS = (b"-1", b"--1", b"99999999999999999999", b"nan", b"{x}", b"\xff\x00", b"1e999", b"")


def damage(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    way = rng.randrange(5)
    if way == 0:
        data = data[: rng.randrange(len(data) + 1)]
    elif way == 1:
        for _ in range(rng.randrange(1, 20)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    elif way == 2:
        lines = bytes(data).split(b"\n")
        rng.shuffle(lines)
        data = bytearray(b"\n".join(lines))
    elif way == 3:
        data = data.replace(rng.choice([b"0", b"1", b"2"]), rng.choice(NUMBERS))
    else:
        path.unlink()
        return
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("seed", range(16))
def test_nothing_raises(tmp_path, seed):
    rng = random.Random(seed)
    folder = tmp_path / "job"
    shutil.copytree(INCIDENT, folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in rng.sample(files, len(files) // 2):
        damage(path, rng)
    found = diagnose([str(folder)])
    for name in FORMATS:
        for lang in ("en", "zh"):
            render(name, found, Style(lang, verbose=True, paths=["job"]))
    assert not [str(t) for _, t in found.inventory.problems if "torchvet failed" in str(t)]


def test_a_cause_that_fails_costs_nothing_else(monkeypatch):
    from torchvet.diagnose import engine

    def broken(case):
        raise ZeroDivisionError("x")
        yield

    every = engine.all_causes()
    every["fabric"].judge, kept = broken, every["fabric"].judge
    try:
        found = diagnose([str(INCIDENT)])
    finally:
        every["fabric"].judge = kept
    assert found.verdicts
    assert [str(t) for name, t in found.inventory.problems if name == "torchvet"] == [
        "torchvet failed on the cause fabric: ZeroDivisionError: x"
    ]
