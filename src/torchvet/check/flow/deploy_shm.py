"""Shared memory of containers: where the default of 64 MiB stays, where a size is too small or of another unit, where a
volume of memory is not at /dev/shm.

A training with loader workers hands every batch over in /dev/shm; NCCL's segments lie there too (9 637 888 bytes each,
NVIDIA/nccl#525). Containers that serve, test or build are not held to it as strictly: see `grade`.
"""

from __future__ import annotations

import os

from ... import knowledge
from ..source.traced import is_known
from .deploy_containers import script_of
from .deploy_launch import IMAGE, LAUNCHER, OTHER, PYTHON, workers_of
from .deploy_model import NEITHER, SERVES, TESTS, TRAINS, UNSAID, Container
from .deploy_patches import Patches
from .deploy_say import About

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .deploy import Deploy
    from .settings import Loader

MIB, GIB = 1 << 20, 1 << 30
LEAST = 512 * MIB
"""DeepSpeed's environment report warns below it."""
PODS = ("kubernetes",)
SEVERAL = ("spawn", "init_process_group", "Trainer", "ccelerat", "istributed", "Process(", "Fabric", "launch")
"""What starts processes for several ranks, or says that somebody does."""

SHARING = ("DataLoader", "num_workers", "multiprocessing", *(w for w in SEVERAL if w != "launch"))


def ranks(c: Container) -> int:
    """Processes that train in one container, at least: what the launcher says, else its GPUs."""
    table = knowledge.deployment("launchers")
    for launch in c.launches:
        for x in launch.all():
            if x.kind == LAUNCHER:
                given = x.value(table[x.head], "n" if x.head == "composer" else table[x.head])
                if given is not None and given.text.isdecimal() and len(given.text) < 5:
                    nodes = x.value("num-machines")
                    number = int(given.text)
                    if nodes is not None and nodes.text.isdecimal() and int(nodes.text) > 1 and x.head == "accelerate":
                        number = -(-number // int(nodes.text))
                    return max(number, 1)
                if given is not None:
                    return c.gpus or 0
    return 1 if c.gpus in (None, 1) else 0


def workers(c: Container) -> int | None:
    return next((n[0] for launch in c.launches for x in launch.all() if (n := workers_of(x)) is not None), None)


def several(c: Container) -> bool:
    """More than one process: a launcher, or several GPUs."""
    return ranks(c) != 1 or (c.gpus or 0) > 1


def grade(c: Container) -> str:
    """How bad 64 MiB are for it: nothing for what neither trains nor serves."""
    purpose = c.purpose
    if c.trains and purpose not in (TESTS, SERVES):
        purpose = TRAINS
    if purpose == NEITHER:
        return ""
    if purpose in (SERVES, TESTS):
        return "note" if c.gpus is not None else ""
    if purpose == TRAINS:
        if workers(c) == 0:  # no batches; NCCL's own segments where several ranks share a node
            return "warning" if several(c) else "note"
        if c.gpus is not None:
            return "warning" if c.platform == "devcontainer" else "error"
        return "warning" if several(c) or workers(c) else "note"
    if c.gpus is None:
        return ""
    if c.platform in ("github", "jenkins"):  # what a runner tests is seldom a training
        return "note"
    programs = [x for launch in c.launches for x in launch.all() if not x.inner]
    shells = knowledge.deployment("shells")
    plain = all(
        x.kind == OTHER and x.head not in shells and is_known(x.head) and not x.head.endswith((".sh", ".py"))
        for x in programs
    )
    return "note" if programs and plain and not workers(c) else "warning"


class SharedMemory:
    def __init__(self, deploy: Deploy) -> None:
        self.deploy = deploy
        self.patches = Patches(deploy)

    def about(self, c: Container, pos: int, severity: str, kind: str = "", text: str = "", other: int = 0) -> About:
        """With the demand of the loaders that are in the same project."""
        found = About(c, pos, severity, kind, text, other, ranks(c) or max(c.gpus or 0, 2))
        if c.purpose == TRAINS or c.trains:
            found.need, found.loader = self.deploy.demand(c.file.path)
            if found.loader is not None and self.one_process(c, found.loader):
                found.ranks = 1
        return found

    def one_process(self, c: Container, loader: Loader) -> bool:
        """Plain Python starts the training, and nothing near the loader starts more of it."""
        launched = [x for launch in c.launches for x in launch.all()]
        text = self.deploy.program.text(loader.module.path) or ""
        return bool(launched) and all(x.kind == PYTHON for x in launched) and not any(w in text for w in SEVERAL)

    def _unset(self, platforms: tuple[str, ...], others: bool = False) -> list[About]:
        out = []
        for c in self.deploy.containers():
            if (c.platform in platforms) == others or c.shm is not None or c.opaque or c.stray[0]:
                continue
            severity = grade(c)
            if severity and c.platform in PODS and self.patches.mount(c.file.path):
                continue
            if severity and c.purpose == UNSAID and self.shares_nothing(c):
                continue
            if severity and c.engine == "kuberay":
                severity = "warning"
            if severity:
                out.append(self.about(c, c.pos, severity))
        return out

    def shares_nothing(self, c: Container) -> bool:
        """Whether it starts Python programs of this project alone, and none of them has a loader or processes."""
        started = [x for launch in c.launches for x in launch.all() if not x.inner]
        return bool(started) and all(x.kind == PYTHON and self.alone(c.file.path, script_of(x.rest)) for x in started)

    def alone(self, path: str, script: str) -> bool:
        """Whether a program, as the file at `path` names it, is one process that keeps its tensors to itself."""
        program, folder = self.deploy.program, os.path.dirname(path)
        for base in (folder, "", program.project_root(folder) or ""):
            place = os.path.normpath(os.path.join(base, script)).replace(os.sep, "/")
            text = program.text(place) if script.endswith(".py") and not place.startswith("..") else None
            if text is not None:
                heads = [line.split() for line in text.split("\n") if line.startswith(("import ", "from "))]
                own = any(
                    program.find(place, words[1].strip(",").partition(".")[0]) for words in heads if len(words) > 1
                )
                return not own and not any(w in text for w in SHARING)
        return False

    def engines(self) -> list[About]:
        """Containers of `docker run` and of services that keep the default."""
        return self._unset(("compose", *PODS), others=True)

    def services(self) -> list[About]:
        """Services of Compose that keep the default, and set nothing for the build either."""
        return [x for x in self._unset(("compose",)) if not x.container.build_shm]

    def built(self) -> list[About]:
        """Services whose size counts for the build only."""
        out = []
        for x in self._unset(("compose",)):
            if x.container.build_shm:
                x.pos = x.container.build_shm
                out.append(x)
        return out

    def pods(self) -> list[About]:
        return self._unset(PODS)

    def strays(self) -> list[About]:
        """Pods with a volume of memory that the training container does not have at /dev/shm."""
        out = []
        for c in self.deploy.containers():
            pos, kind = c.stray
            if pos and c.shm is None and not c.opaque:
                severity = grade(c)
                if severity and not (kind == "unmounted" and self.patches.mount(c.file.path)):
                    out.append(self.about(c, pos, severity, kind))
        return out

    def disks(self) -> list[About]:
        """Pods whose /dev/shm is no memory."""
        return [
            self.about(c, c.shm.pos, "warning" if grade(c) in ("error", "warning") else "note")
            for c in self.deploy.containers()
            if c.shm is not None and c.shm.kind == "disk" and grade(c)
        ]

    def units(self) -> list[About]:
        """Sizes whose unit is not the one that was meant: bytes, or MiB of ECS."""
        out = []
        for c in self.deploy.containers():
            shm = c.shm
            if shm is None or shm.kind not in ("size", "volume") or not shm.bare or not grade(c):
                continue
            limit = 512 * MIB if c.platform == "ecs" else MIB
            if 0 < shm.size < limit:
                out.append(self.about(c, shm.pos, "error", "mib" if c.platform == "ecs" else "bytes", shm.text))
        return out

    def small(self) -> list[About]:
        """Sizes below 512 MiB, below 1 GiB for several processes, below the demand of the loaders."""
        out = []
        unit = {(x.module.path, x.pos) for x in self.units()}
        for c in self.deploy.containers():
            shm = c.shm
            if shm is None or shm.kind not in ("size", "volume") or not shm.size or not grade(c):
                continue
            if (c.file.path, shm.pos) in unit:
                continue
            level = grade(c)
            if shm.size < LEAST:
                severity = "error" if level == "error" else level
                if level in ("warning", "error") and not several(c) and workers(c) is None and shm.size >= 4 * 64 * MIB:
                    severity = "warning"
                out.append(self.about(c, shm.pos, severity, "small", shm.text))
                continue
            found = self.about(c, shm.pos, level, "demand", shm.text)
            if found.need and found.demanded() > shm.size:
                out.append(found)
            elif shm.size < GIB * 0.9 and several(c):
                found.kind, found.severity = "ranks", "warning" if level in ("error", "warning") else "note"
                out.append(found)
        return out

    def over_memory(self) -> list[About]:
        """Shared memory that may grow past the memory limit of its own container, which pays for it."""
        out = []
        for c in self.deploy.containers():
            shm = c.shm
            if shm is None or c.memory is None or not grade(c) or shm.kind not in ("size", "volume"):
                continue
            limit, at = c.memory
            if shm.size and shm.size >= limit:
                out.append(self.about(c, shm.pos, "warning", "over", shm.text, at))
            elif not shm.size and shm.kind == "volume" and c.platform in PODS and shm.pos:
                out.append(self.about(c, shm.pos, "note", "unbounded", "", at))
        return out

    def ignored(self) -> list[About]:
        """A size beside the host's IPC namespace: Docker ignores it, Podman refuses to start."""
        return [
            self.about(c, c.ipc, "warning" if c.engine == "podman" else "note", c.engine, c.shm.text, c.shm.pos)
            for c in self.deploy.containers()
            if c.ipc and c.shm is not None and c.shm.kind == "size"
        ]

    def host(self) -> list[About]:
        """Containers that share the IPC namespace of the host."""
        return [
            self.about(c, c.ipc, "note", c.platform)
            for c in self.deploy.containers()
            if c.ipc and c.purpose != NEITHER and (c.gpus is not None or c.trains or c.purpose == TRAINS)
            and not (c.shm is not None and c.shm.kind == "size")
        ]  # fmt: skip

    def contained(self) -> list[About]:
        """`apptainer exec --contain` of a training: /dev/shm is a small file system of its own."""
        out = []
        for job in self.deploy.jobs():
            for launch in job.launches:
                for x in launch.all():
                    if x.kind != IMAGE or x.opaque:
                        continue
                    flag = x.has("containall", "contain", "C", "c", "compat")
                    binds = [
                        v.text for n, v, _ in x.given if n in ("B", "bind", "mount", "S", "scratch", "workdir", "W")
                    ]
                    if flag is None or any("/dev" in b for b in binds):
                        continue
                    c = Container(job.file, "apptainer", x.head, job.file.word(flag))
                    c.launches = x.inner
                    c.image = x.rest[0].text if x.rest else ""
                    c.gpus = 0 if x.has("nv", "rocm", "nvccli") else None
                    from .deploy_containers import settle

                    settle(c)
                    severity = grade(c)
                    if severity:
                        about = About(
                            c,
                            job.file.pos(x.at, x.at + len(x.words[0].text)),
                            "warning" if severity == "error" else severity,
                            flag.text,
                        )
                        about.text = flag.text
                        out.append(about)
        return out
