"""Environment variables that training sees: leftovers of a search for a fault, loopback names on several nodes.

Only settings that reach a training count: exported ones of a script that starts one, those of a training container, of
the last stage of an image. NVIDIA NCCL 2.30, "Environment Variables"; torch/distributed/run.py.
"""

from __future__ import annotations

import re

from ... import knowledge
from ..source.traced import name_of
from .deploy_containers import program
from .deploy_launch import ENGINE, IMAGE, LAUNCHER, MPI, STEP
from .deploy_model import NEITHER, SERVES, TESTS, TRAINS, Container, Env, Job, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .deploy import Deploy
    from .deploy_launch import Launch
    from .deploy_model import File

OFF = ("", "0", "false", "no", "off", "warn", "version", "error", "none", "info_off")
LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){1,3}|::1|0\.0\.0\.0)(?::\d+)?$")
DUMPS_KEPT = ("/dev/shm",)


class Set:
    """A setting: `name`, `value`, `pos`; `nodes` of the training that sees it (0: not known)."""

    __slots__ = ("container", "effect", "file", "module", "name", "nodes", "pos", "severity", "value")

    def __init__(self, file: File, name: str, value: str, pos: int, severity: str, effect: str, nodes: int = 0) -> None:
        self.file = file
        self.module = file.module
        self.name = name
        self.value = value
        self.pos = pos
        self.severity = severity
        self.effect = effect
        self.nodes = nodes
        self.container: Container | None = None


class Seen:
    """Settings that one training sees. `purpose` of what sees them; `nodes`; `options`: (name, value, position) of
    launcher options with an address."""

    __slots__ = ("container", "env", "file", "job", "nodes", "purpose")

    def __init__(
        self, file: File, job: Job, env: list[Env], purpose: str, nodes: int | None, c: Container | None
    ) -> None:
        self.file = file
        self.job = job
        self.env = env
        self.purpose = purpose
        self.nodes = nodes or 0
        self.container = c


def alone(job: Job, launch: Launch) -> int | None:
    """Nodes of one launch: `torchrun --standalone` stays on its machine, whatever others of the script do."""
    return 1 if any(x.kind == LAUNCHER and x.has("standalone") for x in launch.all()) else job.nodes


class Environment:
    def __init__(self, deploy: Deploy) -> None:
        self.deploy = deploy

    def seen(self) -> Iterator[Seen]:
        for job in self.deploy.jobs():
            if job.env:
                purpose = self.purpose(job)
                if purpose:
                    yield Seen(job.file, job, job.env, purpose, job.nodes, None)
            for launch in job.launches:
                for x in launch.all():
                    env = [*given(job, x), *passed(job, x)]
                    if env and x.kind != ENGINE:
                        found = {program(y) for y in x.all() if y.kind not in (ENGINE, IMAGE, STEP, MPI)}
                        if TRAINS in found:
                            yield Seen(job.file, job, env, TRAINS, alone(job, x), None)
            for c in job.containers:
                if c.env or c.env_from:
                    purpose = TRAINS if c.trains and c.purpose not in (SERVES, TESTS, NEITHER) else c.purpose
                    if purpose == "unsaid" and c.gpus is None:
                        continue
                    yield Seen(c.file, job, c.env, purpose, c.nodes or job.nodes, c)
                    for other in self.deploy.jobs() if c.env_from else ():
                        if other.platform == "configmap" and other.name in c.env_from:
                            yield Seen(other.file, job, other.env, purpose, c.nodes or job.nodes, c)

    def purpose(self, job: Job) -> str:
        """What the settings of a whole script or image reach."""
        if job.platform == "dockerfile":
            said = next((i.purpose() for i in self.deploy.images() if i.job is job), "")
            return said if said in (SERVES, TESTS) else TRAINS
        found = set()
        for launch in job.launches:
            for x in launch.all():
                if x.kind not in (ENGINE, IMAGE, STEP, MPI):
                    found.add(program(x))
        if TRAINS in found or any(x.kind == LAUNCHER for launch in job.launches for x in launch.all()):
            return TRAINS
        return next((p for p in (TESTS, SERVES) if p in found), "unsaid" if "unsaid" in found and job.headers else "")

    # -------------------------------------------------------------------------------------------------- leftovers
    def leftovers(self) -> list[Set]:
        """Debug settings that slow a training down or fill its log."""
        table = knowledge.deployment("debug_switches")
        out: dict[tuple[str, int], Set] = {}
        for s in self.seen():
            for e in s.env:
                effect = table.get(e.name)
                value = e.value.strip().strip("\"'")
                if not effect or not known(value) or value.lower() in OFF or e.given:
                    continue
                if effect == "log" and value.upper() not in ("INFO", "TRACE", "ABORT"):
                    continue
                if effect == "checks" and value.upper() != "DETAIL":
                    continue
                if effect in ("transport", "network", "blocking", "allocator", "pointers") and value.lower() not in (
                    "1",
                    "true",
                    "yes",
                    "on",
                ):
                    continue
                severity = "warning" if s.purpose == TRAINS and not s.job.ci else "note"
                if effect == "log" and value.upper() == "INFO" and s.nodes < 2 and s.job.platform != "dockerfile":
                    severity = "note"  # one node's log can be read
                if s.purpose == NEITHER or (effect == "network" and through_fabric([*s.env, *s.job.env])):
                    continue
                if effect in ("network", "transport") and explained(s.file, e):
                    severity = "note"
                key = (s.file.path, e.pos)
                if key not in out or severity == "warning":
                    out[key] = Set(s.file, e.name, value, e.pos, severity, effect, s.nodes)
        return sorted(out.values(), key=lambda x: (x.file.path, x.pos))

    # ------------------------------------------------------------------------------------------------- loopback
    def interfaces(self) -> list[Set]:
        """A loopback or bridge interface for a training on several nodes."""
        names = knowledge.deployment("interface_names")
        out: dict[tuple[str, int], Set] = {}
        for s in self.seen():
            if s.nodes < 2:
                continue
            for e in s.env:
                value = e.value.strip().strip("\"'")
                if e.name not in names or not known(value) or value.startswith("^") or e.given:
                    continue
                parts = [p.strip().lstrip("=") for p in value.split(",") if p.strip()]
                if parts and all(p == "lo" or p.startswith(("docker", "veth", "virbr", "lo:")) for p in parts):
                    out[s.file.path, e.pos] = Set(s.file, e.name, value, e.pos, "error", "", s.nodes)
        return list(out.values())

    def addresses(self) -> list[Set]:
        """A loopback address where the ranks of several nodes meet."""
        names, options = knowledge.deployment("address_names"), knowledge.deployment("address_options")
        out: dict[tuple[str, int], Set] = {}
        for s in self.seen():
            if s.nodes < 2 or on_one_host(s.job):
                continue
            for e in s.env:
                value = e.value.strip().strip("\"'")
                if e.name in names and not e.given and known(value) and LOOPBACK.match(value):
                    out[s.file.path, e.pos] = Set(s.file, e.name, value, e.pos, "error", "", s.nodes)
        said = {(path, pos >> 44) for path, pos in out}
        for job in self.deploy.jobs():
            if on_one_host(job):
                continue
            for launch in job.launches:
                for x in launch.all():
                    if x.kind != LAUNCHER:
                        continue
                    for name, word, at in x.given:
                        text = word.text.strip("\"'")
                        if name not in options or not LOOPBACK.match(text) or not known(text):
                            continue
                        nodes = nodes_at(job, x)
                        if (job.file.path, job.file.pos(word.offset(0)) >> 44) in said:
                            continue  # said where the variable is set
                        place = job.file.text[max(0, word.offset(0) - 40) : word.offset(0)]
                        if nodes > 1 and not re.search(r"\$\{\w+:?[-=][\"']?$", place):
                            pos = job.file.word(at)
                            out[job.file.path, pos] = Set(job.file, f"--{name}", text, pos, "error", "option", nodes)
        return list(out.values())

    # ------------------------------------------------------------------------------------------------------ dumps
    def dumps(self) -> list[Set]:
        """Dumps of the flight recorder that go with the container."""
        names = knowledge.deployment("dump_names")
        out = []
        for s in self.seen():
            c = s.container
            if c is None or c.platform in ("github", "dstack", "ecs"):
                continue
            mounts = [m.rstrip("/") for m in c.mounts if m]
            if any(not known(m) for m in mounts) or (c.platform != "kubernetes" and not c.removed):
                continue
            there = any(e.name in names for e in s.env)
            for e in s.env:
                value = e.value.strip().strip("\"'")
                if e.name == "TORCH_NCCL_DUMP_ON_TIMEOUT" and value in ("1", "true") and not there:
                    e = Env("TORCH_FR_DUMP_TEMP_FILE", "/tmp/nccl_trace_rank_", e.pos)  # FlightRecorder.cpp
                    value = e.value
                if e.name not in names or not value.startswith("/") or not known(value):
                    continue
                if not any(value == m or value.startswith(m + "/") or m == "" for m in mounts if m not in DUMPS_KEPT):
                    found = Set(s.file, e.name, value, e.pos, "note", "", s.nodes)
                    found.container = c
                    out.append(found)
        return out


def through_fabric(env: list[Env]) -> bool:
    """Whether libfabric is set up: NCCL then goes through its plugin (EFA), InfiniBand verbs or not."""
    return any(e.name.startswith(tuple(knowledge.deployment("fabric_prefixes"))) for e in env)


def explained(file: File, e: Env) -> bool:
    """Whether a comment in one of the two lines above names the setting: whoever wrote it there has a reason."""
    row = (e.pos >> 44) - 1
    above = file.text.split("\n", row)[max(0, row - 2) : row]
    return any(line.lstrip().startswith(("#", "//")) and e.name in line for line in above)


def on_one_host(job: Job) -> bool:
    """Does a script start the launchers of several nodes itself, as tests of several nodes do on one host?"""
    if job.platform == "slurm" or job.nodes is None:
        return False
    folders = job.file.path.lower().split("/")
    if any(f in ("test", "tests", "testing") for f in folders[:-1]) or folders[-1].startswith("test_"):
        return True
    lines = [
        x
        for launch in job.launches
        for x in launch.all()
        if x.kind == LAUNCHER and x.value("nnodes", "num-machines") is not None
    ]
    ranks = [w.text for x in lines if (w := x.value("node-rank", "machine-rank")) is not None]
    if any(name_of(r) in job.loops for r in ranks) and not any(x.words[0].text == "ssh" for x in job.launches):
        return True
    return len(lines) > 1 and len(set(ranks)) > 1


def given(job: Job, x: Launch) -> list[Env]:
    """Assignments in front of a command."""
    from .deploy_scripts import env_of

    return [
        env_of(job.file, s)
        for s in x.env
        if not any(e.name == s.name and e.value == s.value.text.strip("\"'") for e in job.env)
    ]


def passed(job: Job, x: Launch) -> list[Env]:
    """`mpirun -x NAME=value`, `srun --export=ALL,NAME=value`, `apptainer --env NAME=value`."""
    out = []
    for name, value, word in x.given:
        if (x.kind == MPI and name in ("x", "genv", "env")) or (x.kind == IMAGE and name == "env"):
            parts = [value.text]
        elif x.kind == STEP and name == "export":
            parts = value.text.split(",")
        else:
            continue
        for part in parts:
            key, sign, text = part.partition("=")
            if sign:
                out.append(Env(key, text, job.file.word(word)))
    return out


def nodes_at(job: Job, x: Launch) -> int:
    """The nodes of one launch line: its own number, else those of the job."""
    from .deploy_scripts import number

    own = number(job, x.value("nnodes", "num-machines", "num-nodes"))
    if own is not None:
        return own
    containing = [c for c in job.containers if any(y is x for launch in c.launches for y in launch.all())]
    if x.value("nnodes", "num-machines") is None and x.head not in ("accelerate", "deepspeed"):
        return 1  # the default of torchrun
    return (containing[0].nodes if containing else job.nodes) or 0
