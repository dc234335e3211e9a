"""Tensors whose length follows from this rank's data, given to collectives that need the same shape on every rank.

A boolean mask as index, `masked_select`, `nonzero`, `unique` make such a tensor; elementwise operations keep it; a
reduction, padding or a fixed slice ends it. Followed through the names of one function.
"""

from __future__ import annotations

from ... import knowledge
from ..program.program import callee_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function, Module
    from ..program.names import Scope
    from .ranks_machine import Machine

DEEPEST = 8
COMPARED = frozenset(("==", "!=", "<", "<=", ">", ">="))


class Ragged:
    """A collective at `pos` that is given a tensor made ragged at `made`."""

    __slots__ = ("function", "made", "name", "pos")

    def __init__(self, function: Function, pos: int, made: int, name: str) -> None:
        self.function = function
        self.pos = pos
        self.made = made
        self.name = name

    @property
    def module(self) -> Module:
        return self.function.module


class Shapes:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    def found(self) -> list[Ragged]:
        self.suspects.find()
        table = knowledge.tensors("equal_shapes")
        words = {w.rpartition(".")[2] for w in table}
        marks = [f".{m}(" for m in knowledge.tensors("ragged")["methods"]]
        out: list[Ragged] = []
        for page in list(self.suspects.pages.values()):
            here = page.tokens & words
            if not here:
                continue
            for f in page.holding(*(w + "(" for w in here)):
                text = self.suspects.text_of(f) if f.name != "<module>" else page.text
                if "mask" in text or "[" in text or any(m in text for m in marks):
                    with self.program.guard(f.module):
                        for g in self.program.with_nested(f):
                            self.look(g, here, table, out)
        return out

    def look(self, f: Function, here: set[str], table: dict[str, int], out: list[Ragged]) -> None:
        scope = self.program.scope(f)
        for e in self.program.calls(f):
            if callee_name(e) not in here:
                continue
            name = self.program.qualified(e[2], scope)
            at = table.get(knowledge.canonical(name)) if name else None
            if at is None or at >= len(e[3]):
                continue
            if at == 1 and not self.like(e[3][0], e[3][1], f, e[1]):
                continue  # room for tensors of several lengths
            made = self.ragged(e[3][at], f, scope, e[1], 0)
            if made:
                out.append(Ragged(f, e[1], made, callee_name(e)))

    def like(self, room: Expr, given: Expr, f: Function, pos: int) -> bool:
        """Whether the list to gather into is made with the shape of this rank's own tensor."""
        e: Expr | None = room
        if room[0] == "name":
            e = self.last(room[2], f, pos)
        while e is not None and e[0] == "bin" and e[2] == "*" and e[3][0] == "list":
            e = e[3][2][0] if e[3][2] else None
        if e is None:
            return False
        if e[0] == "comp":
            e = e[3]
        elif e[0] == "list" and e[2]:
            e = e[2][0]
        return bool(e[0] == "call" and callee_name(e).endswith("_like") and e[3] and e[3][0][0] == given[0] == "name"
                    and e[3][0][2] == given[2])  # fmt: skip

    def last(self, name: str, f: Function, pos: int) -> Expr | None:
        """What was assigned to a local name last before a position; None when that is not one plain value."""
        best: tuple[int, Expr] | None = None
        for s in self.program.statements(f):
            if s[1] >= pos:
                break
            targets = s[2] if s[0] == "assign" else (s[3],) if s[0] == "aug" else (s[2],) if s[0] == "for" else ()
            for t in targets:
                if t[0] == "name" and t[2] == name:
                    best = (s[1], s[3] if s[0] == "assign" else ("const", s[1], None))
                elif t[0] in ("tuple", "list") and any(x[-1] == name for x in t[2]):
                    best = (s[1], ("const", s[1], None))
        return best[1] if best is not None else None

    def ragged(self, e: Expr, f: Function, scope: Scope, pos: int, depth: int) -> int:
        """Where the length of a value came to depend on its content (a position), or 0."""
        if depth > DEEPEST:
            return 0
        kind = e[0]
        if kind == "name":
            value = self.last(e[2], f, pos)
            return self.ragged(value, f, scope, value[1], depth + 1) if value is not None else 0
        if kind == "sub":
            if self.is_mask(e[3], f, scope, pos, depth + 1):
                return int(e[1])
            if e[3][0] == "tuple" and e[3][2] and self.is_mask(e[3][2][0], f, scope, pos, depth + 1):
                return int(e[1])
            return 0
        if kind == "bin":
            return self.ragged(e[3], f, scope, pos, depth + 1) or self.ragged(e[4], f, scope, pos, depth + 1)
        if kind != "call":
            return 0
        last = callee_name(e)
        if e[2][0] == "attr":
            if last in knowledge.tensors("ragged")["methods"]:
                return int(e[1])
            if last in knowledge.tensors("keeps_shape")["methods"]:
                return self.ragged(e[2][2], f, scope, pos, depth + 1)
        name = self.program.qualified(e[2], scope) or ""
        if name in knowledge.tensors("ragged")["calls"]:
            return int(e[1])
        if name in knowledge.tensors("keeps_shape")["calls"] and e[3]:
            parts = e[3][0][2] if e[3][0][0] in ("list", "tuple") else (e[3][0],)
            return next((at for x in parts if (at := self.ragged(x, f, scope, pos, depth + 1))), 0)
        return 0

    def is_mask(self, e: Expr, f: Function, scope: Scope, pos: int, depth: int) -> bool:
        """Whether an index is a tensor of truth values that follows from data."""
        if depth > DEEPEST:
            return False
        kind = e[0]
        if kind == "cmp":
            # `x[:, 0] > 0.5`; a comparison of plain numbers is no mask
            return len(e[2]) == 1 and e[2][0] in COMPARED and any(x[0] in ("name", "sub", "call") for x in e[3])
        if kind == "unary" and e[2] == "~":
            return self.is_mask(e[3], f, scope, pos, depth + 1)
        if kind == "bin" and e[2] in ("&", "|"):
            return self.is_mask(e[3], f, scope, pos, depth + 1) or self.is_mask(e[4], f, scope, pos, depth + 1)
        if kind == "call" and e[2][0] == "attr":
            return callee_name(e) in knowledge.tensors("masks")["methods"] and e[2][2][-1] != "torch"
        if kind == "name":
            value = self.last(e[2], f, pos)
            return value is not None and self.is_mask(value, f, scope, value[1], depth + 1)
        return False
