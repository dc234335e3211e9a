"""May a rank open as many files as its loaders and NCCL need?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import ulimit
from ..probe import Host, Plan, Probe, Result

FEW, VERY_FEW = 4096, 1024

PROBE = Probe(
    name="nofile",
    area="limits",
    summary=Text("enough files can be open at the same time", "可同时打开足够多的文件"),
)


def needed(plan: Plan) -> int | None:
    """Files of one rank, generously: 16 tensors a batch, twice, and 256 for everything else; None: loaders unknown."""
    if not plan.loaders or any(x.workers is None for x in plan.loaders):
        return None
    return 256 + sum(x.batches * 32 + 8 * (x.workers or 0) for x in plan.loaders)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("NOFILE")
    if limit is None:
        return PROBE.unknown(Text("the limit of open files cannot be read", "无法读取打开文件数的限制"))
    soft, hard = limit
    shown = "unlimited" if soft < 0 else f"{soft:,}"
    said = Text("{n} files can be open", "可打开 {n} 个文件", n=shown)
    need = needed(plan)
    if (
        soft < 0
        or soft >= FEW
        or (need is not None and soft >= VERY_FEW and soft >= need and plan.node_count(host) in (None, 1))
    ):
        return PROBE.ok(soft, FEW if need is None else need, said)
    why = Text("{x}; every tensor of a batch in flight is one, every NCCL connection too",
               "{x}；传输中的每个张量、每个 NCCL 连接各占一个", x=said)  # fmt: skip
    if hard < 0 or hard >= 65536:
        fix = Text(
            "ulimit -n 65536 before the start (the hard limit allows it)", "启动前执行 ulimit -n 65536（硬限制允许）"
        )
    else:
        fix = ulimit(host, "nofile", "65536")
    if soft < VERY_FEW and plan.uses_workers(host) is not False:
        return PROBE.fail(soft, VERY_FEW, Text("{x}: a loader can hang", "{x}：加载器可能挂起", x=why), fix)
    return PROBE.warn(soft, FEW, why, fix)
