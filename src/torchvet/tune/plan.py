"""How far settings may go here: CPUs of this rank, shared memory, memory, open files."""

from __future__ import annotations

import os
from dataclasses import dataclass

from torchvet.findings import Text

PAGE = 4096
MARGIN = 0.8
"""Share of what is free that a trial may take."""
EXTRA = 2
"""Batches in flight beside those that workers prepare: peak = (workers x prefetch + 2) x bytes of a batch, a bound that
held in all of 13 measured settings (torch 2.13)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Arguments of a DataLoader. `prefetch` counts only with workers."""

    workers: int
    prefetch: int = 2
    pin: bool = False
    persistent: bool = False
    context: str = ""  # start method of workers; "" = the default of this Python

    def arguments(self) -> dict[str, object]:
        """As keyword arguments of torch.utils.data.DataLoader."""
        out: dict[str, object] = {"num_workers": self.workers}
        if self.workers:
            out["prefetch_factor"] = self.prefetch
        out["pin_memory"] = self.pin
        if self.workers:
            out["persistent_workers"] = self.persistent
            if self.context:
                out["multiprocessing_context"] = self.context
        return out

    @property
    def weight(self) -> tuple[int, int, bool, bool]:
        """What is smaller is cheaper."""
        return self.workers, self.workers * self.prefetch, self.persistent, self.pin


@dataclass(slots=True)
class Room:
    """What this machine has free. Sizes in bytes; None: unknown, then it bounds nothing."""

    cpus: float
    ranks: int = 1
    shm: int | None = None
    memory: int | None = None
    files: int | None = None

    @property
    def cpus_per_rank(self) -> float:
        return max(1.0, self.cpus / self.ranks)


@dataclass(slots=True)
class Batch:
    """What a batch costs, measured without workers: bytes in shared memory, storages, seconds, memory of a worker."""

    bytes: int = 0
    storages: int = 1
    seconds: float = 0.0
    resident: int = 0


def room(ranks: int = 1, root: str = "/") -> Room:
    """What is free now. `ranks`: processes of this job on this node; each runs loaders of its own."""
    return Room(cpus(root), ranks, shm_free(), memory_free(root), open_files())


def cpus(root: str = "/") -> float:
    """CPUs that this process may use: the smaller of its affinity and the quotas of its control groups."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for folder in control_groups(root, "cpu"):
        fields = first(os.path.join(folder, "cpu.max")).split()
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            count = min(count, int(fields[0]) / int(fields[1]))
        quota, period = (
            first(os.path.join(folder, "cpu.cfs_quota_us")),
            first(os.path.join(folder, "cpu.cfs_period_us")),
        )
        if quota.isdigit() and period.isdigit() and int(quota) > 0 and int(period) > 0:
            count = min(count, int(quota) / int(period))
    return max(1.0, count)


def control_groups(root: str, controller: str) -> list[str]:
    """Folders of this process's control group and all above it, version 1 and 2."""
    out = []
    base = os.path.join(root, "sys/fs/cgroup")
    for line in everything(os.path.join(root, "proc/self/cgroup")).splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3 or not (fields[0] == "0" or controller in fields[1].split(",")):
            continue
        top = base if fields[0] == "0" else os.path.join(base, controller)
        path = fields[2].strip("/")
        while True:
            out.append(os.path.join(top, path) if path else top)
            if not path:
                break
            path = path.rpartition("/")[0]
    return out


def memory_free(root: str = "/") -> int | None:
    """Memory that can be had, in bytes: that of the node, or what is left of the container's limit."""
    free: int | None = None
    for line in everything(os.path.join(root, "proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for folder in control_groups(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most, now = first(os.path.join(folder, limit)), first(os.path.join(folder, used))
            if most.isdigit() and now.isdigit() and int(most) < 1 << 60:
                left = max(0, int(most) - int(now))
                free = left if free is None else min(free, left)
    return free


def shm_free() -> int | None:
    try:
        s = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return s.f_bavail * s.f_frsize


def open_files() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY or soft < 0 else soft


def everything(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read(1 << 16)
    except OSError:
        return ""


def first(path: str) -> str:
    return everything(path).strip()


def refusal(setting: Setting, batch: Batch, free: Room) -> Text | None:
    """Why a setting must not be tried here; None when it may. All ranks of the node load at the same time."""
    if not setting.workers:
        return None
    flying = setting.workers * setting.prefetch + EXTRA
    need = flying * batch.bytes * free.ranks
    if free.shm is not None and need > MARGIN * free.shm:
        return Text(
            "/dev/shm has {free} free, this needs up to {need}", "/dev/shm 空闲 {free}，该设置最多需要 {need}",
            free=size(free.shm), need=size(need),
        )  # fmt: skip
    need = (setting.workers * batch.resident + flying * batch.bytes) * free.ranks
    if free.memory is not None and need > MARGIN * free.memory:
        return Text(
            "{free} of memory are free, this needs up to {need}", "空闲内存 {free}，该设置最多需要 {need}",
            free=size(free.memory), need=size(need),
        )  # fmt: skip
    files = 64 + 6 * setting.workers + 2 * flying * batch.storages
    if free.files is not None and files > free.files:
        return Text(
            "{limit} open files are allowed (ulimit -n), this needs up to {need}",
            "允许打开 {limit} 个文件（ulimit -n），该设置最多需要 {need} 个", limit=free.files, need=files,
        )  # fmt: skip
    return None


def size(number: float) -> str:
    """Bytes for a person: 1.2 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit != "MiB" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
