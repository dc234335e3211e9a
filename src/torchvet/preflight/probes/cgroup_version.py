"""Which version of control groups bounds this job."""

from __future__ import annotations

from torchvet.findings import Text

from ..cgroup import cgroups
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="cgroup-version",
    area="container",
    summary=Text("which version of control groups bounds this job", "约束作业的 cgroup 版本"),
    informs=True,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    groups = cgroups(host)
    if not groups.version:
        return PROBE.unknown(Text("no control groups can be seen: limits of CPU and memory are not known",
                                  "看不到 cgroup：无法得知 CPU 与内存限额"))  # fmt: skip
    folder = (groups.folders("memory")[1] or [""])[0]
    return PROBE.ok(groups.version, None, Text("{version}, memory: {folder}", "{version}，内存：{folder}",
                                               version=groups.version, folder=folder or "-"))  # fmt: skip
