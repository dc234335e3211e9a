"""Containers of Kubernetes objects, whatever operator they belong to: wherever `containers` stands, is a pod.

What operators do on their own stands in `knowledge/deployment.toml` (`mounts_shm`): KubeRay mounts a memory volume at
/dev/shm unless `plasma-directory` is set.
"""

from __future__ import annotations

from ... import knowledge
from ..source.yaml_tree import LIST, MAP, SCALAR
from .deploy_compose import word
from .deploy_containers import LOCKING, settle
from .deploy_launch import launches
from .deploy_model import Container, Env, Job, Shm, amount, count, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..source.yaml_tree import Node
    from .deploy_model import File

SHM = "/dev/shm"
NO_PODS = frozenset((
    "CustomResourceDefinition", "ClusterPolicy", "Policy", "ConfigMap", "Kustomization", "ConstraintTemplate",
    "MutatingWebhookConfiguration", "PodDefault", "PodPreset", "LimitRange", "ClusterRole", "Role",
))  # fmt: skip
REPLICAS = ("replicas", "parallelism", "completions", "numNodes", "minAvailable")


def is_manifest(document: Node) -> bool:
    return bool(document.string("kind")) and (
        document.get("apiVersion") is not None or document.get("spec") is not None
    )


class Manifest:
    """One document. `value_of` gives the text of a scalar with template values put in; `inserted` says whether a
    template inserts text between two offsets."""

    def __init__(
        self, file: File, document: Node, value_of: Callable[[Node], str], inserted: Callable[[int, int], bool]
    ) -> None:
        self.file = file
        self.document = document
        self.value_of = value_of
        self.inserted = inserted
        self.kind = document.string("kind")

    def text(self, node: Node | None, *path: str) -> str:
        found = node.get(*path) if node is not None else None
        return self.value_of(found) if found is not None and found.kind == SCALAR else ""

    def job(self) -> Job:
        job = Job(self.file, "kubernetes")
        if self.kind == "ConfigMap":
            job.platform = "configmap"
            job.name = self.text(self.document, "metadata", "name")
            data = self.document.get("data")
            for name, (key, value) in data.entries().items() if data is not None else ():
                if value.kind == SCALAR and len(value.text) < 200:
                    job.env.append(Env(name, self.value_of(value), self.file.pos(key.start, value.end)))
        if self.kind in NO_PODS:
            return job
        job.nodes = self.nodes()
        claims = {self.text(c, "metadata", "name") for c in self.document.list("spec", "volumeClaimTemplates")}
        for owner, pod in self.pods():
            for c in self.containers(owner, pod, claims):
                c.nodes = job.nodes
                job.containers.append(c)
                job.launches += c.launches
        return job

    def pods(self) -> Iterator[tuple[list[Node], Node]]:
        """(the mappings around it, outermost first; a mapping with containers), each once; templates of Argo too."""
        stack: list[tuple[list[Node], Node]] = [([], self.document)]
        seen: set[int] = set()
        while stack:
            around, node = stack.pop()
            if id(node) in seen or len(around) > 40:
                continue
            seen.add(id(node))
            if node.kind == MAP:
                held = node.get("containers")
                if held is not None and held.kind == LIST and any(x.kind == MAP for x in held.items):
                    yield around, node
                    continue
                single = node.get("container") or node.get("script")
                if single is not None and single.kind == MAP and single.get("image") is not None:
                    yield around, node
                stack += [([*around, node], v) for _, v in reversed(list(node.entries().values()))]
            elif node.kind == LIST:
                stack += [([*around, node], x) for x in reversed(node.items)]

    def nodes(self) -> int | None:
        """Pods that train together, as far as the object says: replicas of all groups, or the number of nodes."""
        spec = self.document.get("spec")
        if spec is None or spec.kind != MAP:
            return None
        for path in (("mlPolicy", "numNodes"), ("trainer", "numNodes"), ("numNodes",)):
            number = count(self.text(spec, *path))
            if number is not None:
                return number
        groups = next((g for name, (_, g) in spec.entries().items() if name.endswith("ReplicaSpecs")), None)
        if groups is not None and groups.kind == MAP:
            numbers = [
                count(self.text(g, "replicas") or "1")
                for name, (_, g) in groups.entries().items()
                if name != "Launcher" and g.kind == MAP
            ]
            return sum(n for n in numbers if n) if numbers and None not in numbers else None
        tasks = spec.get("tasks")
        if tasks is not None and tasks.kind == LIST and "volcano" in self.text(self.document, "apiVersion"):
            numbers = [count(self.text(t, "replicas") or "1") for t in tasks.items]
            return sum(n for n in numbers if n) if None not in numbers else None
        if self.kind == "StatefulSet" or self.text(spec, "completionMode") == "Indexed":
            given = (
                self.text(spec, "replicas") or self.text(spec, "completions") or self.text(spec, "parallelism") or "1"
            )
            return count(given)
        return None  # replicas of other kinds know nothing of each other

    # ------------------------------------------------------------------------------------------------ containers
    def containers(self, around: list[Node], pod: Node, claims: set[str]) -> Iterator[Container]:
        held = pod.get("containers")
        if held is not None and held.kind == LIST:
            items = [x for x in held.items if x.kind == MAP]
        else:
            single = pod.get("container") or pod.get("script")
            items = [single] if single is not None else []
        volumes = {}
        spec = self.document.get("spec") if self.text(self.document, "apiVersion").startswith("argoproj") else None
        for holder in (spec, *around[-2:], pod):  # the steps of a container set stand below the template
            for v in holder.list("volumes") if holder is not None and holder.kind == MAP else ():
                volumes[self.text(v, "name")] = v
        opaque = self.inserted(pod.start, pod.end) or "podSpecPatch" in pod.entries() or not all(map(known, volumes))
        given = pod.get("volumes")
        opaque = opaque or (given is not None and given.kind != LIST and bool(given.text))
        mounted = [(item, self.mounts(item)) for item in items]
        for item, mounts in mounted:
            name = self.text(item, "name") or self.text(pod, "name") or self.text(self.document, "metadata", "name")
            pos = self.file.pos(item.start, self.end_of_line(item.start))
            if held is None:
                pos = self.file.pos(pod.start, self.end_of_line(pod.start))
            c = Container(self.file, "kubernetes", name or self.kind, pos)
            c.image = self.text(item, "image")
            c.opaque = opaque or (not c.image and not item.get("command") and not item.get("args"))
            c.trains = self.kind in knowledge.deployment("training_kinds")
            self.resources(c, item)
            self.started(c, item)
            self.rights(c, pod, item)
            self.shared(c, pod, item, mounts, volumes, claims, [m for i, m in mounted if i is not item])
            self.operator(c, around)
            below = [*around[1:], pod]
            starts = c.gpus is None and any(n.get("Launcher") is m for n, m in zip(around, below))
            c.mounts = [path for path, _, _ in mounts]
            settle(c)
            if starts:  # mpirun starts the ranks in the other pods
                c.trains, c.purpose = False, "neither"
            if any(path.startswith("/dev/infiniband") for path, _, _ in mounts):
                c.rdma = c.rdma or pos
            if self.kind in knowledge.deployment("serving_kinds") and c.purpose != "trains":
                c.purpose = "serves"
            yield c

    def end_of_line(self, at: int) -> int:
        end = self.file.text.find("\n", at)
        return len(self.file.text) if end < 0 else end

    def mounts(self, item: Node) -> list[tuple[str, str, Node]]:
        """(path, name of the volume, its node) of a container."""
        return [
            (self.text(m, "mountPath").rstrip("/"), self.text(m, "name"), m)
            for m in item.list("volumeMounts")
            if m.kind == MAP
        ]

    def resources(self, c: Container, item: Node) -> None:
        gpus, rdma = knowledge.deployment("gpu_resources"), tuple(knowledge.deployment("rdma_resources"))
        for part in ("requests", "limits"):
            limits = item.get("resources", part)
            for name, (key, value) in limits.entries().items() if limits is not None else ():
                text = self.value_of(value) if value.kind == SCALAR else ""
                pos = self.file.pos(key.start, value.end)
                if name.startswith(tuple(gpus)) and text not in ("0", ""):
                    c.gpus, c.gpu_pos = count(text) or 0, pos
                elif name.startswith(rdma) or name.endswith(("/hca", "/ib")):
                    c.rdma = c.rdma or pos
                elif name == "memory" and part == "limits":
                    size = amount(text, decimal=True) if known(text) else None
                    c.memory = (size, pos) if size else None
                elif name == "cpu" and part == "limits":
                    number = cores(text)
                    c.cpus = (number, pos) if number else None

        for claim in item.list("resources", "claims"):
            if "gpu" in self.text(claim, "name").lower() and c.gpus is None:
                c.gpus, c.gpu_pos = 0, self.file.pos(claim.start, claim.end)

    def started(self, c: Container, item: Node) -> None:
        words = [word(x, self.file) for part in ("command", "args") for x in item.list(part) if x.kind == SCALAR]
        source = item.get("source")
        if source is not None and source.kind == SCALAR:  # a script of Argo
            from ..source.yaml_tree import traced
            from .deploy_launch import in_script

            c.launches = in_script(traced(source, self.file.text), None, (), 0)
            return
        c.launches = launches(words, None)
        c.env_from = [n for x in item.list("envFrom") if (n := self.text(x, "configMapRef", "name"))]
        for env in item.list("env"):
            value = env.get("value")
            if value is not None and value.kind == SCALAR:
                key = env.get("name")
                start = key.start if key is not None else value.start
                c.env.append(
                    Env(self.text(env, "name"), self.value_of(value), self.file.pos(start, self.end_of_line(start)))
                )

    def rights(self, c: Container, pod: Node, item: Node) -> None:
        host = pod.get("hostIPC")
        if host is not None and host.text == "true":
            c.ipc = self.file.pos(pod.entries()["hostIPC"][0].start, host.end)
        security = item.get("securityContext")
        if security is not None:
            c.privileged = self.text(security, "privileged") == "true"
            added = {x.text.upper() for x in security.list("capabilities", "add")}
            c.locked = c.privileged or bool(added & set(LOCKING))

    def shared(
        self, c: Container, pod: Node, item: Node, mounts: list[tuple[str, str, Node]], volumes: dict[str, Node],
        claims: set[str], others: list[list[tuple[str, str, Node]]],
    ) -> None:  # fmt: skip
        for path, name, node in mounts:
            if path in (SHM, "/run/shm"):
                c.shm = self.volume(name, volumes, claims, node, c.opaque)
                if c.shm is None:
                    c.stray = (self.file.pos(node.start, self.end_of_line(node.start)), "undefined")
                return
            if path == "/dev":
                c.shm = Shm("unknown", 0)
                return
        if c.ipc:
            c.shm = Shm("host", c.ipc)
            return
        memory = {
            name
            for name, v in volumes.items()
            if self.text(v, "emptyDir", "medium") == "Memory" or "shm" in name.lower()
        }
        for path, name, node in mounts:
            if name in memory and ("shm" in path or "shm" in name.lower()):
                at = node.get("mountPath") or node
                key = node.key("mountPath")
                start = key.start if key is not None else at.start
                c.stray = (self.file.pos(start, at.end), "elsewhere")
                return
        elsewhere = any(path == SHM for m in others for path, _, _ in m)
        for container in pod.list("initContainers"):
            elsewhere = elsewhere or any(path == SHM for path, _, _ in self.mounts(container))
        mounted = {name for m in [mounts, *others] for _, name, _ in m}
        unused = any("shm" in name.lower() and name not in mounted for name in memory)
        if elsewhere or unused:
            c.stray = (c.pos, "unmounted")

    def volume(self, name: str, volumes: dict[str, Node], claims: set[str], mount: Node, opaque: bool) -> Shm | None:
        """What stands at /dev/shm; None when no volume has the name."""
        v = volumes.get(name)
        pos = self.file.pos(mount.start, self.end_of_line(mount.start))
        if v is None:
            return Shm("unknown", pos) if opaque or name in claims or not known(name) or not volumes else None
        empty = v.get("emptyDir")
        if empty is not None:
            pos = self.file.pos(v.entries()["emptyDir"][0].start, self.end_of_line(v.entries()["emptyDir"][0].start))
            medium = empty.get("medium") if empty.kind == MAP else None
            if empty.kind == SCALAR and not known(empty.text):
                return Shm("unknown", pos)
            if medium is None:
                return Shm("unknown" if self.inserted(v.start, v.end + 1) else "disk", pos)
            text = self.text(empty, "medium")
            if not known(text):
                return Shm("unknown", pos)
            if not text.startswith("Memory"):
                return Shm("disk", pos)
            limit = empty.get("sizeLimit")
            if limit is None:
                return Shm("volume", pos)
            said = self.value_of(limit)
            size = amount(said, decimal=True) if known(said) else None
            at = self.file.pos(empty.entries()["sizeLimit"][0].start, limit.end)
            return Shm("volume" if size else "unknown", at, size or 0, said, bare=said.strip("\"'").isdecimal())
        if v.get("hostPath") is not None:
            return Shm("host", pos, text="hostPath")
        return Shm("disk" if v.get("persistentVolumeClaim") else "unknown", pos)

    def operator(self, c: Container, around: list[Node]) -> None:
        """Operators that mount /dev/shm on their own."""
        ends = knowledge.deployment("mounts_shm").get(self.kind)
        if ends is None or c.shm is not None:
            return
        group = next((n for n in reversed(around) if n.kind == MAP and n.get("rayStartParams") is not None), None)
        if ends == "?" or not ends or group is None or group.get("rayStartParams", ends) is None:
            c.shm = Shm("own", c.pos)
        else:
            c.engine = "kuberay"


def cores(text: str) -> float | None:
    """CPUs of `4`, `500m`, `2.5`."""
    text = text.strip("\"'")
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return None
