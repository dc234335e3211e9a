"""May a process reserve as many addresses as CUDA does?"""

from __future__ import annotations

from torchvet.findings import Text

from ..plan import gpus
from ..probe import Host, Plan, Probe, Result
from ..quantity import size
from ..surroundings import pick

PROBE = Probe(
    name="virtual-memory",
    area="limits",
    summary=Text("addresses are not limited (ulimit -v)", "未限制虚拟内存（ulimit -v）"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("AS")
    if limit is None:
        return None
    soft = limit[0]
    if soft < 0:
        return PROBE.ok(-1, -1, Text("virtual memory: unlimited", "虚拟内存：不限"))
    fix = pick(
        host,
        Text("ulimit -v unlimited before the start", "启动前执行 ulimit -v unlimited"),
        slurm=Text(
            "VSizeFactor=0 in slurm.conf, srun --propagate=NONE",
            "在 slurm.conf 中设置 VSizeFactor=0，srun --propagate=NONE",
        ),
    )
    said = Text(
        "virtual memory is limited to {n}; CUDA reserves addresses for all memory of the machine at its start",
        "虚拟内存被限制为 {n}；CUDA 启动时会为整机内存预留地址", n=size(soft),
    )  # fmt: skip
    return (PROBE.fail if gpus(host) else PROBE.warn)(soft, -1, said, fix)
