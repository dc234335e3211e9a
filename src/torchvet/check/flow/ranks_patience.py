"""Work of one rank that can take longer than the others wait for it: a download, a tokenisation, a conversion.

Nothing parts the ranks here; what fails is the time-out of the collective in which the others stand (10 minutes with
NCCL, 30 with gloo, or what `init_process_group` was given).
"""

from __future__ import annotations

from itertools import pairwise

from ... import knowledge
from ..program.model import blocks_of, calls_in, walk_block
from ..program.program import callee_name
from .ranks_guarded import LEADS, Guarded, side

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Block, Expr, Function, Module
    from ..program.names import Scope
    from .ranks_machine import Machine
    from .ranks_pages import Page

SHORT = 120
"""Seconds that are too short for anything that writes a checkpoint."""
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
WAITING = ("barrier", "wait_for_everyone", "synchronize")
STORES = ("torch.save(", "save_pretrained(", "save_file(")


class Long:
    """A call at `pos` that only the first rank runs; `wait`: where the others wait for it; `seconds`: for how long,
    when the program says so (0: the default)."""

    __slots__ = ("function", "name", "pos", "seconds", "wait")

    def __init__(self, function: Function, pos: int, name: str, wait: int, seconds: int) -> None:
        self.function = function
        self.pos = pos
        self.name = name
        self.wait = wait
        self.seconds = seconds

    @property
    def module(self) -> Module:
        return self.function.module


class Patience:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    @property
    def table(self) -> dict[str, Any]:
        return knowledge.processes("long_work")

    def found(self) -> list[Long]:
        self.suspects.find()
        out: list[Long] = []
        pages = list(self.suspects.pages.values())
        patient: bool | None = None
        for page in pages:
            waits = [w + "(" for w in WAITING if w in page.tokens]
            first = "first(" in page.text
            if not waits and not first:
                continue
            seconds = 0
            if "timedelta" in page.tokens and "init_process_group" in page.tokens:
                with self.program.guard(page.module):
                    seconds = self.given(page)
            if not seconds:
                if not any(w in page.text for w in (*self.table["names"], ".map(", "download")):
                    continue
                if patient is None:
                    patient = any(not p.tokens.isdisjoint(self.table["timeouts"]) for p in pages)
                if patient:
                    continue
            elif seconds > SHORT:
                continue
            with self.program.guard(page.module):
                for f in page.holding(*waits, *(("first(",) if first else ())):
                    out += self.of(f, seconds)
        return out

    def given(self, page: Page) -> int:
        """The time-out that `init_process_group` is given in a module, in seconds; 0: none that is known."""
        best = 0
        for f in page.holding("init_process_group("):
            for e in self.program.calls(f):
                if callee_name(e) == "init_process_group":
                    t = next((v for k, v in e[4] if k == "timeout"), None)
                    if t is not None and t[0] == "call" and callee_name(t) == "timedelta":
                        best = max(best, sum(SECONDS.get(k or "", 0) * v[2] for k, v in t[4] if v[0] == "const"))
        return best

    def of(self, f: Function, seconds: int) -> Iterator[Long]:
        scope = self.program.scope(f)
        for s in self.program.statements(f) if not seconds else ():
            if s[0] != "with":
                continue
            for context, _ in s[2]:
                if context[0] == "call" and callee_name(context).endswith("first") and self.is_first(context, f, scope):
                    yield from self.works(s[3], f, scope, context[1], 0)
        if not self.suspects.is_ranked(f):
            return
        # `if rank == 0: work()`, with a barrier as the next thing in the same block
        for block in blocks(self.program.body(f)):
            for s, after in pairwise(block):
                if s[0] != "if" or s[4] or after[0] != "expr" or after[2][0] != "call":
                    continue
                if callee_name(after[2]) not in WAITING or not self.waits(after[2], f):
                    continue
                guarded = Guarded(self.machine, f)
                if side(((guarded.test(s[2]), s[2]),)) == LEADS:
                    yield from self.works(s[3], f, scope, after[1], seconds)

    def waits(self, e: Expr, f: Function) -> bool:
        row = knowledge.api(self.program.qualified(e[2], self.program.scope(f)) or "")
        return row is not None and row.kind == "collective"

    def is_first(self, context: Expr, f: Function, scope: Scope) -> bool:
        """Whether a context lets one rank through before the others."""
        row = knowledge.api(self.program.qualified(context[2], scope) or "")
        if row is None:
            row = self.machine.method_row(self.machine.pure_frame(f), callee_name(context), context[2])
        return row is not None and row.kind == "first_context"

    def works(self, block: Block, f: Function, scope: Scope, wait: int, seconds: int) -> Iterator[Long]:
        """The first call of a block that can take long."""
        for e in calls_in(block):
            if self.is_long(e, scope, seconds):
                yield Long(f, e[1], callee_name(e), wait, seconds)
                return

    def is_long(self, e: Expr, scope: Scope, seconds: int) -> bool:
        last = callee_name(e)
        if last == "map" and e[2][0] == "attr":
            return any(k in self.table["map_keywords"] for k, _ in e[4])
        if (self.program.qualified(e[2], scope) or "") in self.table["calls"]:
            return True
        targets = self.program.targets(e, scope)
        if seconds and any(w in self.suspects.text_of(g) for g in targets for w in STORES):
            return True
        return bool(targets) and any(last.startswith(n) for n in self.table["names"])


def blocks(block: Block) -> Iterator[Block]:
    """A block and all blocks inside it."""
    yield block
    for s in walk_block(block):
        yield from blocks_of(s)
