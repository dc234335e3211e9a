"""Services of Docker Compose files: merge keys, `extends`, and the other Compose files of the folder.

https://github.com/compose-spec/compose-spec. `build.shm_size` counts only while the image is built.
"""

from __future__ import annotations

import os
import re

from ... import knowledge
from ..source.traced import Traced
from ..source.yaml_tree import LIST, MAP, SCALAR, traced
from .deploy_containers import LOCKING, RDMA, gpu_count, ipc, mounted, settle, sized
from .deploy_launch import launches
from .deploy_model import SERVES, UNSAID, Container, Env, Job, Shm, amount, count, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..source.yaml_tree import Node
    from .deploy_model import File

    Layer = tuple[File, Node]

DEEP = 6
MOST_TEXT = 50_000
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}$]*))?\}|\$(\w+)")


def is_compose(document: Node) -> bool:
    services = document.get("services")
    if services is None or services.kind != MAP or document.get("jobs") or document.get("apiVersion"):
        return False
    keys = ("image", "build", "extends", "command", "shm_size", "runtime", "gpus", "deploy", "environment", "volumes")
    return any(v.kind == MAP and any(v.get(k) for k in keys) for _, v in services.entries().values())


class Compose:
    """`open_file(path)` gives the file and the first document of another Compose file, or None; `beside` are those of
    the same folder."""

    def __init__(
        self, file: File, document: Node, open_file: Callable[[str], Layer | None], beside: list[Layer]
    ) -> None:
        self.file = file
        self.document = document
        self.open_file = open_file
        self.beside = beside
        self._variables: dict[str, str] | None = None

    def job(self) -> Job:
        job = Job(self.file, "compose")
        services = self.document.get("services")
        for name, (key, service) in (services.entries() if services is not None else {}).items():
            if service.kind == MAP:
                c = self.container(name, key, service)
                job.containers.append(c)
                job.launches += c.launches
        return job

    def layers(self, layer: Layer, depth: int = 0) -> list[Layer]:
        """A service and those that it extends, nearest first."""
        out = [layer]
        extends = layer[1].get("extends")
        if extends is None or depth > DEEP:
            return out
        name = extends.text if extends.kind == SCALAR else extends.string("service")
        path = extends.string("file") if extends.kind == MAP else ""
        other: Layer | None = (layer[0], self.document)
        if path:
            other = self.open_file(path)
        elif layer[0] is not self.file:
            other = next((x for x in self.beside if x[0] is layer[0]), None)
        parent = other[1].get("services", name) if other is not None else None
        if other is None or parent is None or parent.kind != MAP:
            return [*out, (layer[0], layer[1])] if not path else out
        return out + self.layers((other[0], parent), depth + 1)

    def interpolated(self, text: str) -> str:
        """`${SHM:-8gb}` with what the `.env` file of the folder says, else the default."""
        if "$" not in text:
            return text
        values = self.variables()
        return _VARIABLE.sub(lambda m: values.get(m[1] or m[3]) or m[2] or m[0], text)

    def variables(self) -> dict[str, str]:
        if self._variables is None:
            self._variables = self.file_of_variables(self.file, ".env")
        return self._variables

    def file_of_variables(self, file: File, path: str) -> dict[str, str]:
        """`NAME=value` lines of a file beside a Compose file."""
        full = os.path.normpath(os.path.join(file.path.rpartition("/")[0], path)).replace(os.sep, "/")
        if full.startswith("..") or os.path.isabs(full):
            return {}
        file.program.consulted.add(full)
        lines = (file.program.text(full) or "")[:MOST_TEXT].split("\n")
        pairs = [line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#")]
        return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}

    def from_files(self, file: File, node: Node | None) -> list[Env]:
        """What `env_file` sets, placed where the file is named."""
        out: list[Env] = []
        for item in (node.items if node.kind == LIST else [node])[:10] if node is not None else ():
            path = item.text if item.kind == SCALAR else item.string("path")
            for name, value in self.file_of_variables(file, path).items() if path and known(path) else ():
                out.append(Env(name, value, file.pos(item.start, item.end)))
        return out

    def container(self, name: str, key: Node, service: Node) -> Container:
        file = self.file
        c = Container(file, "compose", name, file.pos(key.start, key.end))
        if service.pairs and file.text[service.start : service.start + 1] not in ("{", "&", "*"):
            at = service.pairs[0][0].start
            indent = at - file.text.rfind("\n", 0, at) - 1
            if 0 < indent < 40 and not file.text[at - indent : at].strip():
                c.insert = (at, "{line}\n" + " " * indent)
        layers = self.layers((file, service))
        extends = service.get("extends")
        if extends is not None and len(layers) < 2:
            c.opaque = True  # what it extends is not to be seen
        around = [
            (f, node) for f, doc in self.beside if (node := doc.get("services", name)) is not None and node.kind == MAP
        ]
        self.gpus(c, layers)
        image = first(layers + around, "image")
        c.image = image[1].text if image is not None else ""
        for part in ("entrypoint", "command"):
            found = first(layers + around, part)
            if found is not None:
                c.launches += started(*found)
        self.shared(c, layers, around)
        self.limits(c, layers)
        for f, node in layers:
            c.env += environment(f, node.get("environment"))
            c.env += self.from_files(f, node.get("env_file"))
            for item in node.list("devices"):
                if item.text.startswith(RDMA):
                    c.rdma = c.rdma or f.pos(item.start, item.end)
        c.privileged = any(node.string("privileged") == "true" for _, node in layers)
        caps = {item.text.upper() for _, node in layers for item in node.list("cap_add")}
        c.locked = (
            c.privileged
            or bool(caps & set(LOCKING))
            or any(unlimited(node.get("ulimits", "memlock")) for _, node in layers + around)
        )
        settle(c)
        if c.purpose == UNSAID and not c.launches and answers(layers):
            c.purpose = SERVES  # an image with its own command that answers on a port
        return c

    def gpus(self, c: Container, layers: list[Layer]) -> None:
        for f, node in layers:
            wanted = node.get("gpus")
            if wanted is not None:
                c.gpus = gpu_count(wanted.text) if wanted.kind == SCALAR else 0
                c.gpu_pos = f.pos(wanted.start, wanted.end)
                return
            devices = node.list("deploy", "resources", "reservations", "devices")
            for device in devices:
                if any("gpu" in x.text for x in device.list("capabilities")) or device.string("driver") in (
                    "nvidia",
                    "cdi",
                ):
                    ids = device.list("device_ids")
                    c.gpus = len(ids) if ids else gpu_count(device.string("count") or "all")
                    c.gpu_pos = f.pos(device.start, device.start + 1)
                    return
            for need in node.list("deploy", "resources", "reservations", "generic_resources"):
                if "gpu" in need.string("discrete_resource_spec", "kind").lower():
                    c.gpus = count(need.string("discrete_resource_spec", "value")) or 0
                    c.gpu_pos = f.pos(need.start, need.start + 1)
                    return
            runtime = node.get("runtime")
            if runtime is not None and runtime.text == "nvidia":
                visible = next((e.value for x in layers for e in environment(x[0], x[1].get("environment"))
                                if e.name == "NVIDIA_VISIBLE_DEVICES"), "all")  # fmt: skip
                if visible not in ("void", "none"):
                    c.gpus, c.gpu_pos = gpu_count(visible), f.pos(runtime.start, runtime.end)
                return
            for item in node.list("devices"):
                if item.text.startswith(("nvidia.com/gpu", "/dev/nvidia", "/dev/kfd")):
                    c.gpus, c.gpu_pos = 0, f.pos(item.start, item.end)
                    return

    def shared(self, c: Container, layers: list[Layer], around: list[Layer]) -> None:
        own = first(layers, "shm_size")
        if own is not None:
            f, node = own
            text = self.interpolated(node.text)
            c.shm = sized(text, f.pos(node.start, node.end)) if node.kind == SCALAR else Shm("unknown", c.pos)
        space = first(layers, "ipc")
        if space is not None:
            ipc(c, self.interpolated(space[1].text), space[0].pos(space[1].start, space[1].end))
        for f, node in layers + around:
            for volume in node.list("volumes"):
                if volume.kind == SCALAR:
                    mounted(c, "v", volume.text, f.pos(volume.start, volume.end))
                elif volume.kind == MAP:
                    target = volume.string("target").rstrip("/")
                    c.mounts.append(target)
                    if target == "/dev/shm":
                        size = volume.string("tmpfs", "size")
                        kind = "volume" if volume.string("type") == "tmpfs" else "host"
                        c.shm = Shm(kind, f.pos(volume.start, volume.start + 1), amount(size) or 0, size)
            tmpfs = node.get("tmpfs")
            for mount in (
                tmpfs.items if tmpfs is not None and tmpfs.kind == LIST else [tmpfs] if tmpfs is not None else []
            ):
                mounted(c, "tmpfs", mount.text, f.pos(mount.start, mount.end))
        if c.shm is None and any(node.get("shm_size") or node.get("ipc") for _, node in around):
            c.shm = Shm("unknown", c.pos)
        build = service_build(layers)
        if build is not None:
            c.build_shm = build

    def limits(self, c: Container, layers: list[Layer]) -> None:
        for f, node in layers:
            memory = node.get("deploy", "resources", "limits", "memory") or node.get("mem_limit")
            if memory is not None and c.memory is None:
                said = self.interpolated(memory.text)
                limit = amount(said) if known(said) else None
                c.memory = (limit, f.pos(memory.start, memory.end)) if limit else None
            cpus = node.get("deploy", "resources", "limits", "cpus") or node.get("cpus")
            if cpus is not None and c.cpus is None:
                try:
                    c.cpus = (float(cpus.text), f.pos(cpus.start, cpus.end))
                except ValueError:
                    c.cpus = None


def unlimited(node: Node | None) -> bool:
    """`memlock: -1` or `memlock: {soft: -1, hard: -1}`."""
    return node is not None and "-1" in (node.text, node.string("soft"), node.string("hard"))


def answers(layers: list[Layer]) -> bool:
    """Whether a service publishes ports, and none of them is one at which somebody works in it (TensorBoard, ssh)."""
    texts = [item.text or item.string("target") for _, node in layers for item in node.list("ports")]
    inside = [text.rpartition(":")[2].partition("/")[0] for text in texts]
    return bool(inside) and not any(port in knowledge.deployment("tool_ports") for port in inside)


def first(layers: list[Layer], name: str) -> Layer | None:
    return next(((f, found) for f, node in layers if (found := node.get(name)) is not None), None)


def service_build(layers: list[Layer]) -> int | None:
    for f, node in layers:
        size = node.get("build", "shm_size")
        key = node.get("build")
        if size is not None and key is not None:
            name = key.key("shm_size")
            return f.pos(name.start if name is not None else size.start, size.end)
    return None


def started(file: File, node: Node) -> list:  # type: ignore[type-arg]
    """The launches of a `command` or `entrypoint`: a string, or a list of words."""
    if node.kind == SCALAR:
        from .deploy_launch import in_script

        return in_script(plain(traced(node, file.text)), None, (), 0)
    return launches([word(item, file) for item in node.items if item.kind == SCALAR], None)


def word(node: Node, file: File) -> Traced:
    found = file.text.find(node.text, node.start, node.end) if node.text else -1
    return (
        Traced.at(node.text, found if found >= 0 else node.start) if "\n" not in node.text else traced(node, file.text)
    )


def plain(text: Traced) -> Traced:
    """Compose writes `$$` for a `$`; its own variables stay unknown."""
    return Traced(text.text.replace("\n", " ") if text.text.count("\n") < 2 else text.text, text.starts, text.places)


def environment(file: File, node: Node | None) -> list[Env]:
    """`environment` as a list of `A=b` or as a mapping."""
    out: list[Env] = []
    if node is None:
        return out
    if node.kind == LIST:
        for item in node.items:
            name, sign, text = item.text.partition("=")
            if sign:
                out.append(Env(name, text, file.pos(item.start, item.end), given="${" in text))
    elif node.kind == MAP:
        for name, (key, value) in node.entries().items():
            if value.kind == SCALAR:
                out.append(Env(name, value.text, file.pos(key.start, value.end), given="${" in value.text))
    return out
