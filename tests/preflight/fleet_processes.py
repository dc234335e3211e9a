"""Ranks as processes on recorded machines."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BASE = HERE / "machines" / "bare-workstation"
COMMAND = [sys.executable, "-m", "torchvet", "preflight", "--lang", "en", "--color", "never"]
LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def machine(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A recorded machine with another name and other words in its host.toml."""
    shutil.copytree(BASE, folder / name)
    path = folder / name / "host.toml"
    text = path.read_text("utf-8").replace('"hostname" = "bare-workstation"', f'"hostname" = "{name}"')
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    return folder / name


def start(
    rank: int, world: int, local: int, port: int, *words: str, env: dict[str, str] | None = None
) -> subprocess.Popen:
    own = {k: v for k, v in os.environ.items() if k not in LAUNCH and not k.startswith(("SLURM_", "OMPI_", "PMI"))}
    own |= {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local), "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **(env or {}),
    }  # fmt: skip
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)


def ends(processes: list[subprocess.Popen], seconds: float) -> list[tuple[int, str, str]]:
    out = []
    end = time.monotonic() + seconds
    try:
        for p in processes:
            said, complained = p.communicate(timeout=max(0.1, end - time.monotonic()))
            out.append((p.returncode, said, complained))
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
    return out
