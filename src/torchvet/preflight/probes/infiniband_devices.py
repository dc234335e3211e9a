"""RDMA cards whose device files are missing in the container."""

from __future__ import annotations

from torchvet.findings import Text

from .. import amd, nvidia
from ..network import rdma_ports
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick
from ..variables import integer, settings

PROBE = Probe(
    name="infiniband-devices", area="network",
    summary=Text("device files of the RDMA cards are there", "RDMA 网卡的设备文件存在"), seconds=20,
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    ports = [p for p in rdma_ports(host) if p.active]
    if not ports or integer(settings(host).get("NCCL_IB_DISABLE")) == 1 or plan.node_count(host) == 1:
        return None
    if not nvidia.ask(host).gpus and amd.ask(host) is None:
        return None
    files = [n for n in host.list("/dev/infiniband") if n.startswith("uverbs")]
    if files:
        return PROBE.ok(
            len(files), None, Text("/dev/infiniband has {n} cards", "/dev/infiniband 中有 {n} 块网卡", n=len(files))
        )
    return PROBE.warn(
        0, len({p.card for p in ports}),
        Text("{n} RDMA ports are active and /dev/infiniband has no uverbs file: NCCL falls back to TCP",
             "有 {n} 个 RDMA 端口激活，但 /dev/infiniband 中没有 uverbs 文件：NCCL 将退回 TCP", n=len(ports)),
        pick(host, Text("modprobe ib_uverbs", "执行 modprobe ib_uverbs"),
             docker=Text("docker run --device=/dev/infiniband --ulimit memlock=-1 …"),
             compose=Text('in the service: devices: ["/dev/infiniband"]',
                          '在 service 中设置：devices: ["/dev/infiniband"]'),
             kubernetes=Text("request the RDMA resource of your device plugin (rdma/hca, nvidia.com/hostdev)",
                             "申请设备插件提供的 RDMA 资源（rdma/hca、nvidia.com/hostdev）")),
    )  # fmt: skip
