"""Is the stack of threads as large as usual?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import ulimit
from ..probe import Host, Plan, Probe, Result
from ..quantity import limit_text

USUAL = 8 << 20
"""Linux gives 8 MiB (_STK_LIM)."""

PROBE = Probe(
    name="stack",
    area="limits",
    summary=Text("the stack is as large as usual", "栈大小正常"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("STACK")
    if limit is None:
        return None
    soft = limit[0]
    said = Text("stack: {n}", "栈：{n}", n=limit_text(soft))
    if soft < 0 or soft >= USUAL:
        return PROBE.ok(soft, USUAL, said)
    text = Text(
        "{x}, less than the usual 8 MiB: deep recursion ends in a crash", "{x}，小于常用的 8 MiB：深递归会崩溃", x=said
    )
    return PROBE.warn(soft, USUAL, text, ulimit(host, "stack", "67108864"))
