"""Do the OpenMP threads of all ranks fit on the CPUs?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cpus import Cpus, number
from ..probe import Host, Plan, Probe, Result
from ..quantity import whole
from ..surroundings import MPI, SLURM, TORCHRUN, surroundings

PROBE = Probe(
    name="omp-threads",
    area="cpu",
    summary=Text("OpenMP threads of all ranks fit on the CPUs", "所有 rank 的 OpenMP 线程不超过 CPU 数"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    cpus = Cpus(host, plan)
    if cpus.usable is None:
        return None
    ranks = 1 if cpus.of_rank else plan.ranks(host)[0]
    each = max(1, int(cpus.usable / ranks))
    fix = Text("export OMP_NUM_THREADS={n}", n=each)
    text = host.env.get("OMP_NUM_THREADS")
    if text is not None:
        n = whole(text.split(",")[0])  # a list is for nested levels
        if n is None or n < 1:
            said = Text(
                "OMP_NUM_THREADS={text} is no number of threads", "OMP_NUM_THREADS={text} 不是线程数", text=repr(text)
            )
            return PROBE.warn(text, each, said, fix)
        said = Text("OMP_NUM_THREADS={n}, {ranks} ranks, {cpus} CPUs",
                    "OMP_NUM_THREADS={n}，{ranks} 个 rank，{cpus} 个 CPU",
                    n=n, ranks=ranks, cpus=number(cpus.usable))  # fmt: skip
        return PROBE.warn(n, each, said, fix) if n > 1 and n * ranks > cpus.usable else PROBE.ok(n, each, said)
    launcher = surroundings(host).launcher
    threads = cpus.affinity or int(cpus.usable)
    if launcher == TORCHRUN:
        return PROBE.ok(None, each, Text("OMP_NUM_THREADS is left to torchrun", "OMP_NUM_THREADS 由 torchrun 设定"))
    launched = plan.launched(host)  # ranks that torchrun will start are none of srun's
    several = launched is not None and launched[0] > 1 and launcher in (SLURM, MPI) and not cpus.of_rank
    if several or threads > 2 * cpus.usable:
        said = Text(
            "OMP_NUM_THREADS is not set: each of {ranks} ranks starts {n} threads on {cpus} CPUs",
            "未设置 OMP_NUM_THREADS：{ranks} 个 rank 各启动 {n} 个线程，而 CPU 只有 {cpus} 个",
            ranks=ranks, n=threads, cpus=number(cpus.usable),
        )  # fmt: skip
        return PROBE.warn(None, each, said, fix)
    return PROBE.ok(None, each, Text("OMP_NUM_THREADS is not set; torchrun sets 1 for several ranks",
                                     "未设置 OMP_NUM_THREADS；多个 rank 时 torchrun 会设为 1"))  # fmt: skip
