"""Uncorrected memory errors since the driver was loaded."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-ecc", area="gpu", summary=Text("uncorrected memory errors of GPUs", "GPU 未纠正的显存错误"), seconds=20
)

FIELD = "ecc.errors.uncorrected.volatile.total"
MANY = 10_000
"""Azure's limit for double-bit errors on H100 (azurehpc-health-checks, check_gpu_ecc 20000000 10000)."""


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    counted = [(g, n) for g in nvidia.ask(host).gpus if (n := g.number(FIELD)) is not None]
    if not counted:
        return None
    out = []
    for gpu, n in counted:
        if n > 0:
            said = Text(
                "GPU {i} ({bus}) had {n} uncorrected memory errors since the driver was loaded",
                "GPU {i}（{bus}）自驱动加载以来有 {n} 次未纠正的显存错误",
                i=gpu.index,
                bus=gpu.bus,
                n=int(n),
            )
            fix = Text("nvidia-smi --gpu-reset -i {i}, with no process on it; report the GPU if the errors come back",
                       "确认无进程占用后执行 nvidia-smi --gpu-reset -i {i}；若再次出现请报修", i=gpu.index)  # fmt: skip
            out.append((PROBE.fail if n >= MANY else PROBE.warn)(int(n), MANY, said, fix))
    return out or PROBE.ok(
        0, MANY, Text("no uncorrected memory errors on {n} GPUs", "{n} 个 GPU 均无未纠正的显存错误", n=len(counted))
    )
