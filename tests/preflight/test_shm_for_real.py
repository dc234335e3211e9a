"""What preflight says of /dev/shm against what a real loader does there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
SOURCE = Path(__file__).resolve().parents[2] / "src"

LOADER = """\
import time
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    data = [torch.zeros(1 << 18) for _ in range(96)]  # 1 MiB each
    loader = DataLoader(data, batch_size=8, num_workers=2, prefetch_factor=2)
    for number, batch in enumerate(loader):
        if not number:
            time.sleep(1)  # the workers fill what they may
    print("all", number + 1)
"""
JOB = "--workers 2 --prefetch 2 --batch-bytes 8MiB --ranks-per-node 1 --only shm-size"


def allowed() -> bool:
    try:
        return subprocess.run(["unshare", "-m", "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.skipif(not allowed(), reason="no mount namespace may be made here (needs root)")
@pytest.mark.parametrize(("size", "fits"), [("24m", False), ("50m", True)])
def test_the_verdict_comes_true(tmp_path, size, fits):
    (tmp_path / "loader.py").write_text(LOADER)
    script = (
        f"mount -t tmpfs -o size={size} tmpfs /dev/shm\n"
        f'"{sys.executable}" -m torchvet preflight {JOB} >&2; echo "preflight $?"\n'
        f'timeout -s KILL 60 "{sys.executable}" {tmp_path}/loader.py; echo "loader $?"\n'
    )
    r = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    said = dict(line.split()[:2] for line in r.stdout.splitlines())
    assert said["preflight"] == ("0" if fits else "1"), r.stderr
    assert (said["loader"] == "0") == fits, r.stderr
    if not fits:
        assert "shared memory" in r.stderr or "Bus error" in r.stderr or "No space left" in r.stderr
