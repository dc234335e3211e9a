"""Do processes wait for memory already?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

LIMIT = 10.0
"""Own threshold, percent of the last minute."""

PROBE = Probe(
    name="memory-pressure",
    area="memory",
    summary=Text("no process waits for memory", "没有进程因内存不足而等待"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    found = re.search(r"^some .*?avg60=(\d+(?:\.\d+)?)", host.read("/proc/pressure/memory") or "", re.MULTILINE)
    if found is None:
        return None
    share = float(found[1])
    said = Text(
        "in the last minute processes waited {n} % of the time for memory",
        "过去一分钟内进程有 {n}% 的时间在等待内存",
        n=f"{share:.0f}",
    )
    if share < LIMIT:
        return PROBE.ok(share, LIMIT, said)
    return PROBE.warn(
        share, LIMIT, said, Text("find out who uses the memory: top -o %MEM", "找出占用内存的进程：top -o %MEM")
    )
