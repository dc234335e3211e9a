"""What rules say about a container: sizes as people write them, the line to paste for its platform, the edit that adds
it."""

from __future__ import annotations

from ...findings import Edit, Fix, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .deploy_model import Container, File
    from .settings import Loader

GIB = 1 << 30
USUAL = 8
"""GiB to paste where nothing is known of the loaders."""
LINES = {
    "compose": 'shm_size: "{n}gb"',
    "kubernetes": "{{name: dshm, emptyDir: {{medium: Memory, sizeLimit: {n}Gi}}}}",
    "ecs": '"sharedMemorySize": {mib}',
    "azureml": "shm_size: {n}g",
    "dstack": "shm_size: {n}GB",
    "determined": "shm_size: {n}G",
    "devcontainer": '"--shm-size={n}g"',
}
LOCKS = {
    "compose": "ulimits: {memlock: -1}",
    "kubernetes": "securityContext: {capabilities: {add: [IPC_LOCK]}}",
    "ecs": '"ulimits": [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]',
    "devcontainer": '"--ulimit=memlock=-1"',
}


class About:
    """A container, and a place in its file. `severity`: "error", "warning", "note". `ranks`: processes that train in
    it, 0 where that is not known. `need`: bytes that one rank's loader can take, 0 where that is not known; `loader` is
    that loader."""

    __slots__ = (
        "container", "file", "kind", "loader", "module", "need", "other", "pos", "ranks", "severity", "text", "what",
    )  # fmt: skip

    def __init__(
        self, c: Container, pos: int, severity: str, kind: str = "", text: str = "", other: int = 0, ranks: int = 1
    ) -> None:
        self.container = c
        self.file: File = c.file
        self.module = c.file.module
        self.pos = pos
        self.severity = severity
        self.kind = kind
        self.text = text
        self.other = other
        self.what = c.what
        self.ranks = ranks
        self.need = 0
        self.loader: Loader | None = None

    def demanded(self) -> int:
        """Bytes that the loaders of all ranks in the container can take."""
        return self.need * max(self.ranks, 1)

    def loaders(self) -> list[Loader]:
        """The loader whose demand is known, if there is one."""
        return [self.loader] if self.need and self.loader is not None else []

    def reason(self) -> Text:
        if self.need and self.loader is not None:
            return Text(
                "the loader in {file} can take {need} for each of {ranks} ranks",
                "{file} 中的 DataLoader 每个 rank 最多占用 {need}，共 {ranks} 个 rank",
                file=self.loader.module.path,
                need=shown(self.need),
                ranks=max(self.ranks, 1),
            )
        return Text("batches of loader workers and NCCL live there", "DataLoader worker 的批次与 NCCL 都使用它")

    def gib(self) -> int:
        """A size in GiB that does: the demand and a quarter more, in powers of two, at least the usual one."""
        n = USUAL
        while n * GIB < self.demanded() * 1.25 and n < 1024:
            n *= 2
        memory = self.container.memory
        while not self.need and memory is not None and n > 1 and n * GIB * 2 > memory[0]:
            n //= 2  # it is charged to the container
        if self.text.isdecimal() and self.kind in ("bytes", "mib") and 1 < int(self.text) <= 1024:
            return int(self.text)
        return n

    def paste(self) -> str:
        n = self.gib()
        return LINES.get(self.container.platform, "--shm-size={n}g").format(n=n, mib=n * 1024)

    def size(self) -> str:
        shm = self.container.shm
        return shown(shm.size) if shm is not None else shown(64 << 20)

    def least(self) -> str:
        """What it needs at least."""
        if self.kind == "demand":
            return shown(self.demanded())
        return shown(GIB) if self.ranks != 1 else "512 MiB"

    def limit(self) -> str:
        memory = self.container.memory
        return shown(memory[0]) if memory is not None else ""

    def half(self) -> str:
        """A quarter of the memory limit, as a size that leaves room for the processes."""
        memory = self.container.memory
        return shown(memory[0] // 4) if memory is not None else ""

    def lock(self) -> str:
        return LOCKS.get(self.container.platform, "--ulimit memlock=-1")

    def fix(self) -> Fix | None:
        """The edit that adds the size, where the place for it is plain."""
        at, form = self.container.insert
        if at <= 0:
            return None
        text = self.file.text
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        added = form.format(line=self.paste())
        return Fix(Text("add {line}", "添加 {line}", line=self.paste()), [Edit(line, column, line, column, added)])


def shown(size: int) -> str:
    """Bytes as people write them."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            number = size / unit
            return f"{number:.0f} {name}" if number >= 100 else f"{number:.3g} {name}"
    return f"{size} bytes"
