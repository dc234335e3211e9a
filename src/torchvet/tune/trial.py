"""One measured loader: runs in a child process, reads requests as JSON lines, answers as JSON lines.

    python -m torchvet.tune.trial          stdin: requests; the descriptor $TORCHVET_TUNE_FD: answers

The first request names what to load. Where processes fork, the imports and the dataset are made once and each trial is
a fork of that state; elsewhere, and for scripts, each trial is a process of its own. User code may print what it likes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LOST = 20.0
"""Seconds without a batch after which a loader with workers fails: with a full /dev/shm it would wait for ever."""
LEAST = 8
"""Batches that a figure needs."""
PATIENCE = 12.0
"""Seconds that a trial goes on until it has its first turn of batches."""


class Unusable(Exception):
    """The target gives no loader: the text says why, for the user."""


class Measured(BaseException):
    """Ends a script when the figures are there; no `except Exception` of the script stops it."""


# ------------------------------------------------------------------------------------------------------- loaders
def target(name: str) -> Callable[[], Any]:
    """The factory `module:function`. Raises Unusable."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise Unusable(f"{name} is not of the form module:function")
    try:
        value: Any = importlib.import_module(module)
    except Exception as e:
        raise Unusable(f"{module} cannot be imported: {type(e).__name__}: {e}") from None
    for part in attribute.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise Unusable(f"{module} has no {attribute}")
    return value if callable(value) and not is_loader(value) else lambda: value


def is_loader(value: Any) -> bool:
    return hasattr(value, "dataset") and hasattr(value, "num_workers") and hasattr(value, "__iter__")


def rebuilt(base: Any, arguments: dict[str, Any]) -> Any:
    """A loader like `base` with other settings: the same dataset, order, batches and collation."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    kept: dict[str, Any] = {
        name: getattr(base, name) for name in ("collate_fn", "worker_init_fn", "generator") if hasattr(base, name)
    }
    if isinstance(base.dataset, IterableDataset):
        kept.update(batch_size=base.batch_size, drop_last=base.drop_last)
    elif base.batch_sampler is not None:
        kept["batch_sampler"] = base.batch_sampler
    else:
        kept.update(batch_size=None, sampler=base.sampler)
    workers = arguments.get("num_workers", 0)
    kept["timeout"] = (base.timeout or LOST) if workers else 0
    if arguments.get("pin_memory") and not torch.cuda.is_available():
        arguments = {**arguments, "pin_memory": False}  # a warning and no effect
    return DataLoader(base.dataset, **kept, **arguments)


def cost(base: Any) -> dict[str, Any]:
    """What a batch costs, without workers: bytes and storages in shared memory, seconds, memory. Whole pages count."""
    loader = rebuilt(base, {"num_workers": 0})
    before = resident()
    times, largest, storages = [], 0, 1
    iterator = iter(loader)
    for _ in range(4):
        start = time.perf_counter()
        try:
            batch = next(iterator)
        except StopIteration:
            break
        times.append(time.perf_counter() - start)
        seen = dict(found_storages(batch))
        largest, storages = max(largest, sum(seen.values())), max(storages, len(seen))
    if not times:
        raise Unusable("the loader gives no batch")
    return {
        "bytes": largest, "storages": storages, "seconds": sorted(times)[len(times) // 2],
        "resident": max(32 << 20, resident() - before), "batches": length(base), "gpu": has_gpu(),
    }  # fmt: skip


def length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def found_storages(value: Any, depth: int = 0) -> Iterator[tuple[int, int]]:
    """(identity, bytes in whole pages) of the storages of the tensors in a batch; a view counts its whole storage."""
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        s = storage()
        yield s.data_ptr(), -(-s.nbytes() // 4096) * 4096
    elif depth < 8:
        if isinstance(value, dict):
            value = value.values()
        if (
            isinstance(value, (list, tuple))
            or hasattr(value, "__dataclass_fields__")
            or type(value).__name__ == "dict_values"
        ):
            parts = vars(value).values() if hasattr(value, "__dataclass_fields__") else value
            for part in parts:
                yield from found_storages(part, depth + 1)


# ------------------------------------------------------------------------------------------------------- measuring
class Meter:
    """Looks at shared memory and processors while a trial runs, at the memory of workers when it ends: reading that of
    32 workers takes a tenth of a second, which must not be in the figures."""

    def __init__(self) -> None:
        self.base = shm_used()
        self.shm = self.memory = 0
        self.stopped = False
        self.began = (time.perf_counter(), cpu_of_children())
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        parent = os.getppid()
        while not self.stopped:
            if os.getppid() != parent and hasattr(os, "killpg"):  # nobody waits for the figures any more
                os.killpg(0, 9)
            self.shm = max(self.shm, shm_used() - self.base)
            self.memory = max(self.memory, resident())
            time.sleep(0.004)

    def stop(self) -> dict[str, Any]:
        self.stopped = True
        seconds = max(1e-6, time.perf_counter() - self.began[0])
        busy = max(0.0, cpu_of_children() - self.began[1]) / seconds
        workers = [proportional(p) for p in children()]
        return {
            "shm": self.shm, "resident": self.memory + sum(workers), "worker": max(workers, default=0), "busy": busy,
        }  # fmt: skip


def measured(loader: Any, setting: dict[str, Any], seconds: float, step: float) -> dict[str, Any]:
    """The figures of one loader under a loop whose step takes `step` seconds (0: as fast as it gives)."""
    meter = Meter()
    workers = setting["num_workers"]
    skip = workers * setting.get("prefetch_factor", 2) + 2 if workers else 1
    begin = time.perf_counter()
    iterator = iter(loader)
    item = next(iterator)
    started = time.perf_counter() - begin
    waits: list[float] = []  # of whole turns
    turn: list[float] = []
    seen = 1
    least = max(LEAST, 2 * skip)
    end = time.perf_counter() + seconds
    starting = True
    while time.perf_counter() < end or len(waits) < least:
        consume(item, step)
        a = time.perf_counter()
        try:
            item = next(iterator)
        except StopIteration:
            iterator = iter(loader)
            item = next(iterator)
            seen, turn = 0, []  # a new epoch: its first batches wait for the start of workers
            if time.perf_counter() > end + seconds:
                break
            continue
        b = time.perf_counter()
        seen += 1
        if starting and seen > skip:
            starting = False
            end = a + seconds  # what came before was made while the workers started
        if seen > skip:
            # workers give in bursts, one batch each: only a whole turn has a rate
            turn.append(b - a)
            if len(turn) >= workers:
                waits += turn
                turn = []
        if b > end + 3 * seconds and (waits or b > end + PATIENCE):
            break
    waits = waits or turn
    row = meter.stop()
    del iterator
    return {**row, **figures(waits, sum(waits) + step * len(waits), started)}


def figures(waits: list[float], total: float, started: float) -> dict[str, Any]:
    if not waits:
        return {"failed": "too few batches to measure"}
    ordered = sorted(waits)
    middle = ordered[len(ordered) // 2]
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {
        "waiting": sum(waits) / total if total else 1.0, "rate": len(waits) / total if total else 0.0,
        "started": started, "spread": high / middle if middle > 0 else 1.0, "batches": len(waits),
    }  # fmt: skip


def consume(item: Any, step: float) -> None:
    """The training step: the processors are free while a GPU computes."""
    if step > 0:
        time.sleep(step)


# ------------------------------------------------------------------------------------------------------- scripts
def run_script(
    path: str, words: list[str], setting: dict[str, Any], seconds: float, answer: Callable[[Any], None]
) -> None:
    """Run a training script with the settings of all its loaders replaced, and measure its own loop: the time in
    `next()` is waiting, the rest is the step. The first loader that gives enough batches counts."""
    import runpy

    from torch.utils.data import DataLoader

    made, iterate = DataLoader.__init__, DataLoader.__iter__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) < 6:  # num_workers is the sixth positional argument; so many are given by nobody
            for name in (
                "num_workers",
                "prefetch_factor",
                "pin_memory",
                "persistent_workers",
                "multiprocessing_context",
            ):
                kwargs.pop(name, None)
            kwargs.update(setting)
            if setting["num_workers"] and not kwargs.get("timeout"):
                kwargs["timeout"] = LOST
        made(self, *args, **kwargs)

    def timed(self: Any) -> Iterator[Any]:
        meter = Meter()
        skip = setting["num_workers"] * setting.get("prefetch_factor", 2) + 2 if setting["num_workers"] else 2
        begin = time.perf_counter()
        iterator = iterate(self)
        waits: list[float] = []
        started = total = 0.0
        last = begin
        turn = max(1, setting["num_workers"])
        for n in range(1 << 60):
            a = time.perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                break
            b = time.perf_counter()
            if n == 0:
                started = b - begin
            elif n > skip:
                waits.append(b - a)
                total += b - last
            last = b
            if len(waits) >= LEAST and len(waits) % turn == 0 and (total >= seconds or b - begin > 4 * seconds):
                answer({**meter.stop(), **figures(waits, total, started), **batch_of(item), "batches": length(self)})
                raise Measured
            yield item
        meter.stop()

    DataLoader.__init__ = init  # type: ignore[method-assign]
    DataLoader.__iter__ = timed  # type: ignore[method-assign, assignment]
    sys.argv = [path, *words]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    except Measured:
        return
    except SystemExit:
        pass
    answer({"failed": "the script ended before a loader gave enough batches"})


def batch_of(item: Any) -> dict[str, Any]:
    seen = dict(found_storages(item))
    return {"bytes": sum(seen.values()), "storages": max(1, len(seen)), "gpu": has_gpu()}


# ------------------------------------------------------------------------------------------------------- the process
def children() -> list[int]:
    out = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as f:
                out += [int(x) for x in f.read().split()]
    except OSError:
        return out
    return out


def proportional(pid: int) -> int:
    """Memory of a process with shared pages counted by share (PSS), in bytes; 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            for line in f:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def resident() -> int:
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    except OSError:
        return 0


def cpu_of_children() -> float:
    """CPU seconds of the living children."""
    total = 0
    for pid in children():
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        except (OSError, IndexError):
            continue
    return total / 100.0


def shm_used() -> int:
    try:
        s = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return 0
    return (s.f_blocks - s.f_bfree) * s.f_frsize


def main() -> int:
    out = os.fdopen(int(os.environ.pop("TORCHVET_TUNE_FD")), "w", encoding="utf-8")

    def answer(row: dict[str, Any]) -> None:
        out.write(json.dumps(row) + "\n")
        out.flush()

    sys.path.insert(0, os.getcwd())
    first = json.loads(sys.stdin.readline())
    if "script" in first:
        run_script(first["script"], first["words"], first["setting"], first["seconds"], answer)
        return 0
    try:
        base = target(first["target"])()
        if not is_loader(base):
            raise Unusable(f"{first['target']} gives a {type(base).__name__}, not a DataLoader")
    except Unusable as e:
        answer({"unusable": str(e)})
        return 0
    except Exception as e:
        answer({"unusable": f"{type(e).__name__}: {e}"[:300]})
        return 0
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if not request.get("fork"):
            answer(attempt(base, request))
            continue
        # no tensor is computed in this process: its threads of OpenMP would hang in the fork
        pid = os.fork()
        if pid == 0:
            os.setsid()
            answer(attempt(base, request))
            os._exit(0)
        answer({"pid": pid})
        _, status = os.waitpid(pid, 0)
        if status:
            answer({"failed": f"the trial was killed by signal {status & 127}" if status & 127 else "the trial died"})
    return 0


def attempt(base: Any, request: dict[str, Any]) -> dict[str, Any]:
    """One trial (or, without a setting, what a batch costs); what goes wrong in it is its answer."""
    setting = request.get("setting")
    try:
        if setting is None:
            return cost(base)
        return measured(rebuilt(base, setting), setting, request["seconds"], request["step"])
    except Exception as e:
        lines = [x for x in str(e).splitlines() if x.strip()]
        return {"failed": f"{type(e).__name__}: {lines[-1] if lines else ''}"[:200]}


if __name__ == "__main__":
    sys.exit(main())
