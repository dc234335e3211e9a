"""Can network cards read GPU memory directly?"""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..machine import kernel, modules
from ..network import rdma_ports
from ..probe import Host, Plan, Probe, Result
from ..variables import integer, settings

PROBE = Probe(
    name="gpudirect-rdma",
    area="network",
    summary=Text("network cards reach GPU memory directly", "网卡可直接访问显存"),
    seconds=20,
)

DMABUF_KERNEL = (5, 12)
"""RDMA drivers take DMA-BUF memory since Linux 5.12; the driver must be NVIDIA's open one (NCCL troubleshooting)."""


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    ports = [p for p in rdma_ports(host) if p.active and p.card.startswith(("mlx", "bnxt", "ib", "roce"))]
    if not ports or not nvidia.ask(host).gpus or plan.node_count(host) == 1 or integer(known.get("NCCL_IB_DISABLE")):
        return None
    loaded = modules(host)
    if loaded is None:
        return PROBE.unknown(Text("loaded kernel modules cannot be read", "无法读取已加载的内核模块"))
    if loaded & {"nvidia_peermem", "nv_peer_mem"}:
        return PROBE.ok("nvidia_peermem", None, Text("nvidia_peermem is loaded", "已加载 nvidia_peermem"))
    version, linux = host.read("/proc/driver/nvidia/version"), kernel(host)
    if version is None or linux is None:
        return PROBE.unknown(Text("the kind of NVIDIA driver cannot be read here", "此处无法得知 NVIDIA 驱动的类型"))
    allowed = known["NCCL_DMABUF_ENABLE"].value.strip() != "0" if "NCCL_DMABUF_ENABLE" in known else True
    if "Open Kernel Module" in version and linux >= DMABUF_KERNEL and allowed:
        return PROBE.ok(
            "dma-buf",
            None,
            Text("DMA-BUF (open driver, Linux {a}.{b})", "DMA-BUF（开源驱动，Linux {a}.{b}）", a=linux[0], b=linux[1]),
        )
    return PROBE.warn(
        "neither", "nvidia_peermem or DMA-BUF",
        Text("neither nvidia_peermem nor DMA-BUF: traffic between nodes is copied through host memory",
             "既无 nvidia_peermem 也无 DMA-BUF：节点间流量需经主机内存中转"),
        Text("modprobe nvidia_peermem on the host, or the open driver on Linux 5.12 or newer",
             "在宿主机执行 modprobe nvidia_peermem，或在 Linux 5.12 以上使用开源驱动"),
    )  # fmt: skip
