"""Is memory swapped out?"""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import meminfo
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

USED = 1 << 30
"""Own threshold: what idle services leave there does no harm."""

PROBE = Probe(
    name="swap",
    area="memory",
    summary=Text("no memory is swapped out", "没有内存被换出"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    info = meminfo(host)
    total, free = info.get("SwapTotal"), info.get("SwapFree")
    if total is None or free is None:
        return None
    if not total:
        return PROBE.ok(0, 0, Text("there is no swap", "没有交换空间"))
    used = total - free
    said = Text("{used} of {total} swap are used", "{total} 交换空间已用 {used}", used=size(used), total=size(total))
    if used <= USED:
        return PROBE.ok(used, USED, said)
    text = Text("{x}: memory was short here; a rank that is swapped out holds up all others",
                "{x}：此处曾内存不足；被换出的 rank 会拖住所有其他 rank", x=said)  # fmt: skip
    return PROBE.warn(
        used,
        USED,
        text,
        Text("swapoff -a && swapon -a once enough memory is free", "内存充足时执行 swapoff -a && swapon -a"),
    )
