#!/usr/bin/env python3
"""What `torchvet run` costs a training job: paired runs of the same loop with and without it, two gloo ranks on CPUs.

    python bench/overhead.py [--pairs 10] [--steps N] [--dry-run]

Measured inside the job: the time of the training loop (imports and start-up are printed apart), and the largest
resident memory of a rank. The order within a pair changes from pair to pair.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from results import write

ROOT = Path(__file__).resolve().parent.parent
PAIR = ROOT / "tests" / "run" / "programs" / "pair.py"
JOB = """
import json, os, resource, sys, time
began = time.perf_counter()
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
kind, steps = sys.argv[1], int(sys.argv[2])

def block(i, o, stride):
    return torch.nn.Sequential(
        torch.nn.Conv2d(i, o, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(o), torch.nn.ReLU(),
        torch.nn.Conv2d(o, o, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(o), torch.nn.ReLU())

if kind == "convolutions":  # the blocks and the 11 million parameters of a ResNet-18
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.MaxPool2d(3, 2, 1), *[block(*w) for w in widths],
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 100))
    x = torch.randn(4, 3, 64, 64)
else:
    model = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(128, 128), torch.nn.ReLU())], torch.nn.Linear(128, 100))
    x = torch.randn(32, 128)
target = torch.randint(100, (len(x),))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()

for _ in range(3):
    step()
dist.barrier()
start = time.perf_counter()
for _ in range(steps):
    step()
took = time.perf_counter() - start
if dist.get_rank() == 0:
    print("MEASURED", json.dumps([start - began, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]), flush=True)
dist.destroy_process_group()
"""  # noqa: E501


def one(kind: str, steps: int, watched: bool, folder: Path) -> list[float]:
    """[seconds before the loop, seconds of the loop, MiB] of rank 0."""
    job = folder / "job.py"
    job.write_text(JOB)
    command = [sys.executable, str(PAIR), str(job), kind, str(steps)]
    if watched:
        out = tempfile.mkdtemp(dir=folder)
        command = [sys.executable, "-m", "torchvet", "run", "--out", out, "--", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True)
    measured: list[float] = json.loads(done.stdout.split("MEASURED", 1)[1].splitlines()[0])
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of one loop")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    given = parser.parse_args()
    rows = []
    for kind in ("convolutions", "MLP"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            trial = one(kind, 20, False, folder)
            steps = max(20, int(given.seconds / (trial[1] / 20)))
            slower, memory, start = [], [], []
            for i in range(given.pairs):
                order = (False, True) if i % 2 == 0 else (True, False)
                found = {watched: one(kind, steps, watched, folder) for watched in order}
                slower.append(100 * (found[True][1] / found[False][1] - 1))
                memory.append(found[True][2] - found[False][2])
                start.append(found[True][0] - found[False][0])
                print(f"{kind} pair {i + 1}: {slower[-1]:+.2f} % {memory[-1]:+.1f} MiB", file=sys.stderr, flush=True)
            slower.sort()
            high = slower[min(len(slower) - 1, int(0.95 * len(slower)))]
            rows.append(
                f"| {kind} | {steps} | {given.pairs} | {statistics.median(slower):+.2f} % | {high:+.2f} % "
                f"| {statistics.median(memory):+.1f} MiB | {1000 * statistics.median(start):+.0f} ms |"
            )
    text = (
        "## What `torchvet run` costs a job\n\n`python bench/overhead.py`: the same training loop with and without it, "
    )
    text += "two gloo ranks on CPUs, in pairs.\n\n| loop | steps | pairs | median | 95th percentile | memory a rank | "
    text += "start-up |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    print(text)
    if not given.dry_run:
        write("overhead", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
