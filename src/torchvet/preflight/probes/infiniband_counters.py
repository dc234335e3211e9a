"""RDMA links that went down again and again."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..network import rdma_ports
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="infiniband-counters",
    area="network",
    summary=Text("RDMA links that go down again and again", "反复断开的 RDMA 链路"),
)

FLAPS_PER_DAY = 5
"""Azure's limit (azurehpc-health-checks, azure_ib_link_flapping: 5 in 24 h)."""


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    ports = [p for p in rdma_ports(host) if "link_downed" in p.counters and (p.active or p.layer == "InfiniBand")]
    if not ports:
        return None
    uptime = re.match(r"\d+(?:\.\d+)?", host.read("/proc/uptime") or "")
    days = max(1.0, float(uptime[0]) / 86400) if uptime else 1.0
    out = []
    for p in ports:
        downs = p.counters["link_downed"]
        if downs > FLAPS_PER_DAY * days:
            said = Text("the link of {port} went down {n} times in {days} days",
                 "{port} 的链路在 {days} 天内断开 {n} 次",
                        port=p.label, n=downs, days=round(days))  # fmt: skip
            fix = Text(
                "look at its cable and transceiver: mlxlink -d {card} --show_counters; perfquery -R clears the counter",
                "检查线缆与光模块：mlxlink -d {card} --show_counters；perfquery -R 可清零计数",
                card=p.card,
            )
            out.append(PROBE.warn(downs, FLAPS_PER_DAY, said, fix))
    return out or PROBE.ok(
        max(p.counters["link_downed"] for p in ports), FLAPS_PER_DAY,
        Text("no link goes down again and again", "没有反复断开的链路"),
    )  # fmt: skip
