"""What the parts of `diagnose` pass to each other: facts, the case they make, causes, verdicts. Plain values all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .waits import Waits

STRONG, MEDIUM, WEAK = "strong", "medium", "weak"
CONFIRMED, PROBABLE, POSSIBLE = "confirmed", "likely", "possible"
CONFIDENCES = (CONFIRMED, PROBABLE, POSSIBLE)

KINDS = (
    "rank-absent", "collective-mismatch", "shape-mismatch", "group-order-cycle", "uneven-inputs", "p2p-partner-missing",
    "host-stall", "device-stuck", "fabric", "store-rendezvous", "gpu-oom", "host-oom", "shm-exhausted", "fd-exhausted",
    "native-crash", "numeric-failure", "scheduler-action", "configuration", "unknown",
)  # fmt: skip
"""Kinds of causes (a contract: tools outside read them)."""


@dataclass(slots=True)
class Fact:
    """One thing that one place of one file says.

    kind    what is said: see `evidence/__init__.py` for the vocabulary
    rank    the global rank it is *about*, when known
    source  file within the evidence (POSIX; "logs.tar.gz!0/stderr.log" inside an archive)
    line    line or record number in it, from 1; 0 = the file as a whole
    text    the words themselves, at most 300 characters, control characters removed
    time    seconds since 1970 when the place carries a full date; None otherwise. Clocks of hosts differ.
    order   position in its source, for what has no time
    values  what was read out of the words; JSON values only
    quality STRONG (says it plainly), MEDIUM, WEAK (a hint)
    """

    kind: str
    source: str = ""
    line: int = 0
    rank: int | None = None
    text: str = ""
    time: float | None = None
    order: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    quality: str = STRONG

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source

    def plain(self) -> dict[str, Any]:
        """As JSON values, defaults left out (`from_plain` reads it back)."""
        row: dict[str, Any] = {"kind": self.kind, "source": self.source}
        for name in ("line", "rank", "text", "time", "order"):
            if getattr(self, name) not in (None, "", 0):
                row[name] = getattr(self, name)
        if self.rank == 0:
            row["rank"] = 0
        if self.values:
            row["values"] = self.values
        if self.quality != STRONG:
            row["quality"] = self.quality
        return row

    @classmethod
    def from_plain(cls, row: dict[str, Any]) -> Fact:
        return cls(**{k: row[k] for k in cls.__slots__ if k in row})


@dataclass(slots=True)
class Rank:
    """What is known of one rank, gathered from all facts. None and empty mean: not known."""

    number: int
    local: int | None = None
    node: str = ""
    pid: int | None = None
    code: int | None = None  # exit code; negative = signal, as Python has it
    closed: bool = False  # ended by the launcher, or by a signal that follows another rank's end
    step: int | None = None  # last step that its log tells
    last: str = ""  # last line of its own output
    has: set[str] = field(default_factory=set)  # "log", "recorder", "stack", "error", ...


@dataclass(slots=True)
class Inventory:
    """What is here and what is missing; shown before everything else.

    files     (source, kind, size in bytes, number of facts)
    paths     source -> where it lies on this machine (the archive, for what is inside one)
    problems  (source, Text): truncated, empty, refused, unreadable
    missing   Text for each thing that a job of this size should have left
    """

    files: list[tuple[str, str, int, int]] = field(default_factory=list)
    problems: list[tuple[str, Text]] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    missing: list[Text] = field(default_factory=list)
    world: int | None = None
    nodes: list[str] = field(default_factory=list)


class Case:
    """All facts of one job, with the indexes that causes ask for."""

    def __init__(self, facts: Iterable[Fact], inventory: Inventory) -> None:
        self.facts = list(facts)
        self.inventory = inventory
        self.ranks: dict[int, Rank] = {}
        self.by_kind: dict[str, list[Fact]] = {}
        for fact in self.facts:
            self.by_kind.setdefault(fact.kind, []).append(fact)
        self._waits: Waits | None = None

    def replace(self, facts: Iterable[Fact]) -> None:
        """Other facts in place of all; what was concluded from the old ones is forgotten."""
        self.facts = list(facts)
        self.by_kind = {}
        for fact in self.facts:
            self.by_kind.setdefault(fact.kind, []).append(fact)
        self._waits = None

    def of(self, *kinds: str, rank: int | None = None) -> list[Fact]:
        """The facts of some kinds, in the order they were read; with `rank`, only those about it."""
        found = [f for kind in kinds for f in self.by_kind.get(kind, ())]
        return found if rank is None else [f for f in found if f.rank == rank]

    @property
    def waits(self) -> Waits:
        """Who waits for whom, by recorder dumps, watchdog lines and stacks."""
        if self._waits is None:
            from .waits import Waits

            self._waits = Waits(self)
        return self._waits

    @property
    def world(self) -> int | None:
        """Number of ranks of the job, when it is known."""
        return self.inventory.world


@dataclass(slots=True)
class Link:
    """One fact that speaks for or against a hypothesis, and why. `weight`: STRONG, MEDIUM or WEAK."""

    fact: Fact | None
    reason: Text
    weight: str = MEDIUM


@dataclass(slots=True)
class Hypothesis:
    """A possible cause. `score` orders hypotheses (set by `verdict.py`); `explains` names (kind, rank) pairs of others
    that are a consequence when this one holds; `side`: true, but it did not end the job."""

    cause: str
    sub: str
    summary: Text
    ranks: list[int]
    confidence: str = PROBABLE
    site: tuple[str, int] | None = None
    supports: list[Link] = field(default_factory=list)
    contradicts: list[Link] = field(default_factory=list)
    missing: list[Text] = field(default_factory=list)
    next: list[Text] = field(default_factory=list)
    explains: list[tuple[str, int | None]] = field(default_factory=list)
    side: bool = False
    score: float = 0.0
    rule: str = ""  # rule of `check` that finds the fault in the code, when there is one


@dataclass(slots=True)
class Diagnosis:
    inventory: Inventory
    verdicts: list[Hypothesis]
    side_findings: list[Hypothesis]
    case: Case


class Cause:
    """A kind of cause: `causes/<name>.py` holds `CAUSE = Cause(...)`, `causes/<name>.md` its page."""

    def __init__(self, *, kind: str, name: str, summary: Text) -> None:
        self.kind = kind
        self.name = name
        self.summary = summary
        self.judge: Callable[[Case], Iterator[Hypothesis]] | None = None

    def check(self, function: Callable[[Case], Iterator[Hypothesis]]) -> Callable[[Case], Iterator[Hypothesis]]:
        """Decorator: `function(case)` yields the hypotheses of this cause that some fact speaks for."""
        self.judge = function
        return function

    def page(self) -> str:
        path = os.path.join(os.path.dirname(__file__), "causes", self.name.replace("-", "_") + ".md")
        with open(path, encoding="utf-8") as f:
            return f.read()


def all_causes() -> dict[str, Cause]:
    """Every cause by name: found by listing the folder."""
    folder = os.path.join(os.path.dirname(__file__), "causes")
    out: dict[str, Cause] = {}
    for entry in sorted(os.listdir(folder)):
        if entry.endswith(".py") and not entry.startswith("_"):
            module = __import__(f"{__package__}.causes.{entry[:-3]}", fromlist=["CAUSE"])
            out[module.CAUSE.name] = module.CAUSE
    return out
