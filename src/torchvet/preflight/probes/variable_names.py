"""Variables with a name that nothing reads."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import misspelt, settings

PROBE = Probe(
    name="variable-names", area="nccl",
    summary=Text("names of NCCL and torch variables are spelled right", "NCCL 与 torch 变量名拼写正确"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    known = settings(host)
    out = []
    for name, meant in misspelt(known):
        out.append(PROBE.warn(
            name, meant,
            Text("nothing reads {shown}; {meant} is meant", "没有程序读取 {shown}；应为 {meant}",
                 shown=known[name].shown, meant=meant),
            Text("{meant}={value}", meant=meant, value=known[name].value),
        ))  # fmt: skip
    if out or not any(n.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_FR_")) for n in known):
        return out or None
    return PROBE.ok(None, None, Text("all names are known", "变量名均可识别"))
