"""The fixture of jobs under `torchvet run`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from jobs import Left, command, settings


@pytest.fixture
def job(tmp_path):
    """`job(fault, *options, **environment)` runs the job to its end."""
    pytest.importorskip("torch")

    def run(fault: str, *options: str, torchrun: bool = False, limit: float = 90, **environment: str) -> Left:
        out = tmp_path / "run"
        words = [sys.executable, "-m", "torchvet", "run", "--out", str(out), "--interval", "0.25", *options, "--"]
        done = subprocess.run(
            [*words, *command(fault, torchrun)],
            env=settings(**environment), capture_output=True, encoding="utf-8", timeout=limit,
        )  # fmt: skip
        return Left(out, done.returncode, done.stdout, done.stderr)

    return run
