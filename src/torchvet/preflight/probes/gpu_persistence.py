"""Does the driver stay loaded between processes?"""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-persistence",
    area="gpu",
    summary=Text("the driver stays loaded between processes", "驱动在进程之间保持加载"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    # desktop cards have a display that keeps the driver loaded
    gpus = [g for g in nvidia.ask(host).gpus if g.text("persistence_mode") and "GeForce" not in g.name]
    off = [g.index for g in gpus if g.text("persistence_mode") == "Disabled"]
    if not gpus:
        return None
    if not off:
        return PROBE.ok("Enabled", "Enabled", Text("persistence mode is on", "持久模式已开启"))
    return PROBE.warn(
        "Disabled", "Enabled",
        Text("persistence mode is off on GPU {gpus}: the driver is set up again by every first process",
             "GPU {gpus} 未开启持久模式：每次首个进程都要重新初始化驱动", gpus=", ".join(off)),
        Text("nvidia-smi -pm 1, or the nvidia-persistenced service",
             "执行 nvidia-smi -pm 1，或启用 nvidia-persistenced 服务"),
    )  # fmt: skip
