"""Several interfaces, and none named: NCCL chooses."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import automatic, interfaces
from ..probe import Host, Plan, Probe, Result
from ..variables import settings

PROBE = Probe(
    name="auto-interface", area="nccl",
    summary=Text("NCCL's own choice of interface is clear", "NCCL 自动选择的网络接口是明确的"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    nodes = plan.node_count(host)
    if (
        nodes is None
        or nodes < 2
        or len(settings(host)["NCCL_SOCKET_IFNAME"].value if "NCCL_SOCKET_IFNAME" in settings(host) else "") > 1
    ):
        return None
    # veth pairs of containers have link-local addresses only; they come last in NCCL's list
    chosen = [i for i in automatic(interfaces(host)) if i.routed is not False]
    if not chosen:
        return None
    names = ", ".join(i.name for i in chosen)
    if len(chosen) == 1 or all(i.name.startswith("ib") for i in chosen):
        return PROBE.ok(names, 1, Text("NCCL will use {names}", "NCCL 将使用 {names}", names=names))
    return PROBE.warn(
        names, 1,
        Text("{n} interfaces are up ({names}) and NCCL_SOCKET_IFNAME is not set: NCCL may take one that the "
             "other nodes "
             "cannot reach",
             "有 {n} 个接口启用（{names}）而未设置 NCCL_SOCKET_IFNAME：NCCL 可能选中其他节点无法到达的接口",
             n=len(chosen), names=names),
        Text("NCCL_SOCKET_IFNAME=={name}, or the one that all nodes share",
             "NCCL_SOCKET_IFNAME=={name}，或所有节点共有的接口",
             name=chosen[0].name),
    )  # fmt: skip
