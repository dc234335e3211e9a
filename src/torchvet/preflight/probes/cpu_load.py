"""Do others already use the CPUs?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import cpu_list

SHARE = 0.5
"""Own threshold."""

PROBE = Probe(
    name="cpu-load",
    area="cpu",
    summary=Text("the CPUs of the machine are free", "机器的 CPU 空闲"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    words = (host.read("/proc/loadavg") or "").split()
    online = cpu_list(host.read("/sys/devices/system/cpu/online"))
    try:
        one, five = float(words[0]), float(words[1])
    except (IndexError, ValueError):
        return None
    if not online:
        return None
    limit = SHARE * len(online)
    load = min(one, five)  # busy for minutes, not the start of this job
    said = Text("load {load} on {n} CPUs", "{n} 个 CPU，负载 {load}", load=f"{load:.1f}", n=len(online))
    if load <= max(limit, 4.0):
        return PROBE.ok(load, limit, said)
    text = Text("{x} before the job starts: something else runs here", "{x}（作业尚未启动）：有其他程序在运行", x=said)
    return PROBE.warn(
        load, limit, text, Text("look with top; end what is left of earlier jobs", "用 top 查看；结束先前作业的残留")
    )
