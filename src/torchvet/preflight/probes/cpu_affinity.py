"""Is the job bound to a single CPU by mistake?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cpus import Cpus
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="cpu-affinity",
    area="cpu",
    summary=Text("the job is not bound to a single CPU", "作业未被绑定到单个 CPU"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    cpus = Cpus(host, plan)
    if cpus.affinity is None or cpus.online is None:
        return None
    said = Text("may run on {n} of {all} CPUs", "可在 {all} 个 CPU 中的 {n} 个上运行", n=cpus.affinity, all=cpus.online)
    if cpus.affinity > 1 or cpus.online < 4:
        return PROBE.ok(cpus.affinity, 2, said)
    text = Text("{x}: workers, NCCL and autograd threads share it with the main loop",
                "{x}：worker、NCCL 与自动求导线程都挤在主循环所在的 CPU 上", x=said)  # fmt: skip
    fix = pick(
        host,
        Text("start without taskset and numactl -C; unset GOMP_CPU_AFFINITY, KMP_AFFINITY",
             "不要使用 taskset、numactl -C；取消 GOMP_CPU_AFFINITY、KMP_AFFINITY"),
        docker=Text("docker run without --cpuset-cpus", "docker run 不要使用 --cpuset-cpus"),
        slurm=Text("#SBATCH --cpus-per-task=8, and srun --cpus-per-task=8 (srun does not take it from sbatch)",
                   "#SBATCH --cpus-per-task=8，并在 srun 中再次给出 --cpus-per-task=8（srun 不继承 sbatch 的值）"),
    )  # fmt: skip
    return PROBE.warn(1, 2, text, fix)
