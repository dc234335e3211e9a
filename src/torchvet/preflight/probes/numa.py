"""Does the job run beside its GPUs?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cpus import Cpus
from ..probe import Host, Plan, Probe, Result
from ..quantity import cpu_list, whole
from ..surroundings import pick

PROBE = Probe(
    name="numa",
    area="cpu",
    summary=Text("the job may run on the CPUs beside its GPUs", "作业可在 GPU 所在 NUMA 节点的 CPU 上运行"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    nodes: dict[int, frozenset[int]] = {}
    for name in host.list("/sys/devices/system/node"):
        number = whole(name[4:]) if name.startswith("node") else None
        cpus = cpu_list(host.read(f"/sys/devices/system/node/{name}/cpulist")) if number is not None else None
        if number is not None and cpus:
            nodes[number] = cpus
    own = host.cpus()
    if len(nodes) < 2 or not own:
        return None
    gpus = {}
    for driver in ("nvidia", "amdgpu"):
        for device in host.list(f"/sys/bus/pci/drivers/{driver}"):
            if ":" in device:
                node = whole(host.read(f"/sys/bus/pci/devices/{device}/numa_node"))
                if node is not None and node in nodes:  # -1: the firmware does not say
                    gpus[device] = node
    mine = {n for n, cpus in nodes.items() if cpus & own}
    said = Text(
        "{n} NUMA nodes, this job on {mine}", "{n} 个 NUMA 节点，本作业位于 {mine}", n=len(nodes), mine=sorted(mine)
    )
    far = sorted({n for n in gpus.values() if n not in mine})
    if not far or (Cpus(host, plan).of_rank and set(gpus.values()) & mine):  # each rank has a share of its own
        return PROBE.ok(sorted(mine), sorted(set(gpus.values())), said)
    count = sum(n in far for n in gpus.values())
    text = Text("{x}: {count} of {all} GPUs hang on {far}, copies to them cross the socket",
                "{x}：{all} 个 GPU 中有 {count} 个位于 {far}，拷贝要跨插槽",
                x=said, count=count, all=len(gpus), far=far)  # fmt: skip
    fix = pick(
        host,
        Text(
            "start without taskset and numactl, or bind each rank to the node of its GPU",
            "不绑定 CPU，或将 rank 绑定到其 GPU 的节点",
        ),
        docker=Text("--cpuset-cpus with CPUs of all GPUs' nodes", "--cpuset-cpus 包含所有 GPU 所在节点的 CPU"),
        slurm=Text("srun --gpus-per-task=1 --gpu-bind=closest --cpus-per-task=…"),
    )
    return PROBE.warn(sorted(mine), sorted(set(gpus.values())), text, fix)
