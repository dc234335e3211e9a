"""Which kind of container and launcher this is, and the words of a fix for it.

One sign alone proves nothing: /.dockerenv lies in images that run elsewhere, and Slurm's variables survive `docker run
--env`. A kind needs a sign that only it leaves, or two weaker ones.
"""

from __future__ import annotations

import re

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host

DOCKER, COMPOSE, PODMAN, KUBERNETES, APPTAINER, ENROOT, BARE, OTHER, NOT_KNOWN = (
    "docker", "compose", "podman", "kubernetes", "apptainer", "enroot", "bare", "container", "unknown",
)  # fmt: skip
SLURM, MPI, TORCHRUN = "slurm", "mpi", "torchrun"

HOST_IPC = "ipc:[4026531839]"
"""The initial IPC namespace: PROC_IPC_INIT_INO = 0xEFFFFFFF (include/linux/proc_ns.h)."""

NAMES = {
    DOCKER: Text("docker container", "docker 容器"),
    COMPOSE: Text("docker compose container", "docker compose 容器"),
    PODMAN: Text("podman container", "podman 容器"),
    KUBERNETES: Text("kubernetes pod", "kubernetes Pod"),
    APPTAINER: Text("apptainer container", "apptainer 容器"),
    ENROOT: Text("enroot container", "enroot 容器"),
    OTHER: Text("container", "容器"),
    BARE: Text("no container", "无容器"),
    NOT_KNOWN: Text("unknown surroundings", "未知环境"),
}


class Surroundings:
    """`container` is one of NAMES, `launcher` "slurm", "mpi", "torchrun" or "". `signs` are what it was concluded from,
    as the names of files and variables; `private_shm`: /dev/shm belongs to this container (None: not known)."""

    __slots__ = ("container", "launcher", "private_shm", "signs")

    def __init__(self, container: str, launcher: str, signs: list[str], private_shm: bool | None) -> None:
        self.container = container
        self.launcher = launcher
        self.signs = signs
        self.private_shm = private_shm

    @property
    def name(self) -> Text:
        return NAMES[self.container]


_CGROUPS = (
    (KUBERNETES, re.compile(r"kubepods")),
    (PODMAN, re.compile(r"libpod")),
    (DOCKER, re.compile(r"/docker[/-]|docker-[0-9a-f]{12,}\.scope")),
)

_BOUND = ((KUBERNETES, "kubelet"), (DOCKER, "/docker/containers/"), (PODMAN, "/containers/storage/"))
"""Parts of the sources of /etc/hostname and its like, which engines bind into a container."""


def surroundings(host: Host) -> Surroundings:
    """Where this process runs."""
    return host.once("surroundings", lambda: _look(host))


def _look(host: Host) -> Surroundings:
    env = host.env
    signs: dict[str, list[str]] = {}

    def sign(kind: str, name: str, weight: int = 1) -> None:
        signs.setdefault(kind, []).extend([name] * weight)

    if env.get("KUBERNETES_SERVICE_HOST"):
        sign(KUBERNETES, "KUBERNETES_SERVICE_HOST")
    if host.exists("/var/run/secrets/kubernetes.io") or host.exists("/run/secrets/kubernetes.io"):
        sign(KUBERNETES, "/var/run/secrets/kubernetes.io", 2)
    if env.get("container") == "podman":
        sign(PODMAN, "container=podman")
    if host.exists("/run/.containerenv"):
        sign(PODMAN, "/run/.containerenv")
    if host.exists("/.dockerenv"):
        sign(DOCKER, "/.dockerenv")
    for name in ("APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME"):
        if env.get(name):
            sign(APPTAINER, name)
    if host.exists("/.singularity.d"):
        sign(APPTAINER, "/.singularity.d")
    if any(n.startswith("ENROOT_") for n in env):
        sign(ENROOT, "ENROOT_*")
    if host.exists("/etc/enroot") and host.exists("/.enroot"):
        sign(ENROOT, "/.enroot")
    for path in ("/proc/self/cgroup", "/proc/1/cgroup"):
        text = host.read(path) or ""
        for kind, pattern in _CGROUPS:
            if pattern.search(text):
                sign(kind, path, 2)
                break
    root = next((m for m in reversed(host.mounts()) if m.place == "/"), None)
    options = " ".join(root.options) if root is not None else ""
    if root is not None and root.kind in ("overlay", "fuse.fuse-overlayfs", "zfs", "btrfs"):
        weight = 2 if root.kind != "zfs" and root.kind != "btrfs" else 0
        if "/apptainer/mnt/session" in options or "/singularity/mnt/session" in options:
            sign(APPTAINER, "overlay", 2)
        elif "/docker/" in options or "/docker/" in root.source:
            sign(DOCKER, "overlay", 2)
        elif "/containers/storage" in options:
            sign(PODMAN, "overlay", 2)
        elif "containerd" in options:  # kubernetes, nerdctl, and docker with its containerd image store
            sign(KUBERNETES if KUBERNETES in signs else DOCKER if DOCKER in signs else OTHER, "overlay", weight)
        elif weight:
            sign(next((k for k in (KUBERNETES, ENROOT, APPTAINER, PODMAN, DOCKER) if k in signs), OTHER), "overlay")
    for m in host.mounts():
        if m.place in ("/etc/hostname", "/etc/resolv.conf", "/etc/hosts"):
            for kind, part in _BOUND:
                if part in m.part:
                    sign(kind, m.place, 2)
    shm = next((m for m in reversed(host.mounts()) if m.place == "/dev/shm"), None)
    named_shm = shm is not None and shm.source == "shm"  # runc's name of a container's own tmpfs
    ipc = host.link("/proc/self/ns/ipc")
    if named_shm:
        sign(next((k for k in (KUBERNETES, PODMAN, DOCKER) if k in signs), OTHER), "/dev/shm")
    own_ipc = shm is not None and ipc not in (None, HOST_IPC)
    private = None if shm is None and ipc is None else named_shm or own_ipc
    best = _strongest(signs)
    container = best or (BARE if host.mounts() or host.read("/proc/self/cgroup") else NOT_KNOWN)
    if container == DOCKER and any(n.startswith("COMPOSE_") for n in env):
        container = COMPOSE
    seen = list(dict.fromkeys(signs.get(best, []))) if best else []
    return Surroundings(container, _launcher(host), seen, private)


def _strongest(signs: dict[str, list[str]]) -> str:
    """The kind with the most weight, two at least; of equal ones the more particular. Kubernetes comes before the
    engine that it starts pods with, which leaves signs too."""
    order = (KUBERNETES, ENROOT, APPTAINER, PODMAN, DOCKER, OTHER)
    strong = [k for k in order if len(signs.get(k, ())) >= 2]
    if KUBERNETES in strong:
        return KUBERNETES
    return max(strong, key=lambda k: (len(signs[k]) if k != OTHER else 0, -order.index(k))) if strong else ""


def _launcher(host: Host) -> str:
    env = host.env
    if env.get("SLURM_JOB_ID") and (
        env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or "SLURM_PROCID" in env
    ):
        return SLURM
    if env.get("TORCHELASTIC_RUN_ID") or env.get("TORCHELASTIC_RESTART_COUNT"):
        return TORCHRUN
    if env.get("OMPI_COMM_WORLD_SIZE") or env.get("PMI_SIZE"):
        return MPI
    return ""


def pick(
    host: Host,
    bare: Text,
    *,
    docker: Text | None = None,
    compose: Text | None = None,
    podman: Text | None = None,
    kubernetes: Text | None = None,
    slurm: Text | None = None,
    apptainer: Text | None = None,
    enroot: Text | None = None,
) -> Text:
    """The fix for this kind of container. podman and compose take docker's words where they have none of their own;
    Slurm's words are for jobs without a container (and for enroot, which it starts); `bare` is for everything else."""
    where = surroundings(host)
    words = {
        DOCKER: docker, COMPOSE: compose or docker, PODMAN: podman or docker, KUBERNETES: kubernetes,
        APPTAINER: apptainer, OTHER: docker, ENROOT: enroot or (slurm if where.launcher == SLURM else None),
        BARE: slurm if where.launcher == SLURM else None, NOT_KNOWN: None,
    }  # fmt: skip
    return words[where.container] or bare
