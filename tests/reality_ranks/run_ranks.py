"""Runs programs on gloo ranks: JSON jobs on standard input, JSON results on standard output.

A job is {"key", "path", "world", "fresh"}: `fresh` starts each rank in an interpreter of its own, with its own hash seed.
A result is {"key", "outcome", "ranks"}; `outcome` is

    ends     every rank reached the end of the program
    hangs    a rank waited for a peer until the time-out of its process group, or until LIMIT_S
    fails    a rank raised something else, or died
    missing  a module is not installed

A rank that has reached the end stays alive with its connections: a gloo peer that is gone is an error at once for those who
wait for it, an NCCL peer that is gone is a hang.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

TIMEOUT_S = 6
LIMIT_S = 20
AT_ONCE = 3
# each takes the ranks of every case seconds to import, so it is imported once, before the forks
HEAVY = (
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.device_mesh",
    "torch.distributed.tensor",
)
MISSING = 3


def set_up(store: str) -> None:
    """Short time-outs, and a rendezvous through a file in place of a port that another program may take."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed_c10d.default_pg_timeout = timedelta(seconds=TIMEOUT_S)
    original = dist.init_process_group

    def init_process_group(backend=None, init_method=None, **options):
        if init_method in (None, "env://") and options.get("store") is None:
            rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            options.update(store=dist.FileStore(store, world), rank=rank, world_size=world)
            init_method = None
        if options.get("timeout") is None:
            options["timeout"] = timedelta(seconds=TIMEOUT_S)
        return original(backend, init_method, **options)

    dist.init_process_group = distributed_c10d.init_process_group = init_process_group


def rank_main(path: str, store: str, report: str) -> None:
    """The life of one rank. Writes what happened to `report`, then waits to be ended."""
    said = "ends"
    try:
        set_up(store)
        sys.argv = [path]
        sys.path.insert(0, os.path.dirname(path))
        runpy.run_path(path, run_name="__main__")
    except ModuleNotFoundError as e:
        said = f"missing {e.name}"
    except SystemExit as e:
        said = "ends" if not e.code else f"fails: exit {e.code}"
    except BaseException as e:
        traceback.print_exc()
        text = f"{type(e).__name__}: {e}".split("\n")[0][:200]
        said = f"hangs: {text}" if "timed out" in text.lower() or "timeout" in text.lower() else f"fails: {text}"
    sys.stdout.flush()
    with open(report + ".part", "w", encoding="utf-8") as f:
        f.write(said)
    os.rename(report + ".part", report)
    signal.alarm(0)
    time.sleep(2 * LIMIT_S)
    os._exit(0)


def start(job: dict, rank: int, folder: str, store: str, report: str) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        log = os.open(f"{report}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(job["world"]), LOCAL_WORLD_SIZE=str(job["world"]),
            MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", GLOO_SOCKET_IFNAME="lo", CUDA_VISIBLE_DEVICES="",
            ACCELERATE_USE_CPU="true", PYTHONHASHSEED=str(rank + 1),
        )  # fmt: skip
        if job["fresh"]:
            os.execv(sys.executable, [sys.executable, __file__, "--rank", job["path"], store, report])
        rank_main(job["path"], store, report)
    finally:
        os._exit(70)


def read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Run:
    """One program on its ranks. `poll` until it gives the result."""

    def __init__(self, job: dict) -> None:
        self.job = job
        self.private = tempfile.TemporaryDirectory(prefix="ranks-")
        self.reports = [os.path.join(self.private.name, f"rank{r}") for r in range(job["world"])]
        store = os.path.join(self.private.name, "store")
        folder = os.path.dirname(job["path"])
        self.started = time.monotonic()
        self.children = [start(job, r, folder, store, p) for r, p in enumerate(self.reports)]
        self.dead: dict[int, str] = {}

    def poll(self) -> dict | None:
        for i, child in enumerate(self.children):
            if i not in self.dead and os.waitpid(child, os.WNOHANG)[0]:
                self.dead[i] = (read(self.reports[i] + ".log") or "").strip().split("\n")[-1][:200]
        said = [self.said(i) for i in range(len(self.reports))]
        seconds = time.monotonic() - self.started
        late = seconds > (2 if self.job["fresh"] else 1) * LIMIT_S
        known = [s.split(":")[0].split(" ")[0] for s in said if s]
        if not late and len(known) < len(said) and set(known) <= {"ends"}:
            return None
        for i, child in enumerate(self.children):
            if i not in self.dead:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        self.private.cleanup()
        # who fails while a peer runs into its time-out fails because of it
        outcome = next(
            (o for o in ("missing", "hangs", "fails") if o in known), "hangs" if len(known) < len(said) else "ends"
        )
        ranks = [s or "still waiting" for s in said]
        return {"key": self.job["key"], "outcome": outcome, "ranks": ranks, "seconds": round(seconds, 1)}

    def said(self, rank: int) -> str | None:
        return read(self.reports[rank]) or (f"fails: died: {self.dead[rank]}" if rank in self.dead else None)


def main() -> None:
    for name in HEAVY:
        importlib.import_module(name)
    jobs = json.load(sys.stdin)[::-1]
    running: list[Run] = []
    # one thread: a fork of a process with several may inherit a lock that nobody releases
    while jobs or running:
        while jobs and len(running) < AT_ONCE:
            running.append(Run(jobs.pop()))
        time.sleep(0.05)
        for run in list(running):
            result = run.poll()
            if result:
                running.remove(run)
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(*sys.argv[2:])
    main()
