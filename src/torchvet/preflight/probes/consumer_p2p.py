"""Consumer GPUs whose driver promises peer-to-peer and does not have it."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result
from ..variables import integer, settings

PROBE = Probe(
    name="consumer-p2p",
    area="gpu",
    summary=Text("peer-to-peer of consumer GPUs", "消费级 GPU 的点对点通信"),
    seconds=20,
)

FIXED = (550, 40, 7)


def affected(smi: nvidia.Smi) -> bool:
    """RTX 40 cards with a driver before 550.40.07 (accelerate, check_cuda_p2p_ib_support)."""
    driver = tuple(int(n) for n in re.findall(r"\d+", smi.driver)[:3])
    return bool(driver) and driver < FIXED and any(re.search(r"RTX 40\d\d", g.name) for g in smi.gpus)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    if len(smi.gpus) < 2 or plan.ranks(host)[0] < 2 or not any(re.search(r"RTX 40\d\d", g.name) for g in smi.gpus):
        return None
    known = settings(host)
    off = integer(known.get("NCCL_P2P_DISABLE")) == 1
    if not affected(smi) or off:
        return PROBE.ok(smi.driver, "550.40.07", Text("driver {driver}", "驱动 {driver}", driver=smi.driver))
    return PROBE.fail(
        smi.driver, "550.40.07",
        Text("{name} with driver {driver}: peer-to-peer is reported and does not work, NCCL gives wrong results "
             "or hangs",
             "{name} 配驱动 {driver}：驱动声称支持点对点但实际不可用，NCCL 会出错或挂起",
             name=next(g.name for g in smi.gpus if "RTX 40" in g.name), driver=smi.driver),
        Text("driver 550.40.07 or newer, or NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1",
             "使用 550.40.07 或更新的驱动，或设置 NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1"),
    )  # fmt: skip
