"""RDMA ports that are not active."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import Port, rdma_ports, selected
from ..probe import Host, Plan, Probe, Result
from ..variables import integer, settings

PROBE = Probe(
    name="infiniband-ports", area="network",
    summary=Text("InfiniBand and RoCE ports are active", "InfiniBand 与 RoCE 端口处于激活状态"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    ports, known = rdma_ports(host), settings(host)
    if not ports or integer(known.get("NCCL_IB_DISABLE")) == 1:
        return None
    chosen = known["NCCL_IB_HCA"].value if "NCCL_IB_HCA" in known else ""
    if chosen:
        cards = selected(chosen, [p.card for p in ports])
        ports = [p for p in ports if p.card in cards]
    up = [p for p in ports if p.active]
    down = [p for p in ports if not p.active and _meant(p, bool(chosen), up)]
    if not down:
        if not up:
            return None
        return PROBE.ok(len(up), len(up), Text("{n} ports are active", "{n} 个端口已激活", n=len(up)))
    several = (plan.node_count(host) or 0) > 1
    names = ", ".join(p.label for p in down[:6]) + (" …" if len(down) > 6 else "")
    states = sorted({f"{p.state or '?'} / {p.physical or '?'}" for p in down})
    said = Text(
        "{down} of {all} RDMA ports are not active: {names} ({states})",
        "{all} 个 RDMA 端口中有 {down} 个未激活：{names}（{states}）",
        down=len(down), all=len(down) + len(up), names=names, states=", ".join(states),
    )  # fmt: skip
    if all(p.state == "INIT" and p.layer == "InfiniBand" for p in down):
        fix = Text("the link is up and no subnet manager answers: start opensm, or look at the switch's",
                   "链路正常但没有子网管理器响应：启动 opensm，或检查交换机上的子网管理器")  # fmt: skip
    else:
        fix = Text("ibstat, then cable, transceiver and switch port; NCCL_IB_HCA leaves ports out that are not meant",
                   "先看 ibstat，再检查线缆、光模块与交换机端口；不用的端口可用 NCCL_IB_HCA 排除")  # fmt: skip
    # a job on one node does not need them
    make = PROBE.fail if several or chosen else PROBE.warn
    return make([p.label for p in down], 0, said, fix)


def _meant(port: Port, named: bool, up: list[Port]) -> bool:
    """Should this port be up? Ethernet ports without a cable are usual beside others, as are ports that were turned
    off."""
    if named:
        return True
    if port.physical == "Disabled":
        return False
    return port.layer == "InfiniBand" or not up
