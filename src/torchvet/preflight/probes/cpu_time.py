"""May a process use CPU time without an end?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="cpu-time",
    area="limits",
    summary=Text("CPU time is not limited (ulimit -t)", "未限制 CPU 时间（ulimit -t）"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("CPU")
    if limit is None:
        return None
    soft = limit[0]
    if soft < 0:
        return PROBE.ok(-1, -1, Text("CPU time: unlimited", "CPU 时间：不限"))
    said = Text(
        "each process is killed after {n} minutes of CPU time (SIGXCPU), as on login nodes",
        "每个进程使用 {n} 分钟 CPU 时间后会被终止（SIGXCPU），登录节点常如此", n=round(soft / 60),
    )  # fmt: skip
    return PROBE.warn(
        soft,
        -1,
        said,
        Text("run it on a compute node, or ulimit -t unlimited", "在计算节点上运行，或 ulimit -t unlimited"),
    )
