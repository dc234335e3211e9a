"""Real jobs under `torchvet run`: two gloo processes, a fault, and what is left afterwards."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PAIR = Path(__file__).parent / "programs" / "pair.py"
JOB = Path(__file__).parent / "programs" / "job.py"


class Left:
    """The folder of a run after the job, and how the command ended."""

    def __init__(self, out: Path, code: int, stdout: str, stderr: str) -> None:
        self.out = out
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        self.attempt = out / "attempt_0"

    def rank(self, n: int) -> Path:
        return self.attempt / f"rank_{n}"

    def end(self, n: int) -> dict | None:
        path = self.rank(n) / "end.json"
        return json.loads(path.read_text()) if path.exists() else None

    def lines(self, n: int, name: str) -> list[dict]:
        path = self.rank(n) / name
        return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []

    def events(self, kind: str) -> list[dict]:
        rows = [json.loads(x) for p in self.attempt.glob("wrapper_*.jsonl") for x in p.read_text().splitlines()]
        return [r for r in rows if r["event"] == kind]


def command(fault: str, torchrun: bool = False) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"] if torchrun else [str(PAIR)]
    return [sys.executable, *launcher, str(JOB), fault]


def settings(**more: str) -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "TORCHVET_LANG": "en", **more}
