"""Debugging aids of torch, CUDA and Python that cost speed while they are set."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import matching, removal, table

PROBE = Probe(
    name="debug-leftovers", area="nccl",
    summary=Text("debugging aids that cost speed", "影响速度的调试变量"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    out = []
    for setting, row in matching(host, table("debugging")):
        said = Text(
            "{shown} is set: it {effect}",
            "设置了 {shown}：{effect}",
            shown=setting.shown,
            effect=Text(row["en"], row["zh"]),
        )
        out.append(PROBE.warn(setting.value, None, said, Text(row["fix"]) if "fix" in row else removal(setting)))
    return out or PROBE.ok(None, None, Text("none is set", "均未设置"))
