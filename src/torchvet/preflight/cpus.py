"""How many CPUs the job really has on this node: affinity, quota, and what the batch system gave."""

from __future__ import annotations

from torchvet.findings import Text

from .cgroup import cgroups
from .quantity import cpu_list, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host
    from .plan import Plan


class Cpus:
    """`usable` CPUs (None: unknown), `why` in words, `quota` (None: none), `affinity` (count), `online` (count).
    `of_rank`: they are those of one rank, because the launcher binds each to its own."""

    __slots__ = ("affinity", "of_rank", "online", "quota", "usable", "why")

    def __init__(self, host: Host, plan: Plan) -> None:
        own = host.cpus()
        self.affinity = len(own) if own else None
        online = cpu_list(host.read("/sys/devices/system/cpu/online"))
        self.online = len(online) if online else None
        self.quota = cgroups(host).cpus()
        given = whole(host.env.get("SLURM_CPUS_ON_NODE"))
        self.of_rank = bool(
            self.affinity
            and given
            and self.affinity < given
            and plan.ranks(host)[0] > 1
            and "SLURM_LOCALID" in host.env
        )
        bounds: list[tuple[float, Text]] = []
        if self.affinity:
            bounds.append((self.affinity, Text("affinity {n}", "亲和性 {n}", n=self.affinity)))
        if self.quota is not None:
            bounds.append((self.quota, Text("cgroup quota {n}", "cgroup 配额 {n}", n=number(self.quota))))
        if given and given > 0 and not self.of_rank:
            bounds.append((given, Text("SLURM_CPUS_ON_NODE={n}", n=given)))
        best = min(bounds, key=lambda b: b[0], default=None)
        self.usable = best[0] if best else None
        self.why = best[1] if best else Text("unknown", "未知")


def number(n: float) -> str:
    """ "3", "2.5"."""
    return f"{n:.1f}".rstrip("0").rstrip(".") if n != int(n) else str(int(n))
