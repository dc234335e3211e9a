"""Is memory set aside for huge pages that nobody uses?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..memory import meminfo
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

SHARE = 0.1
"""Own threshold."""

PROBE = Probe(
    name="huge-pages",
    area="memory",
    summary=Text("no memory is set aside for huge pages", "没有为大页预留大量内存"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    info = meminfo(host)
    total, free, each = info.get("HugePages_Total"), info.get("HugePages_Free"), info.get("Hugepagesize")
    memory = info.get("MemTotal")
    if total is None or free is None or not each or not memory:
        return None
    chosen = re.search(r"\[(\w+)\]", host.read("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    mode = Text("transparent huge pages: {x}", "透明大页：{x}", x=chosen[1] if chosen else "?")
    idle = free * each
    if idle <= SHARE * memory:
        return PROBE.ok(idle, int(SHARE * memory), mode)
    text = Text("{idle} of {memory} are set aside for huge pages that nobody uses; PyTorch cannot use them",
                "{memory} 中有 {idle} 预留给无人使用的大页；PyTorch 无法使用",
                idle=size(idle), memory=size(memory))  # fmt: skip
    return PROBE.warn(
        idle,
        int(SHARE * memory),
        text,
        Text("sysctl -w vm.nr_hugepages=0 on the node", "在节点上执行 sysctl -w vm.nr_hugepages=0"),
    )
