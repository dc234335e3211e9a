"""Is /dev/shm large enough for what the loaders of all ranks put there, and for NCCL?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import more_shm
from ..plan import USUAL_WORKERS, gpus
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

MIB = 1024**2
CONTAINER_DEFAULT = 64 * MIB
"""docker, containerd and podman give a container this much (docker/cli docs/reference/run.md)."""
FEW = 512 * MIB
"""DeepSpeed's ds_report warns below it (deepspeed/env_report.py)."""
FEW_FOR_NCCL = 1024 * MIB
"""The NCCL troubleshooting page asks for --shm-size=1g."""
NCCL_SHARE = 64 * MIB
"""Room for NCCL's own segments, of 9.6 MB each."""
MARGIN = 1.25
USUAL = 8 * 1024 * MIB

PROBE = Probe(
    name="shm-size",
    area="memory",
    summary=Text("/dev/shm holds what the loaders of all ranks put there", "/dev/shm 能容纳所有 rank 的加载器数据"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    space = host.space("/dev/shm")
    if space is None:
        if not host.missing("/dev/shm"):
            return PROBE.unknown(Text("the size of /dev/shm cannot be read", "无法读取 /dev/shm 的大小"))
        return PROBE.fail(
            None, None,
            Text("there is no /dev/shm: no loader with workers starts", "没有 /dev/shm：带 worker 的加载器无法启动"),
            more_shm(host, plan.demand(host) or USUAL),
        )  # fmt: skip
    if not space.size:
        mount = host.mount_of("/dev/shm")
        if mount is None or mount.place != "/dev/shm":
            return PROBE.unknown(Text("the size of /dev/shm cannot be read", "无法读取 /dev/shm 的大小"))
        return PROBE.ok(0, None, Text("/dev/shm has no limit", "/dev/shm 没有限制"))  # mount -o size=0
    has, ranks = space.size, plan.ranks(host)[0]
    demand = plan.demand(host)
    if demand:
        need = demand + (NCCL_SHARE if ranks > 1 else 0)
        asks = Text(
            "/dev/shm has {has}; this job asks for up to {need}: {how}",
            "/dev/shm 有 {has}；本作业最多需要 {need}：{how}",
            has=size(has), need=size(need), how=plan.demand_text(host),
        )  # fmt: skip
        fix = more_shm(host, int(need * MARGIN))
        if has < need:
            return PROBE.fail(has, need, asks, fix)
        if has < need * MARGIN:
            return PROBE.warn(has, int(need * MARGIN), Text("{x}, little is left", "{x}，余量很小", x=asks), fix)
        return PROBE.ok(has, need, asks)
    uses = plan.uses_workers(host)
    fix = more_shm(host, USUAL)
    if has <= CONTAINER_DEFAULT and (uses or ranks > 1 or (uses is None and gpus(host))):
        if uses:
            why = plan.workers_text()
        elif ranks > 1:
            why = Text("{n} ranks share it ({how})", "{n} 个 rank 共用（{how}）", n=ranks, how=plan.ranks(host)[1])
        else:
            why = Text(
                "assumed: a loader with {n} workers, as the host has a GPU",
                "假定：主机有 GPU，加载器有 {n} 个 worker",
                n=USUAL_WORKERS,
            )
        said = Text(
            "/dev/shm has {has}, the default of containers; batches of workers and NCCL lie there; {why}",
            "/dev/shm 只有 {has}（容器默认值）；worker 的批次和 NCCL 都在其中；{why}", has=size(has), why=why,
        )  # fmt: skip
        return PROBE.fail(has, FEW_FOR_NCCL if ranks > 1 else FEW, said, fix)
    limit = FEW_FOR_NCCL if ranks > 1 else FEW
    has_text = Text("/dev/shm has {has}", "/dev/shm 有 {has}", has=size(has))
    if uses is False and ranks == 1:
        return PROBE.ok(has, None, Text("{x}; no loader has workers", "{x}；加载器没有 worker", x=has_text))
    if has < limit:
        said = Text(
            "{x}, {limit} is the least that is advised; the size of the batches is not known",
            "{x}，建议至少 {limit}；批次大小未知", x=has_text, limit=size(limit),
        )  # fmt: skip
        return PROBE.warn(has, limit, said, fix)
    return PROBE.ok(has, limit, has_text)
