"""NVLink connections that are down."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="nvlink", area="gpu", summary=Text("NVLink connections that are down", "断开的 NVLink 连接"), seconds=20
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    smi = nvidia.ask(host)
    if len(smi.gpus) < 2:
        return None
    links = nvidia.nvlinks(host)
    if links is None:
        return PROBE.unknown(Text("nvidia-smi nvlink -s gave no answer", "nvidia-smi nvlink -s 无响应"))
    up = {i: sum("inactive" not in x for x in states) for i, states in links.items()}
    if not any(up.values()):
        return None  # cards without bridges list their links as inactive
    out = []
    names = {g.index: g.name for g in smi.gpus}
    for i, states in links.items():
        down = len(states) - up[i]
        bridged = "PCIe" in names.get(i, "") or "RTX" in names.get(i, "") or "NVL" in names.get(i, "")
        if not down or (bridged and not up[i]):
            continue
        said = Text("GPU {i}: {down} of {all} NVLink connections are down",
             "GPU {i}：{all} 条 NVLink 中有 {down} 条断开",
                    i=i, down=down, all=len(states))  # fmt: skip
        fix = Text(
            "reset the GPU or restart the node; look for Xid 74: dmesg | grep Xid",
            "重置 GPU 或重启节点；查看 Xid 74：dmesg | grep Xid",
        )
        if bridged:  # a card can carry one bridge of three
            out.append(PROBE.warn(up[i], len(states), said, Text("check the NVLink bridges", "检查 NVLink 桥接器")))
        else:
            out.append(PROBE.fail(up[i], len(states), said, fix))
    return out or PROBE.ok(
        sum(up.values()), None, Text("{n} NVLink connections are up", "{n} 条 NVLink 连接正常", n=sum(up.values()))
    )
