"""Variables of NCCL's Debugging section that are still set."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result
from ..variables import matching, removal, table, tuned

PROBE = Probe(
    name="nccl-leftovers", area="nccl",
    summary=Text("NCCL debugging aids that are still set", "仍在生效的 NCCL 调试变量"), seconds=20,
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    found = matching(host, table("leftovers"))
    if any(s.name in ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE") for s, _ in found):
        gpus = nvidia.ask(host).gpus
        if gpus and all(re.search(r"GeForce|RTX [2345]0\d\d", g.name) for g in gpus):
            # these have no working peer-to-peer; accelerate launch sets both for them
            found = [x for x in found if x[0].name not in ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE")]
    if tuned(host):
        found = [x for x in found if "tuning" not in x[1]]
    out = [
        PROBE.warn(
            s.value, None,
            Text("{shown} is set (debugging aid): it {effect}", "设置了 {shown}（调试用）：{effect}",
                 shown=s.shown, effect=Text(row["en"], row["zh"])),
            removal(s),
        )
        for s, row in found
    ]  # fmt: skip
    return out or PROBE.ok(None, None, Text("no debugging aid is set", "没有残留的调试变量"))
