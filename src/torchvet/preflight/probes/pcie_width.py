"""GPUs whose PCIe link came up with fewer lanes than it has."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(name="pcie-width", area="gpu", summary=Text("PCIe lanes of the GPUs", "GPU 的 PCIe 通道数"), seconds=20)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    out, known = [], 0
    for gpu in nvidia.ask(host).gpus:
        now, most = gpu.number("pcie.link.width.current"), gpu.number("pcie.link.width.max")
        if not now or not most:
            continue
        known += 1
        if now < most:  # the generation drops while a GPU is idle, the width does not
            out.append(PROBE.warn(
                f"x{int(now)}", f"x{int(most)}",
                Text("GPU {i} ({bus}) has {now} of {most} PCIe lanes",
                     "GPU {i}（{bus}）只启用了 {most} 条 PCIe 通道中的 {now} 条",
                     i=gpu.index, bus=gpu.bus, now=int(now), most=int(most)),
                Text("seat the card or riser again; until then copies from the host take {n} times as long",
                     "重新插紧显卡或转接卡；在此之前主机到显存的拷贝耗时为 {n} 倍", n=round(most / now)),
            ))  # fmt: skip
    if not known:
        return None
    return out or PROBE.ok(None, None, Text("all PCIe lanes are in use", "PCIe 通道均已启用"))
