"""RDMA ports that run slower than their neighbours."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import rdma_ports, selected
from ..probe import Host, Plan, Probe, Result
from ..variables import settings

PROBE = Probe(
    name="infiniband-rate", area="network",
    summary=Text("InfiniBand ports run at the same rate", "InfiniBand 端口速率一致"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    ports = [p for p in rdma_ports(host) if p.active and p.rate and p.layer in ("InfiniBand", "")]
    if "NCCL_IB_HCA" in known:
        cards = selected(known["NCCL_IB_HCA"].value, [p.card for p in ports])
        ports = [p for p in ports if p.card in cards]
    if not ports:
        return None
    rates = sorted({p.rate for p in ports if p.rate})
    most = rates[-1]
    if len(rates) == 1:
        return PROBE.ok(
            most, most, Text("{n} ports at {rate} Gb/s", "{n} 个端口，速率 {rate} Gb/s", n=len(ports), rate=f"{most:g}")
        )
    slow = [p for p in ports if p.rate != most]
    return PROBE.warn(
        {p.label: p.rate for p in slow}, most,
        Text("{names} run at {rates} Gb/s, the other ports at {most}", "{names} 速率为 {rates} Gb/s，其余端口为 {most}",
             names=", ".join(p.label for p in slow[:6]), most=f"{most:g}",
             rates=", ".join(f"{r:g}" for r in rates[:-1])),
        Text("the slowest port sets the pace of every ring: look at its cable and switch port, or leave it "
             "out with "
             "NCCL_IB_HCA=^={names}",
             "最慢的端口决定每个环的速度：检查其线缆与交换机端口，或将其排除：NCCL_IB_HCA=^={names}",
             names=",".join(sorted({p.card for p in slow}))),
    )  # fmt: skip
