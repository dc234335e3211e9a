"""NVLink that a variable turns off."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result
from ..variables import integer, removal, settings

PROBE = Probe(name="p2p-disabled", area="nccl", summary=Text("NVLink is not turned off", "NVLink 未被关闭"), seconds=20)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    level = known.get("NCCL_P2P_LEVEL")
    off = integer(known.get("NCCL_P2P_DISABLE")) == 1
    low = level is not None and level.value.strip().upper() in ("LOC", "0")
    if len(nvidia.ask(host).gpus) < 2 or plan.ranks(host)[0] < 2:
        return None
    links = nvidia.nvlinks(host) or {}
    up = sum("inactive" not in x for states in links.values() for x in states)
    if not up:
        return None
    if not off and not low:
        return PROBE.ok(up, None, Text("{n} NVLink connections are in use", "{n} 条 NVLink 可用", n=up))
    setting = known["NCCL_P2P_DISABLE" if off else "NCCL_P2P_LEVEL"]
    return PROBE.fail(
        setting.value, None,
        Text("{shown} turns {n} NVLink connections off: traffic inside the node goes through host memory",
             "{shown} 关闭了 {n} 条 NVLink：节点内通信将经主机内存", shown=setting.shown, n=up),
        removal(setting),
    )  # fmt: skip
