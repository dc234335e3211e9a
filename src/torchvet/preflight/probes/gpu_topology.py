"""Connections between GPUs, and from GPUs to network cards, that are worse than their neighbours'."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import nvidia
from ..machine import virtual
from ..network import rdma_ports
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-topology",
    area="gpu",
    summary=Text("paths between GPUs and to network cards", "GPU 之间及到网卡的通路"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    if len(nvidia.ask(host).gpus) < 2:
        return None
    topology = nvidia.topology(host)
    if topology is None:
        return PROBE.unknown(Text("nvidia-smi topo -m gave no table", "nvidia-smi topo -m 未给出拓扑表"))
    names, rows, legend = topology
    gpus = [r[0] for r in rows]
    links: dict[str, int] = {}
    for row in rows:
        cells = dict(zip(names, row[1:]))
        links[row[0]] = sum(int(m[1]) for g in gpus if (m := re.fullmatch(r"NV(\d+)", cells.get(g, ""))))
    out = []
    most = max(links.values())
    fewer = [g for g, n in links.items() if n < most]
    # bridges between pairs leave some cards without NVLink; a switch does not
    if fewer and len(fewer) * 2 < len(gpus) and min(links.values()) > 0:
        out.append(PROBE.warn(
            {g: links[g] for g in fewer}, most,
            Text("{gpus} has fewer NVLink connections than the others ({n} against {most})",
                 "{gpus} 的 NVLink 连接数少于其他 GPU（{n} 对 {most}）",
                 gpus=", ".join(fewer), n=min(links.values()), most=most),
            Text("nvidia-smi nvlink -s shows which link is down", "用 nvidia-smi nvlink -s 查看断开的链路"),
        ))  # fmt: skip
    active = {p.card for p in rdma_ports(host) if p.active}
    cards = [n for n in names if n not in gpus and legend.get(n, n) in active]
    if cards and not host.env.get("NCCL_TOPO_FILE") and virtual(host) is False:
        far = [r[0] for r in rows if all(dict(zip(names, r[1:])).get(c) == "SYS" for c in cards)]
        if far and len(far) < len(gpus):
            out.append(PROBE.warn(
                far, "PIX",
                Text("{gpus} reaches every network card over the other CPU only (SYS)",
                     "{gpus} 只能跨 CPU 访问所有网卡（SYS）", gpus=", ".join(far)),
                Text("see which card of that CPU is missing: nvidia-smi topo -m, lspci",
                     "检查该 CPU 侧缺失的网卡：nvidia-smi topo -m、lspci"),
            ))  # fmt: skip
    return out or PROBE.ok(None, None, Text("{n} GPUs are connected alike", "{n} 个 GPU 的连接一致", n=len(gpus)))
