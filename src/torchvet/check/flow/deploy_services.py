"""Task and job definitions of services: ECS, AWS Batch, Azure ML, dstack, Determined, SkyPilot, dev containers.

Units and defaults are those of environment they run in: ECS and Batch count MiB (default 64), Azure ML has 2 GiB,
Determined 4 GiB, SkyPilot mounts memory itself.
"""

from __future__ import annotations

from ..source.traced import Traced, joined
from ..source.yaml_tree import LIST, MAP, SCALAR, traced
from .deploy_compose import environment, word
from .deploy_containers import of_engine, settle, sized
from .deploy_launch import engine, in_script, launches
from .deploy_model import Container, Env, Job, Shm, count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..source.shell_values import Values
    from ..source.yaml_tree import Node
    from .deploy_model import File

MIB = 1 << 20
AZURE = ("command", "sweep", "pipeline", "spark", "automl")
TASKS = ("task", "service", "dev-environment")


def either(node: Node | None, *path: str) -> Node | None:
    """The value at a path whose keys may begin with a capital (CloudFormation)."""
    for name in path:
        if node is None or node.kind != MAP:
            return None
        node = node.get(name) or node.get(name[0].upper() + name[1:])
    return node


def string(node: Node | None, *path: str) -> str:
    found = either(node, *path)
    return found.text if found is not None and found.kind == SCALAR else ""


def items(node: Node | None, *path: str) -> list[Node]:
    found = either(node, *path)
    return found.items if found is not None and found.kind == LIST else []


def of_document(file: File, document: Node) -> list[Job]:
    """The jobs that a document of one of these services describes; none for any other document."""
    if document.kind != MAP:
        return []
    if document.get("runArgs") is not None or file.path.endswith("devcontainer.json"):
        return [dev_container(file, document)]
    out = [job for job in (amazon(file, document),) if job.containers]
    if (document.get("$schema") is not None and "azureml" in document.string("$schema")) or (
        document.string("type") in AZURE
        and (document.get("compute") or document.get("jobs") or document.get("environment"))
    ):
        out.append(azure(file, document))
    elif document.string("type") in TASKS and (document.get("commands") or document.get("ide")) is not None:
        out.append(dstack(file, document))
    elif document.get("searcher") is not None and document.get("entrypoint") is not None:
        out.append(determined(file, document))
    elif document.get("resources") is not None and document.get("run") is not None and document.get("jobs") is None:
        out.append(skypilot(file, document))
    return out


# ------------------------------------------------------------------------------------------------------------- Amazon
def amazon(file: File, document: Node) -> Job:
    job = Job(file, "ecs")
    for node in document.walk():
        if node.kind != MAP:
            continue
        if any("FARGATE" in x.text for x in items(node, "requiresCompatibilities")):
            continue
        for item in items(node, "containerDefinitions"):
            if item.kind == MAP:
                job.containers.append(task(file, item, string(item, "name"), string(node, "ipcMode")))
        properties = either(node, "containerProperties")
        if properties is not None and properties.kind == MAP:
            job.containers.append(task(file, properties, string(node, "jobDefinitionName") or "container", ""))
        pod = either(node, "podProperties")
        if pod is not None and items(pod, "containers"):
            from .deploy_pods import Manifest

            manifest = Manifest(file, document, lambda n: n.text, lambda start, end: False)
            job.containers += manifest.containers([], pod, set())
        for group in items(node, "nodeRangeProperties"):
            inner = either(group, "container")
            if inner is not None and inner.kind == MAP:
                job.containers.append(task(file, inner, "container", ""))
    for c in job.containers:
        job.launches += c.launches
    return job


def task(file: File, item: Node, name: str, mode: str) -> Container:
    start = either(item, "name") or either(item, "image") or item
    key = next((k for k, v in item.pairs if v is start), None)
    c = Container(file, "ecs", name, file.pos(key.start if key else start.start, start.end))
    c.image = string(item, "image")
    for need in items(item, "resourceRequirements"):
        value = string(need, "value")
        if string(need, "type").upper() == "GPU" and value != "0":
            c.gpus, c.gpu_pos = count(value) or 0, file.pos(need.start, need.end)
        elif string(need, "type").upper() == "MEMORY" and count(value):
            c.memory = ((count(value) or 0) * MIB, file.pos(need.start, need.end))
        elif string(need, "type").upper() == "VCPU" and count(value):
            c.cpus = (float(count(value) or 0), file.pos(need.start, need.end))
    memory = either(item, "memory")
    if memory is not None and count(memory.text):
        c.memory = ((count(memory.text) or 0) * MIB, file.pos(memory.start, memory.end))
    linux = either(item, "linuxParameters")
    size = either(linux, "sharedMemorySize")
    if size is not None and linux is not None:
        key = linux.key("sharedMemorySize") or linux.key("SharedMemorySize")
        pos = file.pos(key.start if key is not None else size.start, size.end)
        number = count(size.text)
        c.shm = Shm("unknown", pos) if number is None else Shm("size", pos, number * MIB, size.text, bare=number < 512)
    for tmpfs in items(linux, "tmpfs"):
        if string(tmpfs, "containerPath") == "/dev/shm":
            c.shm = Shm("volume", file.pos(tmpfs.start, tmpfs.start + 1), (count(string(tmpfs, "size")) or 0) * MIB)
    if mode == "host":
        c.shm = c.shm or Shm("host", c.pos)
    elif mode == "task":
        c.shm = c.shm or Shm("unknown", c.pos)
    volumes = {
        string(m, "sourceVolume") for m in items(item, "mountPoints") if string(m, "containerPath") == "/dev/shm"
    }
    if volumes:
        c.shm = c.shm or Shm("host", c.pos)
    c.opaque = linux is not None and linux.kind != MAP
    words = [word(x, file) for part in ("entryPoint", "command") for x in items(item, part) if x.kind == SCALAR]
    c.launches = launches(words, None)
    c.locked = string(item, "privileged") == "true" or any(
        string(x, "name") == "memlock" for x in items(item, "ulimits")
    )
    for env in items(item, "environment"):
        given = either(env, "value")
        if given is not None and given.kind == SCALAR:
            c.env.append(Env(string(env, "name"), given.text, file.pos(env.start, env.end)))
    settle(c)
    return c


# ------------------------------------------------------------------------------------------------------------ others
def azure(file: File, document: Node) -> Job:
    """Azure ML jobs; the default of 2 GiB is no fault."""
    job = Job(file, "azureml")
    for node in document.walk():
        if node.kind != MAP or (node.get("command") is None and node.get("trial") is None and node is not document):
            continue
        resources = node.get("resources")
        size = resources.get("shm_size") if resources is not None else None
        key = node.key("command") or node.key("resources")
        pos = file.pos(key.start, key.end) if key is not None else file.pos(node.start, node.start + 1)
        c = Container(file, "azureml", document.string("name") or "job", pos)
        command = node.get("command")
        if command is not None and command.kind == SCALAR:
            c.launches = in_script(traced(command, file.text), None, (), 0)
        distribution = node.get("distribution")
        if distribution is not None:
            c.gpus = count(distribution.string("process_count_per_instance")) or 0
            c.trains = True
        c.shm = Shm("own", pos)
        if size is not None and resources is not None:
            name = resources.key("shm_size")
            c.shm = sized(size.text, file.pos(name.start if name is not None else size.start, size.end))
            c.trains = True
        args = resources.get("docker_args") if resources is not None else None
        if args is not None and "shm-size" in args.text:
            c.shm = Shm("unknown", pos)
        c.nodes = count(resources.string("instance_count")) if resources is not None else None
        c.env = environment(file, node.get("environment_variables"))
        settle(c)
        job.containers.append(c)
        job.launches += c.launches
        job.nodes = c.nodes or job.nodes
    return job


def script_parts(file: File, node: Node | None) -> Iterator[Traced]:
    """The shell text of a scalar, or of a list of them."""
    if node is None:
        return
    if node.kind == SCALAR:
        if node.text.strip():
            yield traced(node, file.text)
    elif node.kind == LIST:
        parts: list[Traced] = []
        for item in node.items:
            if item.kind == SCALAR and item.text:
                parts += [traced(item, file.text), Traced.at("\n", item.end)]
            elif item.kind == LIST:
                for inner in item.items:
                    if inner.kind == SCALAR and inner.text:
                        parts += [traced(inner, file.text), Traced.at("\n", inner.end)]
        if parts:
            yield joined(parts)


def variables(file: File, nodes: Iterable[Node | None]) -> Values:
    """What mappings of variables, the outermost first, give to the shell text below them."""
    from ..source.shell_values import Values, script

    out = Values()
    for node in nodes:
        for name, (_, value) in node.entries().items() if node is not None and node.kind == MAP else ():
            if (
                value.kind == SCALAR
                and name.isidentifier()
                and not any(x in value.text for x in ('"', "\\", "`", "{{"))
            ):
                text = traced(value, file.text)
                start, end = text.offset(0), text.offset(len(text.text))
                script(joined([Traced.at(f'{name}="', start), text, Traced.at('"', end)]), out)
    return out


def scripted(
    file: File, platform: str, node: Node | None, env: list[Env], nodes: int | None, given: Iterable[Node | None] = ()
) -> Job:
    """A job whose commands stand in a document; they see the variables of the mappings `given`."""
    from .deploy_scripts import of_script

    job = Job(file, platform)
    values = variables(file, given)
    for part in script_parts(file, node):
        for inner in of_script(file, part, platform, values):
            job.env += inner.env
            job.containers += inner.containers
            job.launches += inner.launches
            job.nodes = inner.nodes or job.nodes
    job.env += env
    job.nodes = nodes if nodes is not None else job.nodes
    return job


def dstack(file: File, document: Node) -> Job:
    resources = document.get("resources")
    job = scripted(
        file,
        "dstack",
        document.get("commands"),
        environment(file, document.get("env")),
        count(document.string("nodes") or "1"),
        (document.get("env"),),
    )
    key = document.key("resources") or document.key("type")
    c = Container(
        file, "dstack", document.string("name") or document.string("type"), file.pos(key.start, key.end) if key else 0
    )
    c.launches = list(job.launches)
    c.image = document.string("image")
    if resources is not None and resources.kind == MAP:
        gpu = resources.get("gpu")
        if gpu is not None:
            number = gpu.string("count") if gpu.kind == MAP else gpu.text.rpartition(":")[2]
            c.gpus, c.gpu_pos = count(number) or 0, file.pos(gpu.start, gpu.end)
        size = resources.get("shm_size")
        if size is not None:
            name = resources.key("shm_size")
            c.shm = sized(size.text, file.pos(name.start if name is not None else size.start, size.end))
    if document.string("privileged") == "true":
        c.privileged = c.locked = True
    c.nodes = job.nodes
    settle(c)
    if document.string("type") == "service" and c.purpose != "trains":
        c.purpose = "serves"
    job.containers.append(c)
    return job


def determined(file: File, document: Node) -> Job:
    job = Job(file, "determined")
    c = Container(
        file, "determined", document.string("name") or "experiment", file.pos(document.start, document.start + 1)
    )
    c.trains = True
    c.gpus = count(document.string("resources", "slots_per_trial")) or 0
    c.shm = Shm("own", c.pos)
    size = document.get("resources", "shm_size")
    resources = document.get("resources")
    if size is not None and resources is not None:
        name = resources.key("shm_size")
        c.shm = sized(size.text, file.pos(name.start if name is not None else size.start, size.end))
    entry = document.get("entrypoint")
    if entry is not None and entry.kind == SCALAR:
        c.launches = in_script(traced(entry, file.text), None, (), 0)
    elif entry is not None:
        c.launches = launches([word(x, file) for x in entry.items if x.kind == SCALAR], None)
    c.env = environment(file, document.get("environment", "environment_variables"))
    settle(c)
    c.purpose = "trains"
    job.containers.append(c)
    job.launches += c.launches
    return job


def skypilot(file: File, document: Node) -> Job:
    """The machine is the cloud's or has a memory volume; what the script starts counts."""
    return scripted(
        file,
        "skypilot",
        document.get("run"),
        environment(file, document.get("envs")),
        count(document.string("num_nodes") or "1"),
        (document.get("envs"), document.get("env")),
    )


def dev_container(file: File, document: Node) -> Job:
    """`runArgs` are options of `docker run`; the editor keeps the container alive."""
    job = Job(file, "devcontainer")
    args = document.get("runArgs")
    key = document.key("runArgs") or document.key("image") or document.key("build")
    if document.get("dockerComposeFile") is not None or key is None:
        return job
    place = key.start
    image = document.get("image")
    words = [Traced.at("docker", place), Traced.at("run", place)]
    if args is not None and args.kind == LIST:
        words += [word(x, file) for x in args.items if x.kind == SCALAR]
    words.append(word(image, file) if image is not None and image.text else Traced.at("image", place))
    launch = engine(words, "docker", None, 0)
    if launch is None:
        return job
    c = of_engine(file, launch, "devcontainer")
    end = args.end if args is not None else key.end
    c.pos = file.pos(place, end)
    c.what = document.string("name") or "dev container"
    need = document.get("hostRequirements", "gpu")
    if need is not None and need.text not in ("false", "optional") and c.gpus is None:
        c.gpus, c.gpu_pos = 0, file.pos(need.start, need.end)
    for mount in document.list("mounts"):
        target = mount.string("target") if mount.kind == MAP else mount.text
        if "/dev/shm" in target:
            c.shm = Shm("host", file.pos(mount.start, mount.end))
    c.env += environment(file, document.get("containerEnv"))
    settle(c)
    job.containers.append(c)
    return job
