"""Memory of the machine and of this job's control group, in bytes."""

from __future__ import annotations

from .cgroup import cgroups
from .quantity import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host


def meminfo(host: Host) -> dict[str, int]:
    """/proc/meminfo in bytes (counts for HugePages_*)."""
    out = {}
    for line in (host.read("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        value = whole(words[0]) if words else None
        if value is not None:
            out[name.strip()] = value * 1024 if len(words) > 1 and words[1] == "kB" else value
    return out


def available(host: Host) -> tuple[int, str] | None:
    """(bytes that new processes can have, "cgroup" or "machine": what bounds them)."""
    free = meminfo(host).get("MemAvailable")
    group = cgroups(host).memory()
    if group is not None and group[1] is not None:
        left = max(0, group[0] - group[1])
        if free is None or left < free:
            return left, "cgroup"
    return (free, "machine") if free is not None else None
