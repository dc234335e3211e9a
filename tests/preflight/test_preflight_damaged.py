"""Machines whose files, commands and variables are damaged: no probe crashes, every format is written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from torchvet.preflight.command import Ran
from torchvet.preflight.node import examine
from torchvet.preflight.outputs import FORMATS, Style, render
from torchvet.preflight.plan import Plan
from torchvet.preflight.recorded import Recorded

MACHINES = sorted(p.parent for p in (Path(__file__).parent / "machines").glob("*/host.toml"))
JUNK = [
    "", "\n", "\x00", "max", "-1", "0", "99999999999999999999999", "NaN", "inf", "1e400", "٣", "a:b:c", "::", "0::/../..",
    "[N/A]", ",,,,,", "%s{}{x}", "/" * 300, "名" * 50, "0-99999", "-", "1 2 3 4 5", "some avg60=x",
]  # fmt: skip


class Damaged(Recorded):
    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(str(folder))
        self.rng = rng
        for name in self.env:
            if rng.random() < 0.2:
                self.env[name] = rng.choice(JUNK).replace("\x00", "")

    def damage(self, text: str) -> str:
        if self.rng.random() < 0.3:
            return self.rng.choice(JUNK)
        lines = text.split("\n")
        for _ in range(self.rng.randint(1, 4)):
            i = self.rng.randrange(len(lines))
            words = lines[i].split(" ")
            words[self.rng.randrange(len(words))] = self.rng.choice(JUNK)
            lines[i] = " ".join(words)
        return "\n".join(lines[: self.rng.randrange(1, 2 * len(lines) + 1)])

    def _read(self, path):
        text, why = super()._read(path)
        return (self.damage(text), why) if text is not None and self.rng.random() < 0.25 else (text, why)

    def _run(self, argv, seconds):
        ran = super()._run(argv, seconds)
        if ran is None or self.rng.random() < 0.7:
            return ran
        return Ran(self.rng.choice([0, 0, 1, 9, 255, -11]), self.damage(ran.out), ran.err)

    def list(self, path):
        return super().list(path) if self.rng.random() > 0.1 else [self.rng.choice(JUNK) for _ in range(3)]

    def limit(self, name):
        return (
            super().limit(name)
            if self.rng.random() > 0.1
            else self.rng.choice([None, (0, 0), (-1, -1), (2**63, 2**63)])
        )


PLANS = [
    Plan(),
    Plan(
        workers=64,
        batch_bytes=10**12,
        ranks_per_node=8,
        nodes=4,
        checkpoint_dir="/ckpt",
        data_dir="/data",
        checkpoint_bytes=10**11,
    ),
    Plan(workers=0, batch_bytes=0, ranks_per_node=1),
    Plan(workers=1),
]


@pytest.mark.parametrize("seed", range(6))
def test_no_probe_crashes(seed):
    rng = random.Random(seed)
    for _ in range(12):
        folder = rng.choice(MACHINES)
        report = examine(Damaged(folder, rng), rng.choice(PLANS))
        crashed = [str(r) for r in report.results if "the probe failed" in str(r.message)]
        assert not crashed, f"{folder.name}: {crashed}"
        for name in FORMATS:
            assert render(name, report, Style(rng.choice(["en", "zh"]), verbose=True))
