"""gloo and NCCL on different interfaces."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import interfaces, selected
from ..probe import Host, Plan, Probe, Result
from ..variables import settings

PROBE = Probe(
    name="gloo-interface", area="nccl",
    summary=Text("gloo and NCCL use the same interface", "gloo 与 NCCL 使用同一网络接口"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    gloo, nccl = known.get("GLOO_SOCKET_IFNAME"), known.get("NCCL_SOCKET_IFNAME")
    if gloo is None or nccl is None or not gloo.value or len(nccl.value) < 2:
        return None
    names = [i.name for i in interfaces(host)] or gloo.value.split(",")
    own = [w.strip() for w in gloo.value.split(",")]
    if set(own) & set(selected(nccl.value, [*names, *(w for w in own if w not in names)])):
        return PROBE.ok(gloo.value, nccl.value, Text("{a} and {b}", "{a} 与 {b}", a=gloo.shown, b=nccl.shown))
    return PROBE.warn(
        gloo.value, nccl.value,
        Text("{a} and {b} are different networks: one may work where the other does not",
             "{a} 与 {b} 属于不同网络：可能一个可用而另一个不可用", a=gloo.shown, b=nccl.shown),
        Text("give both the same name", "两者使用相同的接口名"),
    )  # fmt: skip
