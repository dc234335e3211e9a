"""Do the ranks of this node share one /dev/shm?"""

from __future__ import annotations

from torchvet.findings import Text

from ..plan import gpus
from ..probe import Host, Plan, Probe, Result
from ..surroundings import HOST_IPC, pick, surroundings

PROBE = Probe(
    name="ipc-namespace",
    area="container",
    summary=Text("ranks of this node share one /dev/shm", "本节点的 rank 共用同一个 /dev/shm"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    ipc, where = host.link("/proc/self/ns/ipc"), surroundings(host)
    if ipc is None:
        return None
    ranks, how = plan.ranks(host)
    value = "host" if ipc == HOST_IPC and not where.private_shm else "private"
    if value == "private" and ranks > 1 and gpus(host) == 1 and not plan.ranks_per_node:
        return PROBE.warn(
            value, "shared",
            Text("{n} ranks on this node ({how}), one GPU in this container: each rank has a /dev/shm of its own, NCCL "
                 "cannot use shared memory between them",
                 "本节点有 {n} 个 rank（{how}），而此容器只有一个 GPU：各有自己的 /dev/shm，NCCL 无法用共享内存",
                 n=ranks, how=how),
            pick(
                host,
                Text("start all ranks of a node in one container", "在同一个容器内启动节点的所有 rank"),
                docker=Text("docker run --ipc=host for each, or all ranks in one container",
                            "每个容器使用 docker run --ipc=host，或在一个容器内启动所有 rank"),
                kubernetes=Text("one pod for all GPUs of a node", "每个节点用一个 Pod 占用全部 GPU"),
            ),
        )  # fmt: skip
    said = Text("the IPC namespace of the machine", "使用主机的 IPC 命名空间") if value == "host" else Text(
        "an IPC namespace of its own", "使用独立的 IPC 命名空间"
    )  # fmt: skip
    return PROBE.ok(value, None, said)
