#!/usr/bin/env python3
"""What `torchvet run` costs a training job of two gloo ranks on CPUs.

    python bench/overhead.py [--pairs 10] [--nulls 10] [--whole 4] [--seconds 60] [--only within|between] [--loop MLP]

1. Within a job: under `torchvet run`, parts of half a second with the recorders of both ranks and parts without (hooks
   taken out, looks of the ranks and of the wrapping process skipped) come in pairs, which of the two first by chance;
   compared is the time of all parts with and of all parts without. Nothing but the recorders differs. The last rows
   switch nothing: what they show is the noise of the method. By chance, since looks come every two seconds, which in a
   regular order fell always or never into parts that were on; the time of all parts, since a median of parts does not
   see what few of them have; and skipped, since a wrapping process that is stopped (SIGSTOP) does more when it goes on
   than it does otherwise: it passes SIGCONT on, writes that down and syncs, and looks at once.
2. Between jobs: the same loop with and without `run`. Both jobs of a pair are alive at once and take turns of a second:
   while one runs, all processes of the other are stopped (SIGSTOP), and the time of its stops is taken off. This gives
   start-up and memory; its time says less: two processes of the very same program differ by several percent (third
   row: `run` in neither of them).
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
if len(sys.argv) > 3:  # parts of so many steps, half of them without recorders
    import mmap, random
    from torch.optim import optimizer as hooks
    from torchvet.run import rank
    watch, switch = rank._watch, mmap.mmap(os.open(os.environ["SWITCH"], os.O_RDWR), 1)
    marked, look, stepped = torch.autograd.backward, watch.look, dict(hooks._global_optimizer_post_hooks)

    def recorders(on):
        torch.autograd.backward = marked if on else marked.__wrapped__
        watch.look = look if on else lambda: watch.graphs.close_window()
        hooks._global_optimizer_post_hooks.clear()
        if on:
            hooks._global_optimizer_post_hooks.update(stepped)
        switch[0] = on

    took, draw = [], random.Random(int(sys.argv[4]))
    for pair in range(int(sys.argv[3])):
        first = draw.random() < 0.5
        for on in (first, not first):
            recorders(on and sys.argv[5] == "recorders")
            dist.barrier()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            dist.barrier()
            took.append([on, time.perf_counter() - start])
            if torch.autograd.backward is not marked:
                watch.graphs.backwards += steps  # how many it marks of each second depends on how many there are
    recorders(True)
    if dist.get_rank() == 0:
        print("MEASURED", json.dumps(took), flush=True)
    dist.destroy_process_group()
    sys.exit()
start = time.perf_counter()
for _ in range(steps):
    step()
end = time.perf_counter()
if dist.get_rank() == 0:
    print("MEASURED", json.dumps([began, start, end, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]), flush=True)
dist.destroy_process_group()
"""  # noqa: E501


STEADY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
"""Memory once used is kept: the page faults of large temporaries differ from process to process."""
TURN = 1.0
"""Seconds of a turn."""


class Job:
    """One run of the loop. `measure` of both: [seconds before the loop, seconds of the loop, MiB of rank 0]."""

    def __init__(self, kind: str, steps: int, watched: bool, folder: Path) -> None:
        job = folder / "job.py"
        job.write_text(JOB)
        command = [sys.executable, str(PAIR), str(job), kind, str(steps)]
        if watched:
            out = tempfile.mkdtemp(dir=folder)
            command = [sys.executable, "-m", "torchvet", "run", "--out", out, "--", *command]
        self.output = tempfile.TemporaryFile("w+", dir=folder)  # noqa: SIM115 - closed with the job
        self.process = subprocess.Popen(command, env=environment(), stdout=self.output, stderr=subprocess.STDOUT)
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
        self.process.wait()
        self.output.seek(0)
        text = self.output.read()
        if "MEASURED" not in text:  # gloo now and then aborts while it is taken down, with the figures printed
            raise SystemExit(f"the job failed:\n{text[-2000:]}")
        began, start, end, memory = json.loads(text.split("MEASURED", 1)[1].splitlines()[0])

        def stopped(first: float, last: float) -> float:
            return sum(max(0.0, min(b, last) - max(a, first)) for a, b in self.stops)

        return [start - began - stopped(began, start), end - start - stopped(start, end), memory]


LOOPS = ("convolutions", "MLP")
PART = 0.5
"""Seconds of a part of a job whose recorders are switched; the machine's own noise is of seconds."""
WRAPPER = """
import mmap, os, sys
from torchvet.cli import main
from torchvet.run.launcher import Run
switch, look = mmap.mmap(os.open(os.environ["SWITCH"], os.O_RDWR), 1), Run.look
Run.look = lambda self: look(self) if switch[0] else None
sys.exit(main(sys.argv[1:]))
"""


def within(kind: str, pairs: int, steps: int, folder: Path, draw: int, switched: str) -> float:
    """Percent by which the parts with recorders take longer, all together, than those without, in one job (rank 0)."""
    (folder / "job.py").write_text(JOB)
    (folder / "switch").write_bytes(b"\0")
    out = tempfile.mkdtemp(dir=folder)
    command = [sys.executable, "-c", WRAPPER, "run", "--out", out, "--", sys.executable, str(PAIR)]
    command += [str(folder / "job.py"), kind, str(steps), str(pairs), str(draw), switched]
    words = {**environment(), "SWITCH": str(folder / "switch")}
    done = subprocess.run(command, env=words, capture_output=True, encoding="utf-8")
    if "MEASURED" not in done.stdout:
        raise SystemExit(f"the job failed:\n{done.stderr[-2000:]}")
    took: list[tuple[bool, float]] = json.loads(done.stdout.split("MEASURED", 1)[1].splitlines()[0])
    on, off = (sum(seconds for was, seconds in took if was is state) for state in (True, False))
    return 100 * (on / off - 1)


def environment() -> dict[str, str]:
    words = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **STEADY}
    words.pop("PYTHONDONTWRITEBYTECODE", None)
    return words


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


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--nulls", type=int, help="jobs in which nothing is switched; as many as pairs by default")
    parser.add_argument("--whole", type=int, default=4, help="pairs of jobs, of half the seconds")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of one loop")
    parser.add_argument("--only", choices=("within", "between"))
    parser.add_argument("--loop", choices=LOOPS, help="one of the loops")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    given = parser.parse_args()
    inside, outside = [], []
    for kind in (given.loop,) if given.loop else LOOPS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            alone = Job(kind, 20, False, folder)
            alone.process.wait()
            each = alone.result()[1] / 20
            steps = max(20, int(given.seconds / 2 / each))
            part = max(1, round(PART / each))
            pairs = max(3, round(given.seconds / (part * each) / 2))
            for switched in ("recorders", "nothing") if given.only != "between" else ():
                slower = []
                jobs = given.nulls if switched == "nothing" and given.nulls is not None else given.pairs
                for i in range(jobs):
                    slower.append(within(kind, pairs, part, folder, i, switched))
                    print(f"{kind} job {i + 1}, {switched} switched: {slower[-1]:+.2f} %", file=sys.stderr, flush=True)
                middle, low, high = statistics.median(slower), share(slower, 0.05), share(slower, 0.95)
                inside.append(
                    f"| {kind} | {switched} | {2 * pairs} x {part} | {jobs} | {middle:+.2f} % "
                    f"| {low:+.2f} % | {high:+.2f} % |"
                )
            for watching in (True, False) if given.only != "within" else ():
                rows = []
                for i in range(given.whole):
                    plain, other = Job(kind, steps, False, folder), Job(kind, steps, watching, folder)
                    pair(*((plain, other) if i % 2 == 0 else (other, plain)))
                    base, found = plain.result(), other.result()
                    rows.append((100 * (found[1] / base[1] - 1), found[2] - base[2], 1000 * (found[0] - base[0])))
                    print(f"{kind} pair {i + 1}: {rows[-1][0]:+.2f} %", file=sys.stderr, flush=True)
                slower, memory, start = ([r[i] for r in rows] for i in range(3))
                spread = f"{share(slower, 0.05):+.1f} to {share(slower, 0.95):+.1f} %"
                outside.append(
                    f"| {kind} | {'with and without' if watching else 'without both times'} | {steps} | {given.whole} "
                    f"| {statistics.median(slower):+.2f} % | {spread} "
                    f"| {statistics.median(memory):+.1f} MiB | {statistics.median(start):+.0f} ms |"
                )
    text = "## What `torchvet run` costs a job\n\n`python bench/overhead.py`: two gloo ranks on CPUs.\n\n"
    text += (
        "Within a job, parts with and without:\n\n| loop | switched | parts x steps | jobs | median | 5th percentile "
        "| 95th percentile |\n"
    )
    text += "|---|---|---|---|---|---|---|\n" + "\n".join(inside) + "\n\n"
    text += (
        "Between jobs that take turns of a second:\n\n| loop | `run` | steps | pairs | median | 5th to 95th percentile "
    )
    text += "| memory a rank | start-up |\n|---|---|---|---|---|---|---|---|\n" + "\n".join(outside) + "\n"
    print(text)
    if not given.dry_run and not given.only:
        write("overhead", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
