"""How much shared memory the deployment files of a project give its containers, as `deploy` reads them.

Read only for a loader whose demand is known, from the usual folders of its project: they may lie outside the paths that
are checked.
"""

from __future__ import annotations

from .deploy import Deploy
from .settings import deployment_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..program.model import Module
    from ..program.program import Program

MOST_FILES = 60
UNLIMITED = 1 << 62
"""The shared memory of the host, or a volume without a limit."""


class Shm:
    """Shared memory of `size` bytes that `module` (a file that is no Python) sets at `pos`."""

    __slots__ = ("module", "pos", "size")

    def __init__(self, module: Module, pos: int, size: int) -> None:
        self.module = module
        self.pos = pos
        self.size = size


class Deployment:
    def __init__(self, program: Program, deploy: Callable[[], Deploy] | None = None) -> None:
        self.program = program
        self.deploy = deploy() if deploy is not None else Deploy(program)
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
        if "shm" not in text and "ipc" not in text.lower():
            return []
        out = []
        for job in self.deploy.read(path).jobs:
            for c in job.containers:
                shm = c.shm
                if shm is None or shm.kind in ("unknown", "disk"):
                    continue
                size = shm.size if shm.kind == "size" else shm.size or UNLIMITED
                out.append(Shm(c.file.module, shm.pos or c.pos, size))
        return out
