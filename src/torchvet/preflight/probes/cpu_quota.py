"""Are there as many CPUs as ranks and workers keep busy?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cpus import Cpus, number
from ..fixes import more_cpus
from ..plan import counted, gpus
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="cpu-quota",
    area="cpu",
    summary=Text("enough CPUs for all ranks and workers", "CPU 足够所有 rank 与 worker 使用"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    cpus = Cpus(host, plan)
    if cpus.usable is None:
        return PROBE.unknown(Text("the number of usable CPUs cannot be read", "无法读取可用 CPU 数"))
    ranks, how = (1, Text("bound to it", "绑定于此")) if cpus.of_rank else plan.ranks(host)
    workers = plan.busy_workers
    has = Text("{n} CPUs ({why})", "{n} 个 CPU（{why}）", n=number(cpus.usable), why=cpus.why)
    if workers is None:
        need = 2 * ranks if gpus(host) else ranks  # at least one worker a rank is assumed where GPUs wait for data
        job = Text("{r} ({how})", "{r}（{how}）", r=counted(ranks), how=how)
    else:
        need = ranks * (workers + 1)
        job = Text("{r} × ({w} workers + 1)", "{r} × ({w} 个 worker + 1)", r=counted(ranks), w=workers)
    said = Text("{has} for {job}", "{has}，供 {job} 使用", has=has, job=job)
    if cpus.usable >= need:
        return PROBE.ok(cpus.usable, need, said)
    text = Text("{x}: {need} are kept busy", "{x}：需要 {need} 个", x=said, need=need)
    if cpus.quota is not None and cpus.affinity and cpus.quota < cpus.affinity:
        text = Text("{x}; PyTorch's own advice sees {n} and does not know the quota",
                    "{x}；PyTorch 自身的建议按 {n} 个计算，不知道配额", x=text, n=cpus.affinity)  # fmt: skip
    return PROBE.warn(cpus.usable, need, text, more_cpus(host, need))
