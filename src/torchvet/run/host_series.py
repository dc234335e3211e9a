"""What the kernel says of a process and its node: memory, files, shared memory, states. Linux; elsewhere nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def text(path: str, most: int = 65536) -> str:
    try:
        with open(path, "rb") as f:
            return f.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def resident(pid: int | str = "self") -> int:
    """Resident memory of a process in bytes; 0 when unknown."""
    fields = text(f"/proc/{pid}/statm", 200).split()
    return int(fields[1]) * PAGE if len(fields) > 1 else 0


def state(pid: int) -> str:
    """One letter as in `ps` (R running, S sleeping, D in the kernel, T stopped, Z ended); "" when it is gone."""
    tail = text(f"/proc/{pid}/stat", 1000).rpartition(")")[2].split()
    return tail[0] if tail else ""


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; without one most signals end it."""
    for line in text(f"/proc/{pid}/status", 4000).splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def open_files(pid: int | str = "self") -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def children(pid: int) -> list[int]:
    """Processes that any thread of `pid` started and that live."""
    out = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for thread in threads:
        out += [int(x) for x in text(f"/proc/{pid}/task/{thread}/children").split()]
    return out


def shared_memory() -> dict[str, int]:
    """Size and use of /dev/shm in bytes; empty when there is none."""
    try:
        s = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return {}
    return {"shm_size": s.f_blocks * s.f_frsize, "shm_used": (s.f_blocks - s.f_bfree) * s.f_frsize}


def cgroup() -> dict[str, Any]:
    """Memory of the container: use, limit, and how often it ran into it."""
    out: dict[str, Any] = {}
    for line in text("/proc/self/cgroup").splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3 and fields[0] == "0":
            for folder in ("/sys/fs/cgroup" + fields[2].rstrip("/"), "/sys/fs/cgroup"):
                current = text(folder + "/memory.current", 40).strip()
                if current:
                    out["cgroup_used"] = int(current)
                    limit = text(folder + "/memory.max", 40).strip()
                    if limit.isdigit():
                        out["cgroup_limit"] = int(limit)
                    for event in text(folder + "/memory.events", 500).splitlines():
                        name, _, count = event.partition(" ")
                        if name in ("oom", "oom_kill", "max") and count.isdigit():
                            out["cgroup_" + name] = int(count)
                    return out
    used = text("/sys/fs/cgroup/memory/memory.usage_in_bytes", 40).strip()
    if used.isdigit():
        out["cgroup_used"] = int(used)
        limit = text("/sys/fs/cgroup/memory/memory.limit_in_bytes", 40).strip()
        if limit.isdigit() and int(limit) < 1 << 60:
            out["cgroup_limit"] = int(limit)
        for event in text("/sys/fs/cgroup/memory/memory.oom_control", 200).splitlines():
            name, _, count = event.partition(" ")
            if name == "oom_kill" and count.isdigit():
                out["cgroup_oom_kill"] = int(count)
    return out


def available() -> int:
    """Memory of the node that is available, in bytes; 0 when unknown."""
    for line in text("/proc/meminfo", 4000).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def kernel_log(since: float, uptime_now: float, most: int = 200) -> list[str]:
    """Lines of the kernel log from `since` seconds of uptime on that tell of kills, GPUs, links or crashes; empty when
    the log cannot be read (it is closed in most containers)."""
    words = ("oom", "Out of memory", "NVRM", "Xid", "segfault", "mlx5", "link down", "AER:", "nvswitch", "I/O error")
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    out: list[str] = []
    try:
        while len(out) < most:
            try:
                record = os.read(fd, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # the ring went on while we read
                continue
            except OSError:
                break
            head, _, rest = record.partition(";")
            fields = head.split(",")
            seconds = int(fields[2]) / 1e6 if len(fields) > 2 and fields[2].isdigit() else uptime_now
            if seconds >= since and any(word in rest for word in words):
                out.append(f"[{seconds:.6f}] {rest.splitlines()[0]}")
    finally:
        os.close(fd)
    return out
