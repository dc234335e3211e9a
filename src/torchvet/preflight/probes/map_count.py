"""May a process have as many memory mappings as tensors of workers and large models need?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole

USUAL = 65530
"""DEFAULT_MAX_MAP_COUNT of Linux (include/linux/mm.h)."""

PROBE = Probe(
    name="map-count",
    area="limits",
    summary=Text("enough memory mappings are allowed", "允许足够多的内存映射"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    count = whole(host.read("/proc/sys/vm/max_map_count"))
    if count is None:
        return None
    said = Text("vm.max_map_count is {n}", "vm.max_map_count 为 {n}", n=f"{count:,}")
    if count >= USUAL:
        return PROBE.ok(count, USUAL, said)
    text = Text("{x}, less than the usual 65,530: mmap fails with \"Cannot allocate memory\"",
                "{x}，小于默认的 65,530：mmap 会报 \"Cannot allocate memory\"", x=said)  # fmt: skip
    return PROBE.warn(
        count,
        USUAL,
        text,
        Text("sysctl -w vm.max_map_count=262144 on the node", "在节点上执行 sysctl -w vm.max_map_count=262144"),
    )
