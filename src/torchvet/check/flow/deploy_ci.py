"""Pipelines of GitHub Actions, GitLab, CircleCI and others that run shell text out of YAML.

The container of a GitHub job is started by the runner with `options`; what steps start themselves stands in their text.
"""

from __future__ import annotations

from ..source.traced import Traced
from ..source.yaml_tree import LIST, MAP, SCALAR, traced
from .deploy_compose import environment, word
from .deploy_containers import of_engine, settle
from .deploy_launch import engine
from .deploy_model import Env, Job
from .deploy_services import scripted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..source.yaml_tree import Node
    from .deploy_launch import Launch
    from .deploy_model import Container, File

RUNS = (
    "run",
    "script",
    "before_script",
    "after_script",
    "command",
    "commands",
    "bash",
    "inline",
    "cmds",
    "sh",
    "shell",
)
STARTS = ("docker ", "podman ", "nerdctl ", "srun ", "torchrun ", "sbatch ")


def of_pipeline(file: File, document: Node) -> list[Job]:
    """The jobs of a pipeline; empty for what is none."""
    if document.kind != MAP:
        return []
    jobs = document.get("jobs")
    if jobs is not None and jobs.kind == MAP and (document.get("on") or document.get("true") or github(jobs)):
        return [github_job(file, document, node) for _, node in jobs.entries().values() if node.kind == MAP]
    if any(v.kind == MAP and v.get("script") is not None for _, v in document.entries().values()):
        return gitlab(file, document)
    return texts(file, document)


def github(jobs: Node) -> bool:
    return any(v.kind == MAP and (v.get("runs-on") or v.get("uses")) for _, v in jobs.entries().values())


def github_job(file: File, document: Node, node: Node) -> Job:
    job = Job(file, "github")
    job.ci = True
    env = environment(file, document.get("env")) + environment(file, node.get("env"))
    for step in node.list("steps"):
        if step.kind == MAP and step.get("run") is not None:
            given = (document.get("env"), node.get("env"), step.get("env"))
            inner = scripted(file, "github", step.get("run"), environment(file, step.get("env")), None, given)
            job.env += inner.env
            job.containers += inner.containers
            job.launches += inner.launches
            job.nodes = inner.nodes or job.nodes
    job.env += env
    steps = [x for x in job.launches if x.kind != "engine"]
    for step in node.list("steps"):  # `uses: addnab/docker-run-action`: options, image and shell text beside each other
        told = step.get("with") if step.kind == MAP and "docker-run" in step.string("uses") else None
        if told is not None and told.kind == MAP and told.get("options") is not None:
            ran = scripted(file, "github", told.get("run"), [], None, ()) if told.get("run") is not None else None
            job.containers.append(by_options(file, told, "step", ran.launches if ran is not None else []))
    container = node.get("container")
    if container is not None and container.kind == MAP:
        c = by_options(file, container, "container", steps)
        c.env += environment(file, container.get("env"))
        job.containers.append(c)
    services = node.get("services")
    if services is not None and services.kind == MAP:
        for name, (_, service) in services.entries().items():
            if service.kind == MAP and service.get("options") is not None:
                job.containers.append(by_options(file, service, name, []))
    return job


def by_options(file: File, node: Node, what: str, started: list[Launch]) -> Container:
    """A container whose `docker create` options stand in a string."""
    options, image = node.get("options"), node.get("image")
    key = node.key("options") or node.key("image")
    place = key.start if key is not None else node.start
    given = traced(options, file.text) if options is not None and options.kind == SCALAR else Traced.at("", place)
    named = word(image, file) if image is not None and image.text else None
    c = started_with(file, given, named, started, "github", place)
    c.pos = file.pos(place, options.end if options is not None else place)
    c.what = what
    return c


def started_with(
    file: File, options: Traced, image: Traced | None, started: list[Launch], platform: str, place: int | None = None
) -> Container:
    """The container that `docker run OPTIONS image` starts, and what is run in it."""
    from ..source.shell_values import script

    at = options.offset(0) if place is None else place
    words = [Traced.at("docker", at), Traced.at("run", at)]
    for command in script(options).commands:
        words += command.words
    words.append(image or Traced.at("image", at))
    launch = engine(words, "docker", None, 0)
    assert launch is not None  # `docker run image` always is one
    c = of_engine(file, launch, platform)
    c.pos = file.pos(at, at + len(options.text))
    c.launches = started
    c.purpose = "unsaid"
    settle(c)
    return c


def gitlab(file: File, document: Node) -> list[Job]:
    out = []
    env = environment(file, document.get("variables"))
    for _, node in document.entries().values():
        if node.kind != MAP or not any(node.get(x) for x in ("script", "before_script")):
            continue
        own = env + environment(file, node.get("variables"))
        for part in ("before_script", "script", "after_script"):
            if node.get(part) is not None:
                given = (document.get("variables"), node.get("variables"))
                job = scripted(file, "gitlab", node.get(part), own, None, given)
                job.ci = True
                out.append(job)
    return out


def texts(file: File, document: Node) -> list[Job]:
    """Shell text under the keys by which pipelines name it, where it starts a container or a step."""
    out: list[Job] = []
    for node in document.walk():
        if node.kind != MAP:
            continue
        for name, (_, value) in node.entries().items():
            if name not in RUNS:
                continue
            said = value.text if value.kind == SCALAR else " ".join(x.text for x in value.items)
            if value.kind == LIST and not any(" " in x.text.strip() for x in value.items):
                continue  # one command, word by word
            if any(s in said for s in STARTS):
                env: list[Env] = environment(file, node.get("environment") or node.get("env"))
                job = scripted(file, "pipeline", value, env, None, (node.get("environment") or node.get("env"),))
                job.ci = True
                out.append(job)
        if len(out) > 200:
            break
    return out
