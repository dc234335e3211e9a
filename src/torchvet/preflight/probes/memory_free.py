"""Is there memory free on the machine?"""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import meminfo
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

SHARE = 0.1
"""Own threshold."""

PROBE = Probe(
    name="memory-free",
    area="memory",
    summary=Text("memory of the machine is free", "机器内存有空闲"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    info = meminfo(host)
    total, free = info.get("MemTotal"), info.get("MemAvailable")
    if not total or free is None:
        return PROBE.unknown(Text("free memory cannot be read", "无法读取空闲内存"))
    said = Text("{free} of {total} memory are free", "{total} 内存中有 {free} 空闲", free=size(free), total=size(total))
    demand = plan.demand(host) or 0
    fix = Text(
        "look with top; end what is left of earlier jobs, empty /dev/shm", "用 top 查看；结束残留进程，清理 /dev/shm"
    )
    if demand and free < demand:
        text = Text("{x}; the loaders alone ask for {need}", "{x}；仅加载器就需 {need}", x=said, need=size(demand))
        return PROBE.fail(free, demand, text, fix)
    limit = int(SHARE * total)
    return PROBE.warn(free, limit, said, fix) if free < limit else PROBE.ok(free, limit, said)
