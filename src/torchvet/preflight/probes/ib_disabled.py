"""Active RDMA ports that a variable turns off."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import rdma_ports
from ..probe import Host, Plan, Probe, Result
from ..variables import integer, removal, settings

PROBE = Probe(
    name="ib-disabled", area="nccl",
    summary=Text("active RDMA ports are not turned off", "激活的 RDMA 端口未被关闭"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    net = known.get("NCCL_NET")
    socket = net is not None and net.value.strip().lower() == "socket"
    up = [p for p in rdma_ports(host) if p.active]
    if not up or plan.node_count(host) == 1:
        return None
    if integer(known.get("NCCL_IB_DISABLE")) != 1 and not socket:
        return PROBE.ok(len(up), None, Text("{n} RDMA ports are in use", "{n} 个 RDMA 端口可用", n=len(up)))
    setting = net if socket and net is not None else known["NCCL_IB_DISABLE"]
    rate = sum(p.rate or 0 for p in up)
    return PROBE.warn(
        setting.value, None,
        Text("{shown}, and {n} RDMA ports are active ({rate} Gb/s together): NCCL uses TCP",
             "{shown}，而有 {n} 个 RDMA 端口激活（合计 {rate} Gb/s）：NCCL 将使用 TCP",
             shown=setting.shown, n=len(up), rate=f"{rate:g}"),
        removal(setting),
    )  # fmt: skip
