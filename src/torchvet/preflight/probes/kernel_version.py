"""Is the kernel new enough?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

LEAST = (5, 5)
"""accelerate warns below it: "this can cause the process to hang" (accelerate/utils/other.py, check_os_kernel)."""

PROBE = Probe(
    name="kernel-version",
    area="versions",
    summary=Text("the Linux kernel is new enough", "Linux 内核版本足够新"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    text = host.versions().get("kernel", "")
    found = re.match(r"(\d{1,3})\.(\d{1,4})", text)
    if not found:
        return None
    said = Text("Linux {v}", v=text)
    if (int(found[1]), int(found[2])) >= LEAST:
        return PROBE.ok(text, "5.5", said)
    return PROBE.warn(
        text, "5.5",
        Text("{x} is older than 5.5: hangs of several processes are known", "{x} 低于 5.5：已知多进程可能挂起", x=said),
        Text("run it on a node with a newer kernel", "在内核更新的节点上运行"),
    )  # fmt: skip
