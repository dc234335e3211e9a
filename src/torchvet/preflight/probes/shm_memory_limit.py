"""Does what lies in /dev/shm fit into the memory limit of the container?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cgroup import cgroups
from ..fixes import more_memory
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

SHARE = 0.5
"""Own threshold: the other half is for the processes themselves."""

PROBE = Probe(
    name="shm-memory-limit",
    area="memory",
    summary=Text(
        "what lies in /dev/shm fits into the memory limit of the container", "/dev/shm 中的数据不超出容器内存限额"
    ),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    group, space = cgroups(host).memory(), host.space("/dev/shm")
    demand = plan.demand(host)
    if group is None or space is None:
        return None
    limit, used = group
    if not demand:
        if space.size <= limit or not plan.uses_workers(host):
            return PROBE.ok(
                space.size, limit,
                Text("what lies in /dev/shm counts in the memory limit of {limit}",
                     "/dev/shm 中的数据计入 {limit} 的内存限额", limit=size(limit)),
            )  # fmt: skip
        return PROBE.ok(
            space.size, limit,
            Text("/dev/shm is larger ({size}) than the memory limit ({limit}): the limit is reached first",
                 "/dev/shm（{size}）大于内存限额（{limit}）：会先达到限额", size=size(space.size), limit=size(limit)),
        )  # fmt: skip
    said = Text(
        "the loaders put up to {need} into /dev/shm; that counts in the memory limit of {limit}",
        "加载器最多在 /dev/shm 放入 {need}；计入 {limit} 的内存限额", need=size(demand), limit=size(limit),
    )  # fmt: skip
    left = limit - (used or 0)
    if demand >= left:
        killed = Text("{x}, {left} of it are free: the kernel kills the job (exit 137)",
                      "{x}，剩余 {left}：内核会终止作业（退出码 137）", x=said, left=size(max(0, left)))  # fmt: skip
        return PROBE.fail(demand, left, killed, more_memory(host, limit + demand))
    if demand > SHARE * left:
        return PROBE.warn(demand, int(SHARE * left), said, more_memory(host, limit + demand))
    return PROBE.ok(demand, left, said)
