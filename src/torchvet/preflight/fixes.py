"""Fixes that several probes give, in the words of the container or launcher that this is."""

from __future__ import annotations

from torchvet.findings import Text

from .quantity import round_up, size
from .surroundings import pick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host


def more_shm(host: Host, need: int) -> Text:
    """Give /dev/shm at least `need` bytes."""
    g = round_up(need)
    return pick(
        host,
        Text("mount -o remount,size={g} /dev/shm", g=g),
        docker=Text(
            'docker run --shm-size={g} … (in compose: shm_size: "{g}b" in the service)',
            'docker run --shm-size={g} …（compose：在 service 中设置 shm_size: "{g}b"）',
            g=g,
        ),
        compose=Text('in the service: shm_size: "{g}b"', '在 service 中设置：shm_size: "{g}b"', g=g),
        podman=Text("podman run --shm-size={g} …", g=g),
        kubernetes=Text(
            "mount an emptyDir with medium: Memory and sizeLimit: {g}i at /dev/shm; it counts in the memory limit",
            "在 /dev/shm 挂载 emptyDir（medium: Memory，sizeLimit: {g}i）；它计入内存限额",
            g=g.upper(),
        ),
        apptainer=Text(
            "apptainer exec without --contain (-C), or bind the host's: --bind /dev/shm",
            "运行 apptainer 时不要用 --contain（-C），或绑定主机目录：--bind /dev/shm",
        ),
        enroot=Text(
            "unset ENROOT_UNSHARE_IPC, so that the host's /dev/shm is used",
            "取消 ENROOT_UNSHARE_IPC，以使用主机的 /dev/shm",
        ),
        slurm=Text(
            "the administrator remounts it on the node: mount -o remount,size={g} /dev/shm",
            "由管理员在节点上重新挂载：mount -o remount,size={g} /dev/shm",
            g=g,
        ),
    )


def ulimit(host: Host, name: str, value: str) -> Text:
    """Raise a resource limit: `name` as docker and limits.conf call it ("memlock", "nofile"), `value` "-1" or a
    number."""
    letter = {"memlock": "l", "nofile": "n", "nproc": "u", "stack": "s", "core": "c"}[name]
    word = "unlimited" if value == "-1" else value
    shell = str(int(value) // 1024) if name == "stack" and value != "-1" else word
    return pick(
        host,
        Text(
            "ulimit -{letter} {shell} before the start; for good: {name} {word} in /etc/security/limits.conf, "
            "Limit{NAME}={infinity} in the systemd unit",
            "启动前执行 ulimit -{letter} {shell}；长期生效：在 /etc/security/limits.conf 中设置 {name} {word}，"
            "或在 systemd 单元中设置 Limit{NAME}={infinity}",
            letter=letter, shell=shell, name=name, word=word, NAME=name.upper(),
            infinity="infinity" if value == "-1" else value,
        ),
        docker=Text("docker run --ulimit {name}={value} … (in compose: ulimits: {{{name}: {value}}})",
                    "docker run --ulimit {name}={value} …（compose：ulimits: {{{name}: {value}}}）",
                    name=name, value=value),
        compose=Text(
            "in the service: ulimits: {{{name}: {value}}}", "在 service 中设置：ulimits: {{{name}: {value}}}",
            name=name, value=value,
        ),
        podman=Text("podman run --ulimit {name}={value} …", name=name, value=value),
        kubernetes=Text(
            "pods inherit it from the container runtime: Limit{NAME}={infinity} in containerd.service on the node"
            "{more}",
            "Pod 从容器运行时继承该限制：在节点的 containerd.service 中设置 Limit{NAME}={infinity}{more}",
            NAME=name.upper(), infinity="infinity" if value == "-1" else value,
            more=Text(
                ", or securityContext.capabilities.add: [IPC_LOCK]",
                "，或 securityContext.capabilities.add: [IPC_LOCK]",
            ) if name == "memlock" else "",
        ),
        slurm=Text(
            "Limit{NAME}={infinity} in slurmd.service on the nodes, and srun --propagate=NONE (for all jobs: "
            "PropagateResourceLimitsExcept={NAME} in slurm.conf)",
            "在节点的 slurmd.service 中设置 Limit{NAME}={infinity}，并使用 srun --propagate=NONE（对所有作业："
            "slurm.conf 中的 PropagateResourceLimitsExcept={NAME}）",
            NAME=name.upper(), infinity="infinity" if value == "-1" else value,
        ),
    )  # fmt: skip


def more_cpus(host: Host, need: int) -> Text:
    """Give the job more CPUs."""
    return pick(
        host,
        Text("fewer workers, or start the job on {n} CPUs", "减少 worker，或使用 {n} 个 CPU", n=need),
        docker=Text("docker run --cpus={n} …, or fewer workers", "docker run --cpus={n} …，或减少 worker", n=need),
        compose=Text(
            'cpus: "{n}" in the service, or fewer workers', '在 service 中设置 cpus: "{n}"，或减少 worker', n=need
        ),
        podman=Text("podman run --cpus={n} …, or fewer workers", "podman run --cpus={n} …，或减少 worker", n=need),
        kubernetes=Text(
            'resources.limits.cpu: "{n}", or fewer workers', 'resources.limits.cpu: "{n}"，或减少 worker', n=need
        ),
        slurm=Text(
            "--cpus-per-task so that the job gets {n} CPUs on this node, or fewer workers",
            "用 --cpus-per-task 使作业在本节点得到 {n} 个 CPU，或减少 worker", n=need,
        ),
    )  # fmt: skip


def more_memory(host: Host, need: int) -> Text:
    """Give the job at least `need` bytes of memory."""
    g = round_up(need)
    return pick(
        host,
        Text("free {n}, or run fewer workers", "释放 {n}，或减少 worker", n=size(need)),
        docker=Text("docker run --memory={g} …", g=g),
        compose=Text("mem_limit: {g} in the service", "在 service 中设置 mem_limit: {g}", g=g),
        podman=Text("podman run --memory={g} …", g=g),
        kubernetes=Text("resources.limits.memory: {g}i", g=g.upper()),
        slurm=Text("#SBATCH --mem={g}", g=g.upper()),
    )
