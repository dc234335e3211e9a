"""The recorder inside one rank: a thread that looks every few seconds, and the last words.

Everything that can fail is fenced: what goes wrong is written to trouble.txt and the job goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import sys
import threading
import time
import traceback
import warnings

from . import host_series
from .flight import Flight, switch_on
from .folder import Lines, read_json, write_json
from .graph_probe import EARLY_LOOKS, FIRST_LOOKS, GraphProbe
from .stacks import Stacks
from .untraced import untraced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULTS: dict[str, Any] = {
    "recorder": True,  # flight recorder dumps
    "stacks": True,  # stacks of all threads
    "graphs": True,  # live autograd graphs
    "host": True,  # memory, files, workers
    "interval": 2.0,  # seconds between two looks
    "stall": 0.0,  # seconds without progress that are a stall; 0 = 60 % of the group's time-out
    "cuda_history": False,  # record the history of CUDA allocations
    "profile": "",  # "STEP:COUNT": a profiler trace of COUNT steps from STEP on
}
FRACTION = 0.6
"""Share of a group's time-out after which a rank that waits writes its dumps: the time-out itself spoils them."""
IDLE = 300.0
"""Seconds without a step that are a stall where no collective is outstanding (a loader that hangs)."""
ENVIRONMENT = (
    "NCCL_",
    "TORCH_",
    "GLOO_",
    "CUDA_",
    "MASTER_",
    "OMP_",
    "PYTORCH_",
    "SLURM_",
    "OMPI_COMM",
    "TORCHELASTIC_",
)
RANK_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")

_watch: Watch | None = None


class Watch:
    """Keeps the evidence of this process. Made by `attach`."""

    def __init__(self, torch: Any, out: str, settings: dict[str, Any]) -> None:
        self.torch = torch
        self.out = out
        self.settings = settings
        base = int(os.environ.get("TORCHVET_RUN_ATTEMPT", "0"))
        again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or 0)
        self.attempt = os.path.join(out, f"attempt_{base + again}")
        self.pid = os.getpid()
        self.steps = 0
        self.by_hand = False
        self.folder = ""
        self.rank = -1
        self.world = 1
        self.thread: threading.Thread | None = None
        self.moved = self.stepped = time.monotonic()
        self.seen: tuple[Any, ...] = ()
        self.dumped: set[str] = set()
        self.waited = 0.0
        self.ended = False
        self.end: dict[str, Any] = {}
        self.longest = 0.0
        self.mute = 0
        self.looks = 0
        self.trains = threading.Event()  # the first backward has begun; before it a job may import and load for minutes
        self.begun = 0  # looks since then
        self.flight = Flight(torch)
        self.graphs = GraphProbe(torch) if settings["graphs"] else None
        self.stacks: Stacks | None = None
        self.profiler: Any = None
        self.lock = threading.Lock()
        self.helper = False  # a process that a rank started
        self.hooked = False  # what sees the end of the process is in place
        self.stepped_at_exit = -1
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: self.fenced(self.fork))

    def fork(self) -> None:
        """In a forked child (a worker of a loader, or a rank that a script starts by fork): nobody watches it until it
        joins a process group itself."""
        if self.stacks is not None:
            self.stacks.forget()
        if self.graphs is not None:
            self.graphs.close_window()
            self.graphs.forget()
        self.pid, self.helper, self.lock = os.getpid(), True, threading.Lock()
        self.folder, self.rank, self.thread, self.stacks, self.profiler = "", -1, None, None, None
        self.steps = self.looks = self.begun = 0
        self.trains = threading.Event()
        self.ended, self.end, self.stepped_at_exit = False, {}, -1
        self.seen, self.waited, self.longest = (), 0.0, 0.0
        self.dumped.clear()
        self.moved = self.stepped = time.monotonic()

    # ------------------------------------------------------------------------------------------------- marks
    def step(self) -> None:
        """Mark the end of a training step. Once called, optimizer steps no longer count."""
        self.by_hand = True
        self.count()

    def count(self) -> None:
        self.steps += 1
        if self.settings["profile"]:
            self.fenced(self.profile)

    def optimizer_stepped(self, *_: Any) -> None:
        if self.thread is None:
            self.first_sign()
        if self.thread is not None and not self.by_hand:
            self.count()

    def first_sign(self) -> None:
        """This process trains: a step, or a backward, for where all steps are compiled no hook of an optimizer is
        called. What a rank forks or starts is no rank."""
        self.trains.set()
        if self.thread is None and not self.helper:
            self.fenced(self.begin)

    # ------------------------------------------------------------------------------------------------- begin
    def begin(self, rank: int | None = None, world: int | None = None) -> None:
        """Find the rank, make its folder, start to look. Does nothing the second time."""
        with self.lock:
            if self.thread is not None:
                return
            self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
            self.world = int(os.environ.get("WORLD_SIZE", "1") or 1) if world is None else world
            folder = os.path.join(self.attempt, f"rank_{self.rank}")
            about = read_json(os.path.join(folder, "about.json"))
            if about is not None and about.get("pid") != self.pid and about.get("node") == socket.gethostname():
                if rank is None and host_series.state(int(about.get("pid", 0))):
                    self.helper = True  # the rank itself lives
                    return
                folder += f"_{self.pid}"
            os.makedirs(folder, exist_ok=True)
            self.folder = folder
            self.beats = Lines(os.path.join(folder, "beats.jsonl"))
            self.lines = Lines(os.path.join(folder, "graphs.jsonl"))
            if self.settings["stacks"]:
                self.fenced(self.keep_stacks)
            write_json(os.path.join(folder, "about.json"), self.about())
            if not self.hooked:
                self.hooked = True
                self.last_words()
            if self.settings["cuda_history"]:
                self.fenced(self.remember_cuda)
            if sys.version_info >= (3, 12):  # our thread is no reason to warn of a fork
                warnings.filterwarnings("ignore", r"This process \(pid=\d+\) is multi-threaded", DeprecationWarning)
            self.thread = threading.Thread(target=self.watch, name="torchvet", daemon=True)
            self.thread.start()

    def keep_stacks(self) -> None:
        self.stacks = Stacks(self.folder)
        self.stacks.install()

    def about(self) -> dict[str, Any]:
        torch, environ = self.torch, os.environ
        version = getattr(torch, "version", None)
        return {
            "schema": 1, "rank": self.rank, "world": self.world,
            "local_rank": int(environ.get("LOCAL_RANK", "0") or 0), "node": socket.gethostname(), "pid": self.pid,
            "started": time.time(), "monotonic": time.monotonic(), "argv": sys.argv, "cwd": os.getcwd(),
            "python": sys.version.split()[0], "torch": str(torch.__version__), "cuda": getattr(version, "cuda", None),
            "hip": getattr(version, "hip", None), "settings": self.settings,
            "asked_by": self.stacks.asked if self.stacks is not None else 0,
            "environment": {k: v for k, v in environ.items() if k in RANK_NAMES or k.startswith(ENVIRONMENT)},
        }  # fmt: skip

    def install(self) -> None:
        """Hooks that are there before the rank is known."""
        if self.settings["recorder"]:
            prefix = os.path.join(self.attempt, "nccl_rank_")
            self.fenced(lambda: switch_on(os.environ, str(self.torch.__version__), prefix))
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(untraced(self.torch, self.optimizer_stepped))
        if self.graphs is not None:
            self.graphs.install(self.first_sign)
        dist = self.torch.distributed
        if not dist.is_available():
            return
        original = dist.init_process_group

        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            self.fenced(lambda: self.begin(dist.get_rank(), dist.get_world_size()))
            return answer

        init_process_group.__wrapped__ = original  # type: ignore[attr-defined]
        init_process_group.__doc__ = original.__doc__
        for module in (dist, dist.distributed_c10d):
            module.init_process_group = init_process_group

    def launching(self) -> None:
        """In a process that turns out to be torchrun: keep what it says of how its workers ended."""
        previous = sys.excepthook

        def excepthook(kind: Any, value: Any, trace: Any) -> None:
            if kind.__name__ == "ChildFailedError" and self.thread is None:
                self.fenced(lambda: self.workers_failed(value))
            previous(kind, value, trace)

        sys.excepthook = excepthook

    def workers_failed(self, error: Any) -> None:
        rows = [
            {"rank": rank, "local_rank": f.local_rank, "pid": f.pid, "code": f.exitcode, "time": f.timestamp,
             "message": str(f.message)[:500]}
            for rank, f in error.failures.items()
        ]  # fmt: skip
        name = f"launcher_{socket.gethostname()}_{self.pid}.json"
        write_json(
            os.path.join(self.attempt, name), {"t": time.time(), "name": error.name, "failures": rows}, sync=True
        )

    # ------------------------------------------------------------------------------------------------- look
    def watch(self) -> None:
        interval = float(self.settings["interval"])
        while not self.ended:
            if self.trains.is_set():
                time.sleep(min(FIRST_LOOKS[self.begun], interval) if self.begun < len(FIRST_LOOKS) else interval)
                self.begun += 1
            elif self.trains.wait(interval):
                continue
            if self.ended:
                return
            self.fenced(self.look)

    def look(self) -> None:
        now = time.monotonic()
        self.looks += 1
        beat: dict[str, Any] = {"t": round(time.time(), 3), "m": round(now, 3), "step": self.steps}
        progress: dict[str, list[int]] = {}
        if self.settings["recorder"]:
            progress = self.flight.progress()
            if progress:
                beat["groups"] = progress
        if self.settings["host"]:
            beat["rss"] = host_series.resident()
            if self.looks % 5 == 1:
                beat["files"] = host_series.open_files()
                beat["children"] = {str(p): host_series.state(p) for p in host_series.children(self.pid)[:64]}
            cuda = getattr(self.torch, "cuda", None)
            if cuda is not None and cuda.is_initialized():
                beat["cuda"] = [cuda.memory_allocated(), cuda.memory_reserved()]
        # compiled optimizers call no hooks: there the backwards tell
        done = (self.steps, self.graphs.backwards if self.graphs is not None else 0)
        seen = (done, sorted(progress.items()))
        if self.seen and done != self.seen[0]:
            self.longest = max(self.longest, now - self.stepped)
        if not self.seen or done != self.seen[0]:
            self.stepped = now
        if seen != self.seen:
            self.seen, self.moved = seen, now
            self.dumped.discard("stall")
        still = now - self.moved
        if still >= self.settings["interval"] * 2:
            beat["still"] = round(still, 1)
        self.beats.add(beat)
        if self.stacks is not None:
            self.stacks.look()
        if self.graphs is not None:
            self.look_at_graphs()
        self.look_for_stall(progress, now)

    def look_at_graphs(self) -> None:
        assert self.graphs is not None
        found = self.graphs.look(self.steps)
        if found and self.looks % 3 == 0:
            rows = [[path, line, name, n] for (path, line, name), n in found]
            self.lines.add({"t": round(time.time(), 3), "step": self.steps, "live": rows})
        for (path, line, name), n in self.graphs.growing():
            row = {"path": path, "line": line, "function": name, "live": n, "step": self.steps}
            self.lines.add({"t": round(time.time(), 3), "growing": row})
        self.graphs.close_window()
        if 0 < self.begun < EARLY_LOOKS or self.looks % 3 == 1:
            self.graphs.open_window()

    def look_for_stall(self, progress: dict[str, list[int]], now: float) -> None:
        outstanding = any(enqueued > completed for enqueued, completed in progress.values())
        limit = float(self.settings["stall"])
        if not limit and outstanding:
            limit = FRACTION * (self.flight.timeout() or 600.0)
        if not outstanding:
            # before the first step a model may be loaded for long
            limit = max(limit or (IDLE if self.steps else 3 * IDLE), 10 * self.longest)
            stuck = now - self.stepped >= limit
        else:
            stuck = now - self.moved >= limit
        request = os.path.join(self.attempt, "dump-request")
        if stuck and "stall" not in self.dumped:
            self.dumped.add("stall")
            self.dump("stall", f"no progress for {now - self.moved:.0f} s")
            with open(request, "a", encoding="utf-8") as f:
                f.write(json.dumps({"t": time.time(), "rank": self.rank, "still": round(now - self.moved, 1)}) + "\n")
        elif os.path.exists(request):
            asked = os.stat(request).st_mtime
            if asked > self.waited:
                self.waited = asked
                if "stall" not in self.dumped:
                    self.dump("request", "another rank stalls")

    def dump(self, reason: str, why: str) -> None:
        """Write what would be lost: the recorder first, it is the shortest."""
        if self.settings["recorder"] and self.flight.there and self.torch.distributed.is_initialized():
            self.fenced(lambda: self.flight.dump(self.folder, self.rank))
        if self.stacks is not None:
            self.stacks.dump(reason, why)

    # ------------------------------------------------------------------------------------------------- end
    def last_words(self) -> None:
        """Note how the process ends, whichever way it takes."""
        previous = sys.excepthook

        def excepthook(kind: Any, value: Any, trace: Any) -> None:
            self.fenced(lambda: self.excepted(kind, value, trace))
            previous(kind, value, trace)

        sys.excepthook = excepthook
        leave, leave_now = sys.exit, os._exit

        def exit(status: Any = None, /) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.end["code"] = 0 if status is None else status if isinstance(status, int) else 1
                self.stepped_at_exit = self.steps
                kind, value, trace = sys.exc_info()
                if status and "multiprocessing" in sys.modules and caller() == ("torch.multiprocessing.spawn", "_wrap"):
                    self.fenced(lambda: self.excepted(kind, value, trace))
            leave(status)

        def _exit(status: int) -> Any:
            self.fenced(lambda: self.say_end({"how": "_exit", "code": status}))
            leave_now(status)

        def at_exit() -> None:
            # the job put a hook of its own in the place of ours, and it was called
            value = getattr(sys, "last_value", None)
            if sys.excepthook is not excepthook and value is not None and "how" not in self.end:
                self.fenced(lambda: self.excepted(type(value), value, value.__traceback__))
            self.fenced(lambda: self.say_end({"how": "end"}))

        sys.exit = exit
        os._exit = _exit
        atexit.register(at_exit)
        printed = traceback.print_exc

        def print_exc(*args: Any, **kwargs: Any) -> None:
            if caller() == ("multiprocessing.process", "_bootstrap"):  # it ends this process without an excepthook
                self.fenced(lambda: self.excepted(*sys.exc_info()))
            printed(*args, **kwargs)

        print_exc.__wrapped__ = printed  # type: ignore[attr-defined]
        traceback.print_exc = print_exc

    def excepted(self, kind: Any, value: Any, trace: Any) -> None:
        if not self.folder or kind is None:
            return
        if self.settings["recorder"] and self.flight.there and self.torch.distributed.is_initialized():
            self.flight.dump(self.folder, self.rank, "recorder_end")
        frames = [[f.filename, f.lineno, f.name] for f in traceback.extract_tb(trace)]
        row = {
            "t": time.time(),
            "type": kind.__name__,
            "message": str(value)[:2000],
            "frames": frames,
            "step": self.steps,
        }
        write_json(os.path.join(self.folder, "exception.json"), row, sync=True)
        self.end.update(how="exception", code=1, type=kind.__name__)

    def say_end(self, row: dict[str, Any]) -> None:
        if self.ended or not self.folder:
            return
        self.ended = True
        if self.steps > self.stepped_at_exit >= 0 and self.end.get("how") != "exception":
            self.end.pop("code", None)  # somebody caught that sys.exit: the process went on
        progress = self.flight.progress() if self.settings["recorder"] else {}
        row = {**row, **self.end, "t": time.time(), "m": time.monotonic(), "step": self.steps, "groups": progress}
        write_json(os.path.join(self.folder, "end.json"), row, sync=True)

    # ------------------------------------------------------------------------------------------------- extras
    def remember_cuda(self) -> None:
        """History of CUDA allocations, and a snapshot of it when memory runs out. Python stacks only: C++ stacks took
        461 s of dump against 4 s (torchtitan 3628)."""
        if not self.torch.cuda.is_available():
            return
        self.torch.cuda.memory._record_memory_history(stacks="python", max_entries=100_000)

        def ran_out(device: int, *_: Any) -> None:
            self.fenced(lambda: self.torch.cuda.memory._dump_snapshot(os.path.join(self.folder, "cuda_oom.pickle")))

        self.torch._C._cuda_attach_out_of_memory_observer(ran_out)

    def profile(self) -> None:
        first, _, count = str(self.settings["profile"]).partition(":")
        if self.steps == int(first):
            self.profiler = self.torch.profiler.profile()
            self.profiler.__enter__()
        elif self.profiler is not None and self.steps >= int(first) + int(count or 1):
            profiler, self.profiler = self.profiler, None
            profiler.__exit__(None, None, None)
            profiler.export_chrome_trace(os.path.join(self.folder, "trace.json"))

    def fenced(self, action: Any) -> None:
        """Run `action`; what goes wrong is written down, once per kind."""
        try:
            action()
        except Exception as e:
            try:
                kind = f"{type(e).__name__}: {e}"[:200]
                if kind not in self.dumped and len(self.dumped) < 50:
                    self.dumped.add(kind)
                    with open(os.path.join(self.folder or self.out, "trouble.txt"), "a", encoding="utf-8") as f:
                        f.write(f"{time.time():.3f} {kind}\n{traceback.format_exc(limit=-3)}")
            except Exception:
                self.mute += 1  # a full disk: there is nowhere to say it


def caller() -> tuple[str, str]:
    """Module and function that called the function that asks."""
    frame = sys._getframe(2)
    return str(frame.f_globals.get("__name__", "")), frame.f_code.co_name


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """All switches: the defaults, those of `torchvet run`, those given."""
    settings = dict(DEFAULTS)
    with contextlib.suppress(ValueError):
        settings.update(json.loads(os.environ.get("TORCHVET_RUN_SETTINGS", "{}")))
    settings.update({k: v for k, v in given.items() if k in DEFAULTS})
    return settings


def attach(out: str, given: dict[str, Any]) -> Watch:
    """Watch this process (`torchvet.run.start`)."""
    global _watch
    import torch

    if _watch is None:
        out = os.path.abspath(out or os.environ.get("TORCHVET_RUN_DIR", "") or "torchvet-run")
        _watch = Watch(torch, out, settings_of(given))
        _watch.fenced(_watch.install)
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        _watch.fenced(lambda: _watch.begin(dist.get_rank(), dist.get_world_size()))
    elif "RANK" in os.environ or "WORLD_SIZE" not in os.environ:
        _watch.fenced(_watch.begin)
    return _watch


def attached_by_hook() -> None:
    """Watch this process, of a job under `torchvet run`: at once where the rank is known, else from the first process
    group or optimizer step on, so that launchers and helpers leave nothing."""
    global _watch
    import torch

    out = os.environ.get("TORCHVET_RUN_DIR", "")
    if not out or _watch is not None:
        return
    _watch = watch = Watch(torch, out, settings_of({}))
    watch.fenced(watch.install)
    watch.launching()
    helper = "--multiprocessing-fork" in sys.argv or "--multiprocessing-fork" in getattr(sys, "orig_argv", ())
    if "RANK" in os.environ and not helper:
        watch.fenced(watch.begin)
