"""May the job lock as much memory as RDMA needs?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import ulimit
from ..probe import Host, Plan, Probe, Result
from ..quantity import limit_text

ENOUGH = 32 << 30
"""AMD's Primus preflight accepts 32 GiB or unlimited."""

PROBE = Probe(
    name="memlock",
    area="limits",
    summary=Text("memory can be locked for RDMA", "可以为 RDMA 锁定内存"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("MEMLOCK")
    if limit is None:
        return PROBE.unknown(Text("the limit of locked memory cannot be read", "无法读取锁定内存的限制"))
    soft = limit[0]
    devices = host.list("/sys/class/infiniband")
    said = Text("locked memory: {n}", "可锁定内存：{n}", n=limit_text(soft))
    if soft < 0 or soft >= ENOUGH:
        return PROBE.ok(soft, ENOUGH, said)
    if not devices:
        return PROBE.ok(
            soft, None, Text("{x}; there is no RDMA device that needs more", "{x}；没有需要更多的 RDMA 设备", x=said)
        )
    text = Text(
        "{x}; NCCL registers its buffers with {device} and fails with ibv_reg_mr or ibv_create_qp",
        "{x}；NCCL 要向 {device} 注册缓冲区，会在 ibv_reg_mr 或 ibv_create_qp 处失败", x=said, device=devices[0],
    )  # fmt: skip
    fix = ulimit(host, "memlock", "-1")
    if plan.node_count(host) == 1:
        return PROBE.warn(
            soft, ENOUGH, Text("{x}, once the job runs on several nodes", "{x}（多节点运行时）", x=text), fix
        )
    return PROBE.fail(soft, ENOUGH, text, fix)
