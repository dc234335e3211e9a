"""What the control groups of this process allow: version 1, version 2, or both beside each other (hybrid).

A limit holds for everything below it, so the smallest of all ancestors counts. Files that are absent, hold "max" or
garbage limit nothing. Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the Linux kernel.
"""

from __future__ import annotations

from .quantity import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host

NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as the largest multiple of a page (PAGE_COUNTER_MAX)."""


class Cgroups:
    """The groups of this process. `version` is "v1", "v2", "hybrid" or "" (none is mounted)."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.paths: dict[str, str] = {}
        for line in (host.read("/proc/self/cgroup") or "").splitlines():
            words = line.split(":", 2)
            if len(words) == 3:
                for controller in words[1].split(","):
                    self.paths[controller] = words[2]
        one, two = [], []
        self._places: dict[str, tuple[str, str]] = {}
        for m in host.mounts():
            if m.kind == "cgroup2":
                two.append(m)
                self._places[""] = (m.place, m.part)
            elif m.kind == "cgroup":
                one.append(m)
                for option in m.options:
                    self._places.setdefault("v1 " + option, (m.place, m.part))
        if not one and not two:
            if host.exists("/sys/fs/cgroup/cgroup.controllers"):
                self._places[""] = ("/sys/fs/cgroup", "/")
            else:
                for controller in ("cpu", "memory", "pids", "cpuset"):
                    if host.exists(f"/sys/fs/cgroup/{controller}"):
                        self._places["v1 " + controller] = (f"/sys/fs/cgroup/{controller}", "/")
        first = any(k.startswith("v1 ") for k in self._places)
        self.version = "hybrid" if first and "" in self._places else "v1" if first else "v2" if self._places else ""

    def folders(self, controller: str) -> tuple[str, list[str]]:
        """("v1" or "v2", folders from that of this process up to the top that can be seen); ("", []) where the
        controller is nowhere."""
        for version, key, path in (
            ("v1", "v1 " + controller, self.paths.get(controller)),
            ("v2", "", self.paths.get("")),
        ):
            if key not in self._places:
                continue
            if version == "v2" and self.version == "hybrid" and not self._enabled(controller):
                continue
            place, part = self._places[key]
            return version, self._up(place, part, path or "/")
        return "", []

    def _enabled(self, controller: str) -> bool:
        place = self._places[""][0]
        return controller in (self.host.read(f"{place}/cgroup.controllers") or "").split()

    def _up(self, place: str, part: str, path: str) -> list[str]:
        """A container sees its group as the top (`part` is then the path on the machine), or under a path that only
        holds outside: in both cases what is mounted is the group itself."""
        if part != "/" and (path == part or path.startswith(part + "/")):
            path = path[len(part) :]
        folder = place + path.rstrip("/") if ".." not in path.split("/") else place
        if not self.host.exists(folder):
            folder = place
        out = [folder]
        while folder != place and len(folder) > len(place):
            folder = folder.rpartition("/")[0]
            out.append(folder)
        return out

    def texts(self, controller: str, v1: str, v2: str) -> list[str]:
        """The contents of a file in all folders of a controller."""
        version, folders = self.folders(controller)
        name = v1 if version == "v1" else v2
        found = [self.host.read(f"{f}/{name}") for f in folders] if name else []
        return [t for t in found if t is not None]

    # --------------------------------------------------------------------------------------------------- questions
    def cpus(self) -> float | None:
        """CPUs that the quota allows; None: no quota can be seen."""
        version, folders = self.folders("cpu")
        allowed = []
        for folder in folders:
            if version == "v1":
                quota = whole(self.host.read(f"{folder}/cpu.cfs_quota_us"))
                period = whole(self.host.read(f"{folder}/cpu.cfs_period_us"))
            else:
                words = (self.host.read(f"{folder}/cpu.max") or "").split()
                quota = whole(words[0]) if words else None
                period = whole(words[1]) if len(words) > 1 else 100_000
            if quota is not None and period is not None and quota > 0 and period > 0:
                allowed.append(quota / period)
        return min(allowed, default=None)

    def memory(self) -> tuple[int, int | None] | None:
        """(limit, used) in bytes of the tightest group with a limit; used leaves out file cache that can be dropped.
        None: no limit can be seen."""
        version, folders = self.folders("memory")
        best: tuple[int, int | None] | None = None
        for folder in folders:
            names = ("memory.limit_in_bytes",) if version == "v1" else ("memory.max", "memory.high")
            for name in names:
                limit = whole(self.host.read(f"{folder}/{name}"))
                if limit is None or limit <= 0 or limit >= NO_LIMIT:
                    continue
                if best is None or limit < best[0]:
                    best = limit, self._used(folder, version)
        return best

    def _used(self, folder: str, version: str) -> int | None:
        name = "memory.usage_in_bytes" if version == "v1" else "memory.current"
        used = whole(self.host.read(f"{folder}/{name}"))
        if used is None:
            return None
        key = "total_inactive_file " if version == "v1" else "inactive_file "
        for line in (self.host.read(f"{folder}/memory.stat") or "").splitlines():
            if line.startswith(key):
                return max(0, used - (whole(line[len(key) :]) or 0))
        return used

    def pids(self) -> tuple[int, int | None] | None:
        """(limit, used) of the tightest group that limits processes and threads."""
        _, folders = self.folders("pids")
        best: tuple[int, int | None] | None = None
        for folder in folders:
            limit = whole(self.host.read(f"{folder}/pids.max"))
            if limit is not None and limit > 0 and (best is None or limit < best[0]):
                best = limit, whole(self.host.read(f"{folder}/pids.current"))
        return best

    def oom_kills(self) -> int | None:
        """Processes of this group that were killed for memory; None: not told."""
        version, folders = self.folders("memory")
        if not folders:
            return None
        name = "memory.oom_control" if version == "v1" else "memory.events"
        for line in (self.host.read(f"{folders[0]}/{name}") or "").splitlines():
            if line.startswith("oom_kill "):
                return whole(line[9:])
        return None


def cgroups(host: Host) -> Cgroups:
    return host.once("cgroups", lambda: Cgroups(host))
