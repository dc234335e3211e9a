"""Was something killed for memory here before?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cgroup import cgroups
from ..fixes import more_memory
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="oom-kills",
    area="memory",
    summary=Text("nothing was killed for memory in this container", "此容器中没有进程因内存被杀死"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    groups = cgroups(host)
    limit, kills = groups.memory(), groups.oom_kills()
    if limit is None or kills is None:  # without a limit the count is the machine's, since it was started
        return None
    if kills == 0:
        return PROBE.ok(0, 0, Text("nothing was killed for memory", "没有进程因内存被杀死"))
    text = Text("{n} processes of this container were killed because its memory limit was reached",
                "此容器已有 {n} 个进程因达到内存限额被杀死", n=kills)  # fmt: skip
    return PROBE.warn(kills, 0, text, more_memory(host, limit[0] * 2))
