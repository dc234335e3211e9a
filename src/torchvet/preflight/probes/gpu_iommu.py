"""An IOMMU that translates every access of the GPUs."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import amd, nvidia
from ..machine import virtual
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-iommu",
    area="gpu",
    summary=Text("the IOMMU leaves GPU traffic alone", "IOMMU 不转换 GPU 流量"),
    seconds=20,
)

GROUPS = "/sys/kernel/iommu_groups"


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    rocm = amd.ask(host)
    several = len(smi.gpus) > 1 or (rocm is not None and (rocm.count or 0) > 1)
    if not several or virtual(host) is not False or not host.list("/sys/class/iommu"):
        return None
    line = host.read("/proc/cmdline")
    if line is None:
        return PROBE.unknown(Text("the kernel command line cannot be read", "无法读取内核命令行"))
    if re.search(r"\b(?:iommu=(?:pt|off)|amd_iommu=off|intel_iommu=off|iommu\.passthrough=1)\b", line):
        return PROBE.ok("pt", "pt", Text("the IOMMU passes GPU traffic through", "IOMMU 直通 GPU 流量"))
    kinds = set()
    for gpu in smi.gpus:
        bus = gpu.bus[-12:]
        group = (host.link(f"/sys/bus/pci/devices/{bus}/iommu_group") or "").rsplit("/", 1)[-1]
        kinds.add((host.read(f"{GROUPS}/{group}/type") or "").strip() if group else "")
    if kinds == {"identity"}:
        return PROBE.ok("identity", "identity", Text("the IOMMU passes GPU traffic through", "IOMMU 直通 GPU 流量"))
    amd_cpu = "AuthenticAMD" in (host.read("/proc/cpuinfo") or "")
    if not any(k.startswith("DMA") for k in kinds) and not (rocm and amd_cpu):
        return None  # not known for these GPUs
    return PROBE.warn(
        "DMA", "pt",
        Text("the IOMMU translates GPU traffic: peer-to-peer is slow or hangs",
             "IOMMU 会转换 GPU 流量：点对点通信变慢或挂起"),
        Text("kernel parameter iommu=pt (and amd_iommu=on on AMD hosts), then restart",
             "添加内核参数 iommu=pt（AMD 主机还需 amd_iommu=on）后重启"),
    )  # fmt: skip
