"""What a deployment file says, whatever its language: jobs, the containers they start, the settings those see.

Positions are `pos` numbers of `program.model`; "" and None mean that the file does not say, `Shm("unknown")` that it
says something that is not understood. Nothing here is a judgement.
"""

from __future__ import annotations

from bisect import bisect_right

from ..program.model import Module, pack
from ..source.traced import OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.program import Program
    from ..source.traced import Traced
    from .deploy_launch import Launch

TRAINS, TESTS, SERVES, NEITHER, UNSAID = "trains", "tests", "serves", "neither", "unsaid"
"""What a container is for."""

UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
         "t": 1 << 40, "tb": 1 << 40, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
         "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}  # fmt: skip
DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
"""Kubernetes counts `8G` as 8 000 000 000 bytes."""


class File:
    """One file: its text with `\\n` as line end, and positions in it."""

    __slots__ = ("lines", "module", "path", "program", "text")

    def __init__(self, program: Program, path: str, text: str) -> None:
        self.program = program
        self.path = path
        self.text = text
        self.module = Module(path, (), frozenset())
        self.module.program = program
        self.lines: list[int] = []

    def pos(self, start: int, end: int = 0) -> int:
        """The position of the characters `start` to `end`, cut at the end of their first line."""
        if not self.lines:
            self.lines = [0]
            at = self.text.find("\n")
            while at >= 0:
                self.lines.append(at + 1)
                at = self.text.find("\n", at + 1)
        start = max(0, min(start, len(self.text)))
        line = bisect_right(self.lines, start) - 1
        first = self.lines[line]
        stop = self.text.find("\n", start)
        stop = len(self.text) if stop < 0 else stop
        end = min(max(end, start), stop)
        column = len(self.text[first:start].encode("utf-8", "replace"))
        width = len(self.text[start:end].encode("utf-8", "replace"))
        return pack(line + 1, column, line + 1, column + width)

    def word(self, word: Traced) -> int:
        """The position of a word."""
        start = word.offset(0)
        last = word.offset(len(word.text) - 1) + 1 if word.text else start
        return self.pos(start, last if start < last < start + 4 * len(word.text) + 8 else start + 1)


class Shm:
    """Shared memory as a file sets it. `kind`: "size" (`size` bytes, `text` as written), "host" (that of the host),
    "volume" (of memory; `size` 0: no limit), "disk" (a volume that is no memory), "own" (the platform mounts it) or
    "unknown"."""

    __slots__ = ("bare", "kind", "pos", "size", "text")

    def __init__(self, kind: str, pos: int, size: int = 0, text: str = "", bare: bool = False) -> None:
        self.kind = kind
        self.pos = pos
        self.size = size
        self.text = text
        self.bare = bare  # a number without a unit


class Env:
    """An environment variable as set for what runs. `given`: only in some cases, or where nothing outside sets it."""

    __slots__ = ("given", "name", "pos", "value")

    def __init__(self, name: str, value: str, pos: int, given: bool = False) -> None:
        self.name = name
        self.value = value
        self.pos = pos
        self.given = given


class Container:
    """One container that a file starts. `what` names it as its author did."""

    def __init__(self, file: File, platform: str, what: str, pos: int) -> None:
        self.file = file
        self.platform = platform
        self.what = what
        self.pos = pos
        self.engine = ""
        self.image = ""
        self.gpus: int | None = None
        """None: none is asked for. 0: some or all, a number that is not known."""
        self.gpu_pos = 0
        self.launches: list[Launch] = []
        self.purpose = UNSAID
        self.shm: Shm | None = None
        self.ipc: int = 0
        """Position of the wish for the host's IPC namespace."""
        self.build_shm: int = 0
        self.stray: tuple[int, str] = (0, "")
        """A volume of memory that this container does not have at /dev/shm: (position, "elsewhere" or "unmounted")."""
        self.memory: tuple[int, int] | None = None
        self.cpus: tuple[float, int] | None = None
        self.locked = False
        """Locked memory has no limit, or the right to lock (IPC_LOCK, privileged)."""
        self.rdma = 0
        self.privileged = False
        self.env: list[Env] = []
        self.mounts: list[str] = []
        self.removed = False
        """It is removed when it ends."""
        self.insert: tuple[int, str] = (0, "")
        """Where a size can be added, and how: (offset, form with `{line}`)."""
        self.opaque = False
        """It has settings that are not known."""
        self.nodes: int | None = None
        self.env_from: list[str] = []
        """ConfigMaps whose entries it gets as variables."""
        self.trains = False
        """The kind of object says that it trains."""


class Job:
    """What one script or one object of a file runs together: its own launches and settings, and its containers."""

    def __init__(self, file: File, platform: str) -> None:
        self.file = file
        self.platform = platform
        self.nodes: int | None = None
        self.headers: dict[str, tuple[str, int]] = {}
        self.env: list[Env] = []
        self.containers: list[Container] = []
        self.launches: list[Launch] = []
        self.ci = False
        self.opaque = False
        self.loops: frozenset[str] = frozenset()
        """Variables of its `for` loops."""
        self.name = ""
        """Of a ConfigMap, whose entries are `env`."""


def amount(value: str, decimal: bool = False) -> int | None:
    """Bytes of `8g`, `512mb`, `1Gi`, or a number of bytes. `decimal`: capital units without i count by thousands."""
    text = value.strip().strip("\"'").strip()
    digits = text.rstrip("abgikmtABGIKMT ")
    unit = text[len(digits) :].strip()
    scale = UNITS.get(unit.lower())
    if decimal and unit.lower() in DECIMAL and scale is not None:
        scale = DECIMAL[unit.lower()]
    if scale is None or not digits or len(digits) > 24:
        return None
    try:
        number = float(digits)
    except ValueError:
        return None
    return int(number * scale) if 0 <= number < 1e24 else None


def count(value: str) -> int | None:
    """A whole number as written; None for anything else."""
    text = value.strip().strip("\"'")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None


def known(value: str) -> bool:
    return OPEN not in value and "${" not in value and "$(" not in value
