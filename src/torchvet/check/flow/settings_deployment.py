"""How much shared memory the deployment files of a project give its containers: `shm_size` of Compose services,
`--shm-size` of `docker run` in shell scripts, Memory volumes at /dev/shm in Kubernetes manifests.

Read only for a loader whose demand is known. Compose and Kubernetes count bytes of 1024 as Docker and Kubernetes do.
"""

from __future__ import annotations

from ..program.model import Module, pack
from .settings import deployment_files
from .settings_yaml import documents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.program import Program
    from .settings_yaml import Node

MOST_FILES = 60
ENGINES = ("docker", "podman", "nerdctl")
UNLIMITED = 1 << 62
"""The shared memory of the host, or a volume without a limit."""
UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
         "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}  # fmt: skip


class Shm:
    """Shared memory of `size` bytes that `module` (a file that is no Python) sets at `pos`."""

    __slots__ = ("module", "pos", "size")

    def __init__(self, module: Module, pos: int, size: int) -> None:
        self.module = module
        self.pos = pos
        self.size = size


class Deployment:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._projects: dict[str, list[Shm]] = {}

    def of(self, path: str) -> list[Shm]:
        """The settings of the project that a Python file belongs to."""
        files = deployment_files(self.program, path)[:MOST_FILES]
        key = files[0] if files else ""
        if key not in self._projects:
            self._projects[key] = [x for p in files for x in self.read(p)]
        return self._projects[key]

    def read(self, path: str) -> list[Shm]:
        self.program.consulted.add(path)
        text = self.program.text(path) or ""
        if "shm" not in text:
            return []
        module = Module(path, (), frozenset())
        module.program = self.program
        if path.endswith((".sh", ".bash")):
            found = list(in_shell(text))
        else:
            found = [x for d in documents(text) for x in (*in_compose(d), *in_manifest(d))]
        return [Shm(module, pos, size) for pos, size in found]


def in_shell(text: str) -> Iterator[tuple[int, int]]:
    """(pos, bytes) of `--shm-size=8g` or `--shm-size 8g` of a `docker run`, its lines joined."""
    running = False
    for number, line in enumerate(text.split("\n"), 1):
        code = line.strip()
        if code.startswith("#"):
            continue
        words = code.rstrip("\\").split()
        if not running:
            running = any(w in words for w in ENGINES) and ("run" in words or "create" in words)
        if running:
            if "--ipc=host" in words:
                yield pack(number, 0, number, len(line)), UNLIMITED
            for i, word in enumerate(words):
                value = word.partition("=")[2] if word.startswith("--shm-size=") else ""
                if word == "--shm-size" and i + 1 < len(words):
                    value = words[i + 1]
                size = amount(value.strip("\"'")) if value else None
                if size is not None:
                    at = len(line[: line.find(word)].encode())
                    yield pack(number, at, number, at + len(word)), size
        running = running and code.endswith("\\")


def in_compose(document: Node) -> Iterator[tuple[int, int]]:
    for service in values(entry(document, "services")):
        node = entry(service, "shm_size")
        size = amount(node[2]) if node is not None and node[0] == "const" else None
        if node is not None and size is not None:
            yield node[1], size
        elif plain(entry(service, "ipc")) == "host":
            yield service[1], UNLIMITED


def in_manifest(node: Node) -> Iterator[tuple[int, int]]:
    """Memory volumes with a limit that a container of the same pod mounts at /dev/shm."""
    if node[0] == "list":
        for x in node[2]:
            yield from in_manifest(x)
    if node[0] != "map":
        return
    containers, volumes = entry(node, "containers"), entry(node, "volumes")
    if containers is not None and volumes is not None and volumes[0] == "list":
        mounted = set()
        for container in values(containers):
            for mount in values(entry(container, "volumeMounts")):
                if plain(entry(mount, "mountPath")) == "/dev/shm":
                    mounted.add(plain(entry(mount, "name")))
        for volume in volumes[2]:
            empty = entry(volume, "emptyDir")
            if plain(entry(empty, "medium")) != "Memory" or plain(entry(volume, "name")) not in mounted:
                continue
            limit = entry(empty, "sizeLimit")
            size = UNLIMITED if limit is None else amount(plain(limit))
            if size is not None:
                yield (limit or volume)[1], size
    else:
        for x in node[2].values():
            yield from in_manifest(x)


def entry(node: Node | None, key: str) -> Node | None:
    return node[2].get(key) if node is not None and node[0] == "map" else None


def values(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return list(node[2].values()) if node[0] == "map" else list(node[2]) if node[0] == "list" else []


def plain(node: Node | None) -> object:
    return node[2] if node is not None and node[0] == "const" else None


def amount(value: object) -> int | None:
    """Bytes of `8g`, `512mb`, `1Gi`, or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    digits = value.rstrip("abgikmABGIKM ")
    unit = UNITS.get(value[len(digits) :].strip().lower())
    try:
        return int(float(digits) * unit) if unit is not None else None
    except ValueError:
        return None
