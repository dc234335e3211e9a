"""PCIe bridges that send peer-to-peer traffic up to the CPU."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import nvidia
from ..machine import virtual
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="pcie-acs",
    area="gpu",
    summary=Text("PCIe access control between GPUs", "GPU 之间的 PCIe 访问控制（ACS）"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    # virtual machines need it, and their bridges are not real (gpud leaves KVM out)
    if len(nvidia.ask(host).gpus) < 2 or virtual(host) is not False:
        return None
    ran = host.run(["lspci", "-vvv"], 15)
    if ran is None or not ran.ok or "ACSCtl" not in ran.out:
        if ran is not None and ran.ok and "<access denied>" not in ran.out and "Capabilities:" in ran.out:
            return PROBE.ok(0, 0, Text("no bridge has access control", "没有网桥启用访问控制"))
        return PROBE.unknown(Text("only root can see it: lspci -vvv", "仅 root 可查看：lspci -vvv"))
    on = []
    for block in re.split(r"\n(?=\S)", ran.out):
        if "PCI bridge" in block.split("\n", 1)[0] and re.search(r"ACSCtl:.*SrcValid\+", block):
            on.append(block.split(" ", 1)[0])
    if not on:
        return PROBE.ok(0, 0, Text("no bridge redirects peer-to-peer traffic", "没有网桥重定向点对点流量"))
    some = ", ".join(on[:3]) + (" …" if len(on) > 3 else "")
    return PROBE.warn(
        len(on), 0,
        Text("access control (ACS) is on in {n} PCIe bridges ({some}): traffic between GPUs goes through the "
             "CPU, NCCL can hang",
             "{n} 个 PCIe 网桥开启了 ACS（{some}）：GPU 间流量绕行 CPU，NCCL 可能挂起", n=len(on), some=some),
        Text("turn it off in the BIOS, or setpci -s {bridge} ECAP_ACS+0x6.w=0000 for each",
             "在 BIOS 中关闭，或对每个网桥执行 setpci -s {bridge} ECAP_ACS+0x6.w=0000", bridge=on[0]),
    )  # fmt: skip
