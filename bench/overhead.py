#!/usr/bin/env python3
"""What `torchvet run` costs a training job: paired runs of the same loop with and without it, two gloo ranks on CPUs.

    python bench/overhead.py [--pairs 10] [--seconds 20] [--against-itself] [--dry-run]

Measured inside the job: the time of the training loop (imports and start-up are printed apart), and the largest
resident memory of a rank. Both jobs of a pair are alive at once and take turns of a second: while one runs, all
processes of the other are stopped (SIGSTOP), and the time of its stops is taken off. So a slow minute of the machine
meets both. --against-itself pairs two jobs without `run`: what is left is the noise of the method.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
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
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"])]})
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
end = time.perf_counter()
if dist.get_rank() == 0:
    print("MEASURED", json.dumps([began, start, end, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]), flush=True)
dist.destroy_process_group()
"""  # noqa: E501


STEADY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
"""Memory once used is kept: page faults of large temporaries differ from process to process and are most of the noise."""
TURN = 1.0
"""Seconds of a turn."""


class Job:
    """One run of the loop. `measure` of both: [seconds before the loop, seconds of the loop, MiB of rank 0]."""

    def __init__(self, kind: str, steps: int, watched: bool, folder: Path) -> None:
        job = folder / "job.py"
        job.write_text(JOB)
        command = ["setarch", "-R", sys.executable, str(PAIR), str(job), kind, str(steps)]
        if watched:
            out = tempfile.mkdtemp(dir=folder)
            command = [sys.executable, "-m", "torchvet", "run", "--out", out, "--", *command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **STEADY}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.output = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(command, env=environment, stdout=self.output, stderr=subprocess.STDOUT)
        self.stops: list[tuple[float, float]] = []
        self.since = 0.0

    def done(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        self.since = time.perf_counter()
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        for pid in descendants(self.process.pid)[::-1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if self.since:
            self.stops.append((self.since, time.perf_counter()))

    def result(self) -> list[float]:
        self.output.seek(0)
        text = self.output.read()
        if self.process.wait() != 0:
            raise SystemExit(f"the job failed:\n{text[-2000:]}")
        began, start, end, memory = json.loads(text.split("MEASURED", 1)[1].splitlines()[0])

        def stopped(first: float, last: float) -> float:
            return sum(max(0.0, min(b, last) - max(a, first)) for a, b in self.stops)

        return [start - began - stopped(began, start), end - start - stopped(start, end), memory]


def descendants(pid: int) -> list[int]:
    """`pid` and all its children, parents first (/proc)."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", name, "stat").read_text()
                parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    out = [pid]
    for one in out:
        out += parents.get(one, [])
    return out


def pair(first: Job, second: Job) -> None:
    """Let both run to their ends in turns."""
    second.stop()
    running, waiting = first, second
    while not (running.done() and waiting.done()):
        until = time.perf_counter() + TURN
        while time.perf_counter() < until and not running.done():
            time.sleep(0.02)
        if not waiting.done():
            if not running.done():
                running.stop()
            waiting.go_on()
            running, waiting = waiting, running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of one loop")
    parser.add_argument("--against-itself", action="store_true", help="both jobs without run; does not write")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    given = parser.parse_args()
    rows = []
    for kind in ("convolutions", "MLP"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            alone = Job(kind, 20, False, folder)
            alone.process.wait()
            trial = alone.result()
            steps = max(20, int(given.seconds / (trial[1] / 20)))
            slower, memory, start = [], [], []
            for i in range(given.pairs):
                plain = Job(kind, steps, False, folder)
                watched = Job(kind, steps, not given.against_itself, folder)
                pair(*((plain, watched) if i % 2 == 0 else (watched, plain)))
                base, found = plain.result(), watched.result()
                slower.append(100 * (found[1] / base[1] - 1))
                memory.append(found[2] - base[2])
                start.append(found[0] - base[0])
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
    text += "two gloo ranks on CPUs; the jobs of a pair take turns of a second.\n\n| loop | steps | pairs | median | 95th percentile | memory a rank | "
    text += "start-up |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    print(text)
    if not given.dry_run and not given.against_itself:
        write("overhead", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
