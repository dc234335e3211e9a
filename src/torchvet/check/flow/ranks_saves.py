"""Checkpoints that every rank writes to the same path, and errors of rank 0 that it does not tell the others."""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, dotted, walk_block, walk_expr
from ..program.program import callee_name
from .ranks_guarded import ALL, LEADS, Guarded, side
from .ranks_pages import callable_name
from .ranks_races import RANKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Module
    from .ranks_machine import Machine

LEVELS = 2
MOST_CALLERS = 12
WHOLE = ("Exception", "BaseException")


class Save:
    """A write at `pos`; `other`: a call that leads there, or 0."""

    __slots__ = ("function", "other", "pos", "where")

    def __init__(self, function: Function, pos: int, where: Module, other: int) -> None:
        self.function = function
        self.pos = pos
        self.where = where
        self.other = other

    @property
    def module(self) -> Module:
        return self.function.module


class Stranded:
    """A handler at `pos` on rank 0 that takes `kind` only, while `name` at `op` waits for it."""

    __slots__ = ("function", "kind", "name", "op", "pos")

    def __init__(self, function: Function, pos: int, kind: str, op: int, name: str) -> None:
        self.function = function
        self.pos = pos
        self.kind = kind
        self.op = op
        self.name = name

    @property
    def module(self) -> Module:
        return self.function.module


class Saves:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    # ------------------------------------------------------------------------------------------ by every rank
    def shared(self) -> list[Save]:
        """`torch.save` of a DDP model's state by all ranks to one path."""
        self.suspects.find()
        out: list[Save] = []
        for page in list(self.suspects.pages.values()):
            text = page.text
            if "torch.save(" not in text or ".module" not in text or ".state_dict()" not in text:
                continue
            if page.tokens.isdisjoint(("DistributedDataParallel", "DDP")) or "DataParallel" in page.tokens:
                continue
            for f in page.holding("torch.save("):
                with self.program.guard(f.module):
                    out += self.by_all(f)
        return out

    def by_all(self, f: Function) -> Iterator[Save]:
        for s, guards in Guarded(self.machine, f).statements():
            if s[0] != "expr" or s[2][0] != "call" or side(guards) != ALL:
                continue
            e = s[2]
            if self.program.qualified(e[2], self.program.scope(f)) != "torch.save" or len(e[3]) < 2:
                continue
            if self.of_module(e[3][0], f) and not self.own(e[3][1], f):
                call = self.unguarded(f, LEVELS, {id(f)})
                if call is not None:
                    yield Save(f, e[1], call[0].module, call[1] if call[0] is not f else 0)

    def of_module(self, e: Expr, f: Function) -> bool:
        """Whether a value holds `model.module.state_dict()`, or that of `raw = model.module if ddp else model`."""
        for x in walk_expr(e):
            whole = (dotted(x[2]) or "") if x[0] == "call" else ""
            if whole.endswith(".module.state_dict"):
                return True
            if whole.endswith(".state_dict") and whole.count(".") == 1:
                bound = self.program.scope(f).bindings().get(whole.partition(".")[0], ())
                values = [b[1] for b in bound if b[0] == "value"]
                if any(y[0] == "attr" and y[3] == "module" for v in values for y in (v, *v[3:5] * (v[0] == "ifexp"))):
                    return True
        if e[0] != "name":
            return False
        made = [s[3] for s in self.program.statements(f) if s[0] == "assign" and any(t[-1] == e[2] for t in s[2])]
        return len(made) == 1 and made[0][0] != "name" and self.of_module(made[0], f)

    def own(self, e: Expr, f: Function, depth: int = 0) -> bool:
        """Whether a path may be one of this rank alone."""
        scope = self.program.scope(f)
        joins = knowledge.files("joins")
        for x in walk_expr(e):
            if x[0] in ("name", "attr") and RANKED.search(str(x[-1])):
                return True
            plain = x[0] != "call" or callee_name(x) in ("format", "str", "join")
            if not plain and not joins.get(self.program.qualified(x[2], scope) or ""):
                return True
            if x[0] == "name" and depth < 3:
                made = [
                    s[3]
                    for s in self.program.statements(f)
                    if s[0] == "assign" and any(t[0] == "name" and t[2] == x[2] for t in s[2])
                ]
                if any(self.own(v, f, depth + 1) for v in made):
                    return True
        return False

    def unguarded(self, f: Function, levels: int, seen: set[int]) -> tuple[Function, int] | None:
        """A call of the function, when all that are known are run by every rank; None when one is not, or none is
        known."""
        if f.name == "<module>":
            return f, 0
        if f.decorators and any("property" not in d for d in f.decorator_names()):
            return None
        name = callable_name(f)
        found: tuple[Function, int] | None = None
        near = sorted(self.suspects.callers(name), key=lambda g: g.module is not f.module)
        for g in near[:MOST_CALLERS]:
            for h in self.program.with_nested(g):
                scope = self.program.scope(h)
                for call in self.program.calls(h):
                    if callee_name(call) != name or f not in self.program.targets(call, scope):
                        continue
                    if id(h) in seen or self.side(h, call[1]) != ALL:
                        return None
                    above = levels and h.name != "<module>" and self.suspects.callers(callable_name(h))
                    if above and self.unguarded(h, levels - 1, seen | {id(h)}) is None:
                        return None
                    found = found or (h, call[1])
        return found

    def side(self, f: Function, pos: int) -> str:
        best = ALL
        for s, guards in Guarded(self.machine, f).statements():
            if s[1] >> 44 <= pos >> 44:
                best = side(guards)
        return best

    # --------------------------------------------------------------------------------------------- errors kept
    def stranded(self) -> list[Stranded]:
        """Rank 0 catches one kind of error in order to tell the others by a collective; any other kind leaves them
        waiting there."""
        self.suspects.find()
        out: list[Stranded] = []
        for page in list(self.suspects.pages.values()):
            if "except" not in page.tokens or "broadcast" not in page.text:
                continue
            for f in page.functions:
                if self.suspects.is_ranked(f):
                    text = self.suspects.text_of(f)
                    if "except" in text and "broadcast" in text:
                        with self.program.guard(f.module):
                            out += self.kept(f)
        return out

    def kept(self, f: Function) -> Iterator[Stranded]:
        scope = self.program.scope(f)
        later = []
        for e in self.program.calls(f):
            row = knowledge.api(self.program.qualified(e[2], scope) or "")
            if row is not None and row.kind == "collective" and row.last.startswith("broadcast"):
                later.append(e)
        if not later:
            return
        for s, guards in Guarded(self.machine, f).statements():
            if s[0] != "try" or side(guards) != LEADS or any(c[1] > s[1] for c in calls_in(s[2]) if c in later):
                continue
            kinds = [k for k, _, _, _ in s[3]]
            if not kinds or any(k is None or any(x[-1] in WHOLE for x in walk_expr(k)) for k in kinds) or s[5]:
                continue
            for kind, _, block, pos in s[3]:
                told = names_set(block)
                if not told or any(x[0] == "raise" for x in walk_block(block)):
                    continue
                for e in later:
                    if e[1] > pos and any(x[0] == "name" and x[2] in told for a in e[3] for x in walk_expr(a)):
                        yield Stranded(
                            f, pos, str(kind[-1] if kind[0] in ("name", "attr") else "some"), e[1], callee_name(e)
                        )
                        break


def names_set(block: Block) -> set[str]:
    """Names that a block assigns, or whose entries it assigns."""
    out: set[str] = set()
    for s in walk_block(block):
        if s[0] == "assign":
            for t in s[2]:
                while t[0] == "sub":
                    t = t[2]
                if t[0] == "name":
                    out.add(t[2])
    return out
