"""Shell scripts, Slurm scripts, Makefiles and Dockerfiles as jobs."""

from __future__ import annotations

import os
import re

from ... import knowledge
from ..source.shell_values import Values, script
from ..source.traced import CLOSE, OPEN, Traced, name_of
from .deploy_containers import named, of_engine
from .deploy_launch import ENGINE, copied, launches
from .deploy_model import Env, Job, count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..source.shell_values import Command, Setting
    from .deploy_launch import Launch
    from .deploy_model import File

HEADER = re.compile(r"^[ \t]*#(?:SBATCH|SLURM)[ \t]+(.*)$", re.MULTILINE)
DEEP = 4
MOST_SOURCED = 100_000
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".job")
OPEN_DEFAULT = re.compile(r"=[\"']?\$\{[A-Za-z0-9_]+:?[-=]")
DEFAULT = re.compile(r"\$\{[A-Za-z0-9_]+:?[-=][\"']?[^\s}]{0,20}$")


def of_script(
    file: File, text: Traced, platform: str = "shell", values: Values | None = None, depth: int = 0
) -> list[Job]:
    """The job of a script, and those of scripts that it writes."""
    job = Job(file, platform)
    headers(job, text)
    if job.headers:
        job.platform = "slurm"
    seen = copied(values)
    seen.open = seen.open or opener(file)
    read = script(text, seen)
    job.env += [env_of(file, s) for s in read.settings if s.exported]
    job.loops = read.values.loops
    out = [job]
    for command in read.commands:
        found = launches(command.words, read.values, command.env)
        add(job, found)
        inner = here(command)
        if inner is not None and depth < DEEP:
            out += of_script(file, inner, platform, read.values, depth + 1)
    return out


def opener(file: File) -> Callable[[str], str | None]:
    """Opens a script that another reads in: beside it, or from the root of the project."""
    opened: set[str] = {file.path}

    def open_file(path: str) -> str | None:
        rest = path.rpartition(CLOSE)[2].lstrip("/") if OPEN in path else path
        if not rest or os.path.isabs(rest) or OPEN in rest:
            return None
        for folder in (file.path.rpartition("/")[0], ""):
            full = os.path.normpath(os.path.join(folder, rest)).replace(os.sep, "/")
            if full in opened or full.startswith(".."):
                continue
            file.program.consulted.add(full)
            where = os.path.join(file.program.root, full)
            if os.path.isfile(where) and os.path.getsize(where) < MOST_SOURCED:
                opened.add(full)
                return file.program.text(full)
        return None

    return open_file


def add(job: Job, found: Iterable[Launch]) -> None:
    """What commands start, into the job: containers, and all else."""
    for launch in found:
        job.launches.append(launch)
        for x in launch.all():
            if x.kind == ENGINE:
                c = of_engine(job.file, x)
                c.env += [env_of(job.file, s) for s in x.env]
                job.containers.append(c)


def here(command: Command) -> Traced | None:
    """The here-document that a shell runs, or that becomes a script."""
    if command.here is None:
        return None
    words = [w.text for w in command.words]
    head = words[0].rpartition("/")[2]
    if head in ("bash", "sh", "ssh", "sbatch", "srun", "salloc", "sudo"):
        return command.here
    if head in ("cat", "tee"):
        target = command.target or (words[-1] if head == "tee" and len(words) > 1 else "")
        if target.endswith(SCRIPTS):
            return command.here
    return None


def env_of(file: File, s: Setting) -> Env:
    start = s.at
    value = s.value.text
    end = s.value.offset(len(value) - 1) + 1 if value else start
    line = file.text.rfind("\n", 0, start) + 1
    given = bool(DEFAULT.search(file.text[max(line, start - 80) : s.value.offset(0)])) if value else False
    name_at = file.text.rfind(s.name, line, start + 1)
    if not given and name_at >= 0 and not name_at < s.value.offset(0) < name_at + 400:
        # the value stands elsewhere: what is written here decides
        given = bool(OPEN_DEFAULT.match(file.text, name_at + len(s.name)))
    given = given or s.branch
    return Env(s.name, value.strip("\"'"), file.pos(name_at if name_at >= 0 else start, max(end, start)), given)


def headers(job: Job, text: Traced) -> None:
    """`#SBATCH --nodes=4`, `-N 4`, several on a line."""
    short = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "p": "partition", "J": "job-name"}
    for m in HEADER.finditer(text.text):
        line = m[1].partition(" #")[0]
        pos = job.file.pos(text.offset(m.start()), text.offset(m.start()) + len(m[0].rstrip()))
        for found in re.finditer(r"--([\w-]+)(?:[= ][ \t]*([^\s-][^\s]*))?|-([NncGpJ])[ =]?(\S+)", line):
            name, value = (found[1], found[2] or "") if found[1] else (short[found[3]], found[4])
            name = "ntasks-per-node" if name == "tasks-per-node" else name
            job.headers[name] = (value.strip("\"'"), pos)
    nodes = header(job, "nodes")
    if nodes is not None:
        job.nodes = nodes
    given, pos = job.headers.get("export", ("", 0))
    for part in given.split(","):
        name, sign, value = part.partition("=")
        if sign:
            job.env.append(Env(name, value, pos))


def header(job: Job, name: str) -> int | None:
    """A number of a Slurm header; of a range (`1-4`) the smaller one, `gpu:h100:8` is 8."""
    value = job.headers.get(name, ("", 0))[0]
    return count(value.partition("-")[0].rpartition(":")[2])


def number(job: Job, word: Traced | None) -> int | None:
    """The number that a word is; variables that Slurm sets count as its header says."""
    if word is None:
        return None
    text = word.text.strip("\"'")
    name = name_of(text)
    if name:
        option = knowledge.deployment("slurm_values").get(name)
        if option == "ntasks" and not header(job, option):
            per, nodes = header(job, "ntasks-per-node"), header(job, "nodes")
            return per * nodes if per and nodes else None
        if option == "gpus":
            return header(job, "gpus-per-node") or header(job, "gres") or header(job, "gpus-per-task")
        return header(job, option) if option else None
    if OPEN in text:
        return None
    return count(text.partition(":")[0])  # of an elastic range the smallest


def of_makefile(file: File) -> list[Job]:
    from ..source.makefile import Makefile

    made = Makefile(file.text)
    out: list[Job] = []
    for recipe in made.recipes[:500]:
        for job in of_script(file, recipe, "make"):
            if job.containers or job.launches:
                for name, value, at in made.exported:
                    job.env.append(Env(name, value.text.strip(), file.pos(at, at + len(name))))
                out.append(job)
    return out


class Image:
    """A Dockerfile: the settings that reach its last stage, and the shell commands of its stages that mount."""

    def __init__(self, file: File) -> None:
        from ..source.dockerfile import pairs, reaching, stages

        self.file = file
        self.job = Job(file, "dockerfile")
        found = stages(file.text)
        self.base = found[-1].base if found else ""
        self.mounts: list[tuple[int, bool]] = []
        """(position, while the image is built)"""
        self.starts = ""
        """What the container runs."""
        env: dict[str, Env] = {}
        args: dict[str, str] = {}
        for x in reaching(found):
            if x.name == "ENV":
                for name, value in pairs(x.body):
                    text = re.sub(r"\$\{?(\w+)(?::-[^}]*)?\}?", lambda m: args.get(m[1], m[0]), value.text)
                    end = value.offset(max(len(value.text) - 1, 0)) + 1
                    start = file.text.rfind(name, x.at, max(end, x.at))
                    if file.text.count("\n", x.at, max(start, x.at)) == 0:
                        start = x.at
                    env[name] = Env(name, text, file.pos(start, end))
            elif x.name == "ARG":
                name, _, text = x.body.text.strip().partition("=")
                args[name] = text.strip("\"'")
            elif x.name in ("CMD", "ENTRYPOINT"):
                self.starts += " " + x.body.text
                if remounts(x.body.text):
                    self.mounts.append((file.pos(x.at, x.at + len(x.name)), False))
        for stage in found:
            for x in stage.instructions:
                if x.name == "RUN":
                    for part in (x.body, *x.here):
                        if "/dev/shm" in part.text and "mount" in part.text:
                            self.mounts += [
                                (file.pos(at, end), True)
                                for at, end in mounting(part if not part.text.startswith("[") else as_words(part))
                            ]
        self.job.env = list(env.values())
        nodes = NODES.search(self.starts)
        self.job.nodes = int(nodes[1]) if nodes else None

    def purpose(self) -> str:
        """What the image is for, by what it runs and is built on."""
        return named(self.starts) or named(self.base)


NODES = re.compile(r"--(?:nnodes|num[-_]nodes|num[-_]machines)[=\s,\"']+(\d+)")
"""The option of a launcher in the command of an image."""


def as_words(body: Traced) -> Traced:
    return Traced(re.sub(r"[\[\],]", " ", body.text), body.starts, body.places)


MOUNT = re.compile(r"\bmount\b[^\n;&|]*/dev/shm")


def remounts(text: str) -> bool:
    return MOUNT.search(text) is not None and ("size" in text or "tmpfs" in text)


def mounting(text: Traced) -> list[tuple[int, int]]:
    """Start and end of the commands that mount a file system at /dev/shm."""
    out = []
    for command in script(text).commands:
        words = [w.text for w in command.words]
        inner = " ".join(words)
        if (
            MOUNT.search(inner)
            and any(x in inner for x in ("size", "tmpfs", "remount"))
            and words[0] not in ("echo", "printf")
        ):
            bind = "--bind" in inner or "-B" in words
            if not bind and ("mount" in (w.rpartition("/")[2] for w in words[:3]) or " -c" in inner[:10]):
                out.append((command.at, command.end))
    return out


def settled(job: Job) -> None:
    """Numbers of nodes that only the launch lines give."""
    if job.nodes is None:
        found = [n for x in job.launches for y in x.all() if (n := nodes_of(job, y)) is not None]
        job.nodes = max(found) if found else None
    for c in job.containers:
        if c.nodes is None:
            found = [n for x in c.launches for y in x.all() if (n := nodes_of(job, y)) is not None]
            c.nodes = max(found) if found else None


def nodes_of(job: Job, launch: Launch) -> int | None:
    """The nodes that a launch line names."""
    if launch.kind == "launcher" and launch.head != "horovodrun":
        return number(job, launch.value("nnodes", "num-machines", "num-nodes"))
    if launch.kind == "step":
        return number(job, launch.value("nodes", "N"))
    hosts = launch.value("H", "host", "hosts") if launch.kind == "mpi" or launch.head == "horovodrun" else None
    if hosts is not None and OPEN not in hosts.text:
        return len({h.partition(":")[0] for h in hosts.text.split(",") if h})
    return None
