"""How many processes are started, on how many CPUs, with which rights: launchers inside steps, quotas against workers,
locked memory for RDMA, file systems mounted while an image is built."""

from __future__ import annotations

from ... import knowledge
from ..source.traced import OPEN
from .deploy_launch import LAUNCHER, MPI, OTHER, PYTHON, STEP, workers_of
from .deploy_model import NEITHER, SERVES, TESTS, TRAINS, Job
from .deploy_say import About
from .deploy_scripts import header, number
from .deploy_shm import grade, ranks, workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .deploy import Deploy
    from .deploy_launch import Launch
    from .deploy_model import File

OWN_LAUNCHERS = ("horovodrun", "deepspeed")


class Step:
    """A launch line: `tasks` that a step starts on a node, `each` processes that one task starts (0: not known)."""

    __slots__ = ("cpus", "each", "file", "head", "inner", "module", "other", "pos", "tasks", "workers")

    def __init__(self, file: File, pos: int, head: str, inner: str, tasks: int, each: int) -> None:
        self.file = file
        self.module = file.module
        self.pos = pos
        self.head = head
        self.inner = inner
        self.tasks = tasks
        self.each = each
        self.cpus = 0.0
        self.workers = 0
        self.other = 0

    def shown(self) -> str:
        """The CPUs as written."""
        return f"{self.cpus:g}"

    def fitting(self) -> int:
        """Workers of each process for which the CPUs suffice."""
        return max(1, int(self.cpus / max(self.tasks, 1)) - 1)


class Mounted:
    """A file system mounted at /dev/shm where that has no lasting effect."""

    __slots__ = ("building", "module", "pos")

    def __init__(self, file: File, pos: int, building: bool) -> None:
        self.module = file.module
        self.pos = pos
        self.building = building


class GivenWorkers:
    """Loader workers that a launch line gives to each of several processes."""

    __slots__ = ("head", "module", "number", "pos")

    def __init__(self, file: File, pos: int, number: int, head: str) -> None:
        self.module = file.module
        self.pos = pos
        self.number = number
        self.head = head


class Steps:
    def __init__(self, deploy: Deploy) -> None:
        self.deploy = deploy

    def chains(self) -> Iterator[tuple[Job, Launch, Launch]]:
        """(job, step, launch inside it) for every step of Slurm or MPI."""
        for job in self.deploy.jobs():
            for launch in job.launches:
                for x in launch.all():
                    if x.kind in (STEP, MPI):
                        for y in x.all():
                            if y is not x:
                                yield job, x, y

    # ------------------------------------------------------------------------------------------------- launchers
    def multiplied(self) -> list[Step]:
        """Several tasks on a node of which each starts a launcher for all its GPUs."""
        out: dict[tuple[str, int], Step] = {}
        table = knowledge.deployment("launchers")
        for job, x, y in self.chains():
            if y.kind != LAUNCHER or y.head in OWN_LAUNCHERS or job.opaque:
                continue
            tasks = tasks_per_node(job, x)
            if tasks is None or tasks < 2:
                continue
            value = y.value(table[y.head], "n")
            each = number(job, value) if value is not None else None
            if value is None and y.head != "accelerate" and not y.has("standalone"):
                each = 1  # torchrun starts one process
            if each == 1 or (each is None and value is not None and OPEN in value.text):
                continue
            pos = job.file.pos(x.at, x.at + len(x.words[0].text))
            step = Step(job.file, pos, x.head, y.head, tasks, each or 0)
            step.other = job.headers.get("ntasks-per-node", job.headers.get("ntasks", ("", 0)))[1]
            out.setdefault((job.file.path, pos), step)
        return list(out.values())

    # ---------------------------------------------------------------------------------------------------- threads
    def threads(self) -> list[Step]:
        """Several processes on a node, started without a launcher that limits their threads."""
        out: dict[tuple[str, int], Step] = {}
        for job, x, y in self.chains():
            if y.kind not in (PYTHON,) and not (y.kind == OTHER and y.head.endswith(".py")):
                continue
            from .deploy_containers import program

            if program(y) != TRAINS and not any("RANK" in s.name for s in y.env):
                continue
            tasks = tasks_per_node(job, x)
            if tasks is None or tasks < 2 or any(e.name == "OMP_NUM_THREADS" for e in job.env):
                continue
            seen = " ".join(w.text for w in x.words)
            if "OMP_NUM_THREADS" in seen or any(s.name == "OMP_NUM_THREADS" for z in x.all() for s in z.env):
                continue
            if "cpus-per-task" in job.headers or x.value("cpus-per-task", "c"):
                continue  # torch counts the CPUs that it may use, and Slurm binds each task to its own
            pos = job.file.pos(x.at, x.at + len(x.words[0].text))
            out.setdefault((job.file.path, pos), Step(job.file, pos, x.head, y.head, tasks, 1))
        return list(out.values())

    # ------------------------------------------------------------------------------------------------------- CPUs
    def crowded(self) -> list[Step]:
        """Fewer CPUs than processes and loader workers."""
        out: dict[tuple[str, int], Step] = {}
        for c in self.deploy.containers():
            if c.cpus is None or c.purpose in (NEITHER, SERVES, TESTS):
                continue
            number_of = ranks(c) or (c.gpus or 0)
            wanted = workers(c)
            if wanted is None and (c.purpose == TRAINS or c.trains):
                wanted = self.deploy.workers(c.file.path)
            if number_of and wanted and c.cpus[0] < number_of * wanted:
                step = Step(c.file, c.cpus[1], c.what, "", number_of, 1)
                step.cpus, step.workers = c.cpus[0], wanted
                out[c.file.path, step.pos] = step
        for job, x, y in self.chains():
            cpus = number(job, x.value("cpus-per-task", "c"))
            cpus = cpus if cpus is not None else header(job, "cpus-per-task")
            found = workers_of(y)
            if cpus is None or y.kind not in (LAUNCHER, PYTHON):
                continue
            wanted = found[0] if found else None
            from .deploy_containers import program

            if wanted is None and program(y) == TRAINS:
                script = next((w.text for w in y.rest if w.text.endswith(".py")), "")
                wanted = self.deploy.workers(job.file.path, script)
            processes = 1
            if y.kind == LAUNCHER:
                value = y.value(knowledge.deployment("launchers")[y.head])
                processes = number(job, value) or header(job, "gpus-per-node") or 1
                if y.head == "accelerate":
                    nodes = number(job, y.value("num-machines")) or job.nodes or 1
                    processes = max(1, processes // nodes)
            if wanted and cpus < processes * wanted:
                at = job.headers.get("cpus-per-task", ("", 0))[1]
                pos = (
                    at
                    if at and x.value("cpus-per-task", "c") is None
                    else job.file.pos(x.at, x.at + len(x.words[0].text))
                )
                step = Step(job.file, pos, x.head, y.head, processes, 1)
                step.cpus, step.workers, step.other = cpus, wanted, job.file.pos(y.at, y.at + len(y.words[0].text))
                out.setdefault((job.file.path, pos), step)
        for job in self.deploy.jobs():
            cpus = header(job, "cpus-per-task")
            for y in job.launches if cpus is not None else ():
                found = workers_of(y)
                each = number(job, y.value(knowledge.deployment("launchers").get(y.head, "")))
                tasks = header(job, "ntasks-per-node") or 1
                if y.kind == LAUNCHER and found and each and cpus is not None and cpus * tasks < each * found[0]:
                    pos = job.headers["cpus-per-task"][1]
                    step = Step(job.file, pos, y.head, y.head, each, 1)
                    step.cpus, step.workers = cpus * tasks, found[0]
                    out.setdefault((job.file.path, pos), step)
        return list(out.values())

    def over_limit(self, limit: int) -> list[GivenWorkers]:
        """Launchers of a training that give each process more workers than one rank should start."""
        out: dict[tuple[str, int], GivenWorkers] = {}
        for job in self.deploy.jobs():
            launches = [*job.launches, *(x for c in job.containers for x in c.launches)]
            for y in (y for x in launches for y in x.all() if y.kind == LAUNCHER):
                found = workers_of(y)
                value = y.value(knowledge.deployment("launchers")[y.head], "n")
                alone = value is None or value.text in ("0", "1")  # torchrun starts one process
                if found is None or found[0] <= limit or alone:
                    continue
                from .deploy_containers import program

                if program(y) == TRAINS:
                    pos = job.file.word(found[1])
                    out.setdefault((job.file.path, pos), GivenWorkers(job.file, pos, found[0], y.head))
        return list(out.values())

    # ------------------------------------------------------------------------------------------------ rights, mounts
    def unlocked(self) -> list[About]:
        """RDMA in a container that may not lock memory."""
        return [
            About(c, c.rdma if c.platform != "docker" else c.pos, "warning", c.platform, other=c.rdma)
            for c in self.deploy.containers()
            if c.rdma and not c.locked and not c.opaque and c.gpus is not None and grade(c) and c.purpose != NEITHER
        ]

    def remounts(self) -> list[Mounted]:
        """`mount` at /dev/shm while an image is built, or by a container that may not."""
        out = []
        privileged = any(c.privileged or c.locked for c in self.deploy.containers())
        starts = " ".join(i.starts for i in self.deploy.images())
        for image in self.deploy.images():
            out += [Mounted(image.file, pos, b) for pos, b in image.mounts if b or not privileged]
        for c in self.deploy.containers():
            for launch in c.launches if not c.locked else ():
                for x in launch.all():
                    words = " ".join(w.text for w in x.words)
                    if x.head == "mount" and "/dev/shm" in words and ("remount" in words or "tmpfs" in words):
                        out.append(Mounted(c.file, c.file.pos(x.at, x.at + 1), False))
        for path in self.deploy.paths():
            name = path.rpartition("/")[2]
            entry = name.startswith(("entrypoint", "docker-entrypoint", "docker_entrypoint"))
            if not path.endswith((".sh", ".bash")) or privileged or not (entry or name in starts):
                continue
            file = self.deploy.file(path)
            if "/dev/shm" in file.text and "mount" in file.text:
                from ..source.traced import Traced
                from .deploy_scripts import mounting

                out += [Mounted(file, file.pos(a, b), False) for a, b in mounting(Traced.at(file.text, 0))]
        return out


def tasks_per_node(job: Job, step: Launch) -> int | None:
    """The tasks that a step starts on one node; None where that is not known."""
    if step.kind == MPI:
        per = number(job, step.value("N", "npernode", "ppn", "ntasks-per-node"))
        if per is not None:
            return per
        by = step.value("map-by")
        if by is not None and by.text.startswith("ppr:") and ":node" in by.text:
            text = by.text.split(":")[1]
            return int(text) if text.isdecimal() and len(text) < 5 else None
        ranks_of, hosts = number(job, step.value("np", "n")), step.value("H", "host")
        if ranks_of is not None and hosts is not None and OPEN not in hosts.text:
            names = [h for h in hosts.text.split(",") if h]
            return -(-ranks_of // len(names)) if names else None
        return None
    own = step.value("ntasks-per-node", "tasks-per-node")
    total = step.value("ntasks", "n")
    nodes_word = step.value("nodes", "N")
    nodes = number(job, nodes_word) if nodes_word is not None else header(job, "nodes")
    if own is not None:
        return number(job, own)
    if total is not None:
        count = number(job, total)
        if count is None or (nodes is None and nodes_word is not None):
            return None
        return -(-count // nodes) if nodes else (1 if count == 1 else None)
    per = header(job, "ntasks-per-node")
    if per is not None:
        return per
    whole = header(job, "ntasks")
    if whole is not None and nodes and nodes_word is None:
        return -(-whole // nodes)
    return None
