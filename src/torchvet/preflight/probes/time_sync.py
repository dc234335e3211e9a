"""Does a daemon keep the clock right?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="time-sync",
    area="network",
    summary=Text("a daemon keeps the clock right", "系统时钟已同步"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    synchronised = host.clock_synchronised()
    if synchronised is None:
        return PROBE.unknown(Text("whether the clock is kept right cannot be told", "无法判断时钟是否同步"))
    if synchronised:
        return PROBE.ok(True, True, Text("the clock is synchronised", "时钟已同步"))
    if (plan.node_count(host) or 1) < 2:
        return PROBE.ok(False, None, Text("the clock is not synchronised; with one node nothing depends on it",
                                          "时钟未同步；单节点作业不受影响"))  # fmt: skip
    return PROBE.warn(
        False, True,
        Text("no daemon keeps the clock of this node right: logs and dumps of the nodes cannot be put in order",
             "没有守护进程校准此节点的时钟：各节点的日志与转储无法按时间对齐"),
        Text("systemctl enable --now chronyd (or systemd-timesyncd)",
             "systemctl enable --now chronyd（或 systemd-timesyncd）"),
    )  # fmt: skip
