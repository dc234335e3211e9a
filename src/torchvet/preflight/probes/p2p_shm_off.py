"""Peer-to-peer and shared memory both off: the node talks to itself over the network."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import integer, removal, settings

PROBE = Probe(
    name="p2p-shm-off", area="nccl",
    summary=Text("a way for traffic inside the node is left", "节点内通信仍有可用通路"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    if integer(known.get("NCCL_P2P_DISABLE")) != 1 or integer(known.get("NCCL_SHM_DISABLE")) != 1:
        return PROBE.ok(None, None, Text("peer-to-peer or shared memory is on", "点对点或共享内存可用"))
    return PROBE.warn(
        "both off", None,
        Text("NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1: traffic inside the node goes over the network card",
             "NCCL_P2P_DISABLE=1 且 NCCL_SHM_DISABLE=1：节点内通信将绕行网卡"),
        removal(known["NCCL_SHM_DISABLE"]),
    )  # fmt: skip
