"""Does the kernel promise memory for workers that are forked?"""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import meminfo
from ..probe import Host, Plan, Probe, Result
from ..quantity import size, whole

PROBE = Probe(
    name="overcommit",
    area="memory",
    summary=Text("the kernel promises memory to forked workers", "内核允许为 fork 的 worker 预留内存"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    mode = whole(host.read("/proc/sys/vm/overcommit_memory"))
    if mode is None:
        return None
    if mode != 2:
        return PROBE.ok(mode, None, Text("vm.overcommit_memory is {n}", "vm.overcommit_memory 为 {n}", n=mode))
    info = meminfo(host)
    left = info.get("CommitLimit", 0) - info.get("Committed_AS", 0)
    said = Text(
        "vm.overcommit_memory is 2: each worker counts with all memory of its rank; {left} are left",
        "vm.overcommit_memory 为 2：每个 worker 按其 rank 的全部内存计；剩余 {left}", left=size(max(0, left)),
    )  # fmt: skip
    return PROBE.warn(
        mode,
        0,
        said,
        Text("sysctl -w vm.overcommit_memory=0 on the node", "在节点上执行 sysctl -w vm.overcommit_memory=0"),
    )
