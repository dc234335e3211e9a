"""NCCL_IB_HCA against the cards that exist."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import rdma_ports, selected
from ..probe import Host, Plan, Probe, Result
from ..variables import settings

PROBE = Probe(name="nccl-hca", area="nccl", summary=Text("the named RDMA cards exist", "指定的 RDMA 网卡存在"))


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    setting = settings(host).get("NCCL_IB_HCA")
    cards = sorted({p.card for p in rdma_ports(host)})
    if setting is None or not setting.value or not cards:
        return None
    value = setting.value
    chosen = selected(value, cards)
    here = ", ".join(cards)
    if not chosen:
        return PROBE.fail(
            value, here,
            Text("{shown} leaves no RDMA card (here: {here}): NCCL falls back to TCP",
                 "{shown} 未选中任何 RDMA 网卡（本机有 {here}）：NCCL 将退回 TCP", shown=setting.shown, here=here),
            Text("name cards of this machine, or unset it", "改为本机的网卡，或取消设置"),
        )  # fmt: skip
    if value[0] == "^":
        return PROBE.ok(
            value,
            here,
            Text("{shown} leaves {cards}", "{shown} 保留 {cards}", shown=setting.shown, cards=", ".join(chosen)),
        )
    exact = value[0] == "="
    words = [w.split(":")[0] for w in value.lstrip("=").split(",") if w]
    absent = [w for w in words if not selected(("=" if exact else "") + w, cards)]
    if absent:
        return PROBE.warn(
            value, here,
            Text("{shown}: there is no {absent} here ({here})", "{shown}：本机没有 {absent}（有 {here}）",
                 shown=setting.shown, absent=", ".join(absent), here=here),
            Text("leave them out", "去掉不存在的网卡"),
        )  # fmt: skip
    more = [c for c in chosen if c not in words and any(w in cards and c.startswith(w) for w in words)]
    if not exact and more:
        return PROBE.warn(
            value, None,
            Text("{shown} is a prefix: it selects {more} too", "{shown} 按前缀匹配：还会选中 {more}",
                 shown=setting.shown, more=", ".join(more)),
            Text("NCCL_IB_HCA=={value}", value=value),
        )  # fmt: skip
    return PROBE.ok(
        value,
        here,
        Text("{shown} selects {cards}", "{shown} 选中 {cards}", shown=setting.shown, cards=", ".join(chosen)),
    )
