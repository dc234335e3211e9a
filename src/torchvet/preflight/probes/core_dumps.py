"""What happens with the memory image of a rank that crashes."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import limit_text

PROBE = Probe(
    name="core-dumps",
    area="limits",
    summary=Text("what happens with the memory image of a rank that crashes", "rank 崩溃时内存映像的去向"),
    informs=True,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("CORE")
    pattern = (host.read("/proc/sys/kernel/core_pattern") or "").strip()
    if limit is None or not pattern:
        return None
    if pattern.startswith("|"):  # the limit does not hold for a pipe, except for 0 with %c
        program = pattern[1:].split()[0] if pattern[1:].split() else pattern
        return PROBE.ok(limit[0], None, Text("core dumps go to {program}", "核心转储交给 {program}", program=program))
    if limit[0] == 0:
        return PROBE.ok(0, None, Text("no core dumps (limit 0)", "不产生核心转储（限制为 0）"))
    return PROBE.ok(
        limit[0], None,
        Text("core dumps of up to {n} go to {pattern}", "核心转储最大 {n}，写入 {pattern}", n=limit_text(limit[0]),
             pattern=pattern),
    )  # fmt: skip
