"""Does the job fit into the memory limit of its container?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cgroup import cgroups
from ..fixes import more_memory
from ..memory import meminfo
from ..plan import counted, gpus
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

GIB = 1 << 30
RANK, CPU_RANK, WORKER = 3 * GIB, GIB // 2, GIB // 4
"""Own estimate: resident memory of a rank with CUDA or without, and of a worker, before anything is read."""

PROBE = Probe(
    name="memory-limit",
    area="memory",
    summary=Text("the job fits into the memory limit of its container", "作业不超出容器的内存限额"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    group = cgroups(host).memory()
    if group is None:
        return None
    limit, used = group
    machine = meminfo(host).get("MemTotal")
    if machine and limit >= machine:
        return PROBE.ok(
            limit,
            None,
            Text("the memory limit ({n}) is that of the machine", "内存限额（{n}）即整机内存", n=size(limit)),
        )
    ranks = plan.ranks(host)[0]
    workers = plan.workers or 0
    known = plan.workers is not None or gpus(host) or ranks > 1
    rank = RANK if gpus(host) else CPU_RANK
    need = ranks * (rank + WORKER * workers) + (plan.demand(host) or 0)
    left = limit - (used or 0)
    said = Text("{left} of the memory limit of {limit} are free", "{limit} 的内存限额中有 {left} 空闲",
                left=size(max(0, left)), limit=size(limit))  # fmt: skip
    if not known or left >= need:
        return PROBE.ok(left, need if known else None, said)
    job = Text(
        "{r} × ({rank} + {w} workers × 0.25 GiB)",
        "{r} × ({rank} + {w} 个 worker × 0.25 GiB)",
        r=counted(ranks),
        rank=size(rank),
        w=workers,
    )
    if plan.demand(host):
        job = Text("{x} + {shm} of batches", "{x} + {shm} 的批次", x=job, shm=size(plan.demand(host) or 0))
    text = Text("{x}; the processes alone take about {need}: {job}", "{x}；仅进程就约需 {need}：{job}",
                x=said, need=size(need), job=job)  # fmt: skip
    return PROBE.warn(left, need, text, more_memory(host, (used or 0) + need))
