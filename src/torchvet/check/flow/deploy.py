"""Deployment files: which jobs and containers they describe (`deploy_model`), and what rules ask about them.

Each admitted file is read once, by its name and then by what it holds. A file that is not understood is noted under
`given_up`; nothing is said of it.
"""

from __future__ import annotations

import os

from ..source.traced import CLOSE, OPEN
from ..source.walk import DEPLOYMENT, DOCKERFILES
from .deploy_model import Container, File, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Options
    from ..program.program import Program
    from ..source.yaml_tree import Node, Template
    from .deploy_env import Environment
    from .deploy_scripts import Image
    from .deploy_shm import SharedMemory
    from .deploy_steps import Steps
    from .settings import Loader, Settings

YAML = (".yaml", ".yml", ".tpl")
JSON = (".json", ".jsonc")
MAKE = ("makefile", "gnumakefile")
FOLDERS = ("docker", "deploy", "deployment", "k8s", "kubernetes", "scripts", ".devcontainer", "batch")
"""Folders of a project for files such as these."""


class Read:
    """What one file holds."""

    __slots__ = ("image", "jobs", "tree")

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.image: Image | None = None
        self.tree: list[Node] = []


class Loaders:
    """What is known of the loaders of the Python code, asked only when a finding needs it."""

    def __init__(self, settings: Callable[[], Settings | None]) -> None:
        self.settings = settings
        self._needs: list[tuple[str, int, Loader]] | None = None
        self._workers: list[tuple[str, int]] | None = None

    def workers(self, path: str, script: str) -> int | None:
        """The most workers that are known of a loader: of the program `script`, as the file at `path` names it, where
        that is in the tree, else of all."""
        settings = self.settings()
        if settings is None:
            return None
        if self._workers is None:
            self._workers = [
                (loader.module.path, number)
                for loader in settings.loaders()
                if (number := settings.demand.one(loader.workers()))
            ]
        found = self._workers
        for at in dict.fromkeys(os.path.normpath(p) for p in (os.path.join(os.path.dirname(path), script), script)):
            module = settings.program.module(at.replace(os.sep, "/")) if found and script.endswith(".py") else None
            if module is not None:
                folder = module.path.rpartition("/")[0]
                near = {m.path for m in settings.origins.options.group(module)}
                found = [x for x in found if x[0] in near or not folder or x[0].startswith(folder + "/")]
                break
        return max((number for _, number in found), default=None)

    def demand(self, path: str) -> tuple[int, Loader | None]:
        settings = self.settings()
        if settings is None:
            return 0, None
        root = settings.program.project_root
        if self._needs is None:
            self._needs = [
                (x.loader.module.path.rpartition("/")[0], x.need, x.loader)
                for x in settings.demand.known(settings.loaders())
            ]
        folder = path.rpartition("/")[0]
        here = root(folder)
        if here is None:  # nothing marks a project: what lies in the same folder or below it
            above, _, last = folder.rpartition("/")
            here = above if last in FOLDERS else folder
            found = [
                (n, x) for f, n, x in self._needs if root(f) is None and f"{f}/".startswith(f"{here}/" if here else "")
            ]
        else:
            found = [(n, x) for f, n, x in self._needs if root(f) == here]
        return max(found, key=lambda x: x[0]) if found else (0, None)


class Deploy:
    def __init__(self, program: Program, options: Options | None = None, loaders: Loaders | None = None) -> None:
        self.program = program
        self.options = options
        self.loaders = loaders
        """What the Python code of the program says of its loaders; None: nothing is known."""
        self._read: dict[str, Read] = {}
        self._files: dict[str, File] = {}
        self._parts: dict[str, object] = {}

    # ---------------------------------------------------------------------------------------------------- reading
    def paths(self) -> list[str]:
        return [path for path, kind in self.program.others.items() if kind == DEPLOYMENT]

    def jobs(self) -> list[Job]:
        return [job for path in self.paths() for job in self.read(path).jobs]

    def containers(self) -> list[Container]:
        return [c for job in self.jobs() for c in job.containers]

    def images(self) -> list[Image]:
        return [r.image for path in self.paths() if (r := self.read(path)).image is not None]

    def file(self, path: str) -> File:
        if path not in self._files:
            text = (self.program.text(path) or "").replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
            self._files[path] = File(self.program, path, text.replace("\x00", " "))
        return self._files[path]

    def read(self, path: str) -> Read:
        """The jobs of a file. A failure inside becomes an internal-error finding of that file."""
        if path not in self._read:
            out = self._read[path] = Read()
            file = self.file(path)
            with self.program.guard(file.module):
                self.fill(out, file)
        return self._read[path]

    def fill(self, out: Read, file: File) -> None:
        from . import deploy_scripts

        name = file.path.rpartition("/")[2]
        low = name.lower()
        if low.endswith((*YAML, *JSON)):
            self.from_tree(out, file)
        elif low.endswith(".tf"):
            from .deploy_texts import terraform

            out.jobs += terraform(file)
        elif low in ("justfile", ".justfile", "jenkinsfile"):
            from . import deploy_texts

            out.jobs += deploy_texts.of_justfile(file) if "just" in low else deploy_texts.of_jenkinsfile(file)
        elif name.startswith(DOCKERFILES) or low.endswith((".dockerfile", ".containerfile")):
            out.image = deploy_scripts.Image(file)
            out.jobs.append(out.image.job)
        elif low in MAKE or low.endswith(".mk"):
            out.jobs += deploy_scripts.of_makefile(file)
        else:
            from ..source.traced import Traced

            out.jobs += deploy_scripts.of_script(file, Traced.at(file.text, 0))
        for job in out.jobs:
            deploy_scripts.settled(job)

    def tree(self, file: File) -> tuple[list[Node], Template | None]:
        """The documents of a YAML or JSON file, template actions taken out."""
        from ..source import yaml_tree

        template = None
        text = file.text
        if file.path.lower().endswith(JSON):
            found, wrong = yaml_tree.json_document(text)
        else:
            if yaml_tree.is_template(text):
                template = yaml_tree.Template(text)
                text = template.text
            found, wrong = yaml_tree.documents(text)
        if wrong is not None:
            place = f"{file.path}:{wrong.line}" if wrong.line else file.path
            self.program.given_up.append((place, str(wrong)))
        return found, template

    def from_tree(self, out: Read, file: File) -> None:
        from .deploy_ci import of_pipeline
        from .deploy_compose import Compose, is_compose
        from .deploy_pods import Manifest, is_manifest
        from .deploy_services import of_document

        out.tree, template = self.tree(file)
        values = self.chart_values(file.path) if template is not None and template.actions else None

        def value_of(node: Node) -> str:
            return filled(node, template, values) if template is not None else node.text

        def inserted(start: int, end: int) -> bool:
            return template is not None and any(
                start <= at <= end and matters(file.text, at) for at in template.inserts
            )

        for document in out.tree:
            if document.kind == "list" and file.path.lower().endswith(YAML):
                found = []
            elif is_manifest(document):
                found = [Manifest(file, document, value_of, inserted).job()]
            elif is_compose(document):
                found = [Compose(file, document, self.compose_of(file), self.beside(file)).job()]
            else:
                found = of_document(file, document)
                found = found or of_pipeline(file, document)
            out.jobs += found

    # ---------------------------------------------------------------------------------------------- other files
    def compose_of(self, file: File) -> Callable[[str], tuple[File, Node] | None]:
        """Opens another Compose file, by its path as `extends` gives it."""
        folder = file.path.rpartition("/")[0]

        def open_file(path: str) -> tuple[File, Node] | None:
            full = os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")
            if full.startswith("..") or os.path.isabs(full) or not full.lower().endswith(YAML):
                return None
            self.program.consulted.add(full)
            other = self.file(full)
            found = self.tree(other)[0] if other.text else []
            return (other, found[0]) if found else None

        return open_file

    def beside(self, file: File) -> list[tuple[File, Node]]:
        """The other Compose files of the folder."""
        folder = file.path.rpartition("/")[0]
        out = []
        for path in self.paths():
            if path != file.path and path.rpartition("/")[0] == folder and path.lower().endswith(YAML):
                if "compose" not in path.rpartition("/")[2].lower():
                    continue
                other = self.file(path)
                if "services:" in other.text:
                    out += [(other, d) for d in self.tree_of(path) if d.get("services") is not None]
        return out

    def tree_of(self, path: str) -> list[Node]:
        key = "tree:" + path
        if key not in self._parts:
            self._parts[key] = self.tree(self.file(path))[0]
        return self._parts[key]  # type: ignore[return-value]

    def chart_values(self, path: str) -> Node | None:
        """values.yaml of the Helm chart that a template belongs to."""
        folder = path.rpartition("templates/")[0]
        if not folder and not path.startswith("templates/"):
            return None
        values = f"{folder}values.yaml"
        if not os.path.isfile(os.path.join(self.program.root, values)):
            return None
        self.program.consulted.add(values)
        found = self.tree_of(values)
        return found[0] if found else None

    # ------------------------------------------------------------------------------------------------------- code
    def workers(self, path: str, script: str = "") -> int | None:
        """The number of workers of the loader that has most of them, among those where it is known: of the program
        `script` that the file at `path` starts, where that can be found."""
        return self.loaders.workers(path, script) if self.loaders is not None else None

    def demand(self, path: str) -> tuple[int, Loader | None]:
        """Bytes of shared memory that a loader of the project of this file can take in one rank: the largest known."""
        return self.loaders.demand(path) if self.loaders is not None else (0, None)

    # ---------------------------------------------------------------------------------------------------- questions
    @property
    def shm(self) -> SharedMemory:
        if "shm" not in self._parts:
            from .deploy_shm import SharedMemory

            self._parts["shm"] = SharedMemory(self)
        return self._parts["shm"]  # type: ignore[return-value]

    @property
    def env(self) -> Environment:
        if "env" not in self._parts:
            from .deploy_env import Environment

            self._parts["env"] = Environment(self)
        return self._parts["env"]  # type: ignore[return-value]

    @property
    def steps(self) -> Steps:
        if "steps" not in self._parts:
            from .deploy_steps import Steps

            self._parts["steps"] = Steps(self)
        return self._parts["steps"]  # type: ignore[return-value]


def filled(node: Node, template: Template, values: Node | None) -> str:
    """The text of a scalar with what values.yaml says put in for `.Values.a.b`; the rest stays unknown."""
    text = node.text
    if OPEN not in text:
        return text
    out, at = "", 0
    inside = [a for a in sorted(template.actions) if node.start <= a <= node.end]
    for offset in inside:
        start = text.find(OPEN, at)
        end = text.find(CLOSE, start)
        if start < 0 or end < 0:
            break
        said = value_at(template.actions[offset], values)
        out += text[at:start] + (text[start : end + 1] if said is None else said)
        at = end + 1
    return out + text[at:]


def value_at(action: str, values: Node | None) -> str | None:
    """`.Values.a.b | default 8 | quote`: what the chart sets, else the default; None where that is not to be seen."""
    path, *pipes = [part.strip() for part in action.split("|")]
    if any(p.partition(" ")[0] not in ("default", "quote", "int", "toString", "squote", "int64") for p in pipes):
        return None
    default = next((p.partition(" ")[2].strip("\"' ") for p in pipes if p.startswith("default ")), None)
    if path.startswith(("quote ", "int ")):
        path = path.partition(" ")[2].strip()
    if not path.startswith(".Values."):
        return None
    found = values.get(*path.split(".")[2:]) if values is not None else None
    if found is not None and found.kind == "scalar" and found.text and OPEN not in found.text:
        return found.text
    return default


HARMLESS = (
    "resources", "labels", "annotations", "nodeSelector", "affinity", "tolerations", "env", "args", "command",
    "imagePullSecrets", "securityContext", "ports", "livenessProbe", "readinessProbe", "startupProbe",
    "matchLabels", "lifecycle", "envFrom", "topologySpreadConstraints", "metadata", "limits", "requests",
)  # fmt: skip


def matters(text: str, at: int) -> bool:
    """Can a line that a template inserts hold volumes or mounts? Not where it stands below a key that holds others."""
    before = text[:at].rstrip()
    line = before[before.rfind("\n") + 1 :].strip().removeprefix("- ")
    while line.startswith(("{{", "#")) and "\n" in before:
        before = before[: before.rfind("\n")].rstrip()
        line = before[before.rfind("\n") + 1 :].strip().removeprefix("- ")
    return not (line.endswith(":") and line[:-1].strip("\"'") in HARMLESS)
