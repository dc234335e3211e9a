"""Old names of variables that torch still reads."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import settings, table

PROBE = Probe(
    name="renamed-variables", area="nccl",
    summary=Text("old names of torch's NCCL variables", "torch NCCL 变量的旧名称"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | None:
    known = settings(host)
    out = []
    for old, new in table("renamed").items():
        if old not in known or known[old].origin:
            continue
        if new in known and known[new].value != known[old].value:
            out.append(PROBE.warn(
                known[old].value, known[new].value,
                Text("{a} and {b}: the second is the newer name and wins", "{a} 与 {b}：后者为新名称，以其为准",
                     a=known[old].shown, b=known[new].shown),
                Text("unset {old}", "取消设置 {old}", old=old),
            ))  # fmt: skip
        else:
            out.append(
                PROBE.ok(
                    known[old].value,
                    None,
                    Text("{old} is the old name of {new}", "{old} 是 {new} 的旧名称", old=old, new=new),
                )
            )
    return out or None
