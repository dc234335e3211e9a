"""Processes that a rank forks, and ranks that take the process group down while others still use it.

A fork copies the memory of the process, not the threads and not the driver's state: CUDA and NCCL do not work in the
child. Asked where a start and what it runs stand in one function behind the first use; who chose another start method
is left alone.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, expressions_of, walk_block, walk_expr
from ..program.program import callee_name
from .ranks_guarded import ALL, Guarded, side
from .ranks_pages import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Module
    from .ranks_machine import Machine

ON_GPU = (".cuda(", '"cuda', "'cuda")
STARTING = ("Process(", "Pool(", "ProcessPoolExecutor(")
DESTROY = "destroy_process_group"


class Forked:
    """A process started at `pos` that runs `name`, which uses `what` ("CUDA" or "torch.distributed"); `first`: where
    the parent began to use it."""

    __slots__ = ("first", "function", "name", "pos", "what")

    def __init__(self, function: Function, pos: int, first: int, name: str, what: str) -> None:
        self.function = function
        self.pos = pos
        self.first = first
        self.name = name
        self.what = what

    @property
    def module(self) -> Module:
        return self.function.module


class Teardown:
    """The process group is taken down at `pos`: by some ranks while `later` is still to come ("some"), or by a rank
    that failed while the others may stand in what `later` calls ("finally")."""

    __slots__ = ("function", "guard", "kind", "later", "pos")

    def __init__(self, kind: str, function: Function, pos: int, later: int, guard: int = 0) -> None:
        self.kind = kind
        self.function = function
        self.pos = pos
        self.later = later
        self.guard = guard

    @property
    def module(self) -> Module:
        return self.function.module


class Processes:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    # -------------------------------------------------------------------------------------------------------- forks
    def forked(self) -> list[Forked]:
        self.suspects.find()
        choices = knowledge.processes("choices")["words"]
        pages = list(self.suspects.pages.values())
        starting = [p for p in pages if not p.tokens.isdisjoint(w[:-1] for w in STARTING)]
        out: list[Forked] = []
        if not starting or any("set_start_method" in p.tokens for p in pages):
            return out
        for page in starting:
            if page.tokens.isdisjoint(choices):
                with self.program.guard(page.module):
                    for f in page.holding(*STARTING):
                        out += self.in_function(f)
        return out

    def in_function(self, f: Function) -> Iterator[Forked]:
        scope = self.program.scope(f)
        begun: dict[str, int] = {}
        pools: set[str] = set()
        made = {
            id(s[3]): s[2][0][2]
            for s in self.program.statements(f)
            if s[0] == "assign" and len(s[2]) == 1 and s[2][0][0] == "name"
        }
        for s in self.program.statements(f):
            if s[0] == "with":
                made.update((id(e), t[2]) for e, t in s[2] if t is not None and t[0] == "name")
        starts = knowledge.processes("starts")
        methods = knowledge.processes("pool")["methods"]
        for e in sorted(self.program.calls(f), key=lambda e: e[1]):
            name = self.program.qualified(e[2], scope) or ""
            row = starts.get(name)
            target: Expr | None = None
            if row is not None:
                if row[1] < 0:
                    if begun and id(e) in made:
                        pools.add(made[id(e)])
                    continue
                target = next((v for k, v in e[4] if k == row[0]), e[3][row[1]] if len(e[3]) > row[1] else None)
            elif callee_name(e) in methods and e[2][0] == "attr" and e[2][2][0] == "name" and e[2][2][2] in pools:
                target = e[3][0] if e[3] else None
            else:
                for what in self.begins(e, name, f):
                    begun.setdefault(what, e[1])
                continue
            for what in self.used(target, f) if target is not None else ():
                if what in begun:
                    yield Forked(f, e[1], begun[what], callee_of(target), what)
                    break

    def begins(self, e: Expr, name: str, f: Function) -> list[str]:
        """What a call of the parent begins to use."""
        row = knowledge.api(name) if name else None
        if row is not None and row.kind == "init" and row.last == "init_process_group":
            return ["torch.distributed", "CUDA"] if self.says_nccl(e) else ["torch.distributed"]
        if name in knowledge.processes("context")["calls"]:
            return ["CUDA"]
        if e[2][0] == "attr" and callee_name(e) == "cuda" and not name.startswith("torch."):
            return ["CUDA"]
        given = [v for k, v in e[4] if k == "device"]
        if e[2][0] == "attr" and callee_name(e) == "to":
            given += e[3][:1]
        if any(v[0] == "const" and isinstance(v[2], str) and v[2].startswith("cuda") for v in given):
            return ["CUDA"]
        out = []
        for g in self.program.targets(e, self.program.scope(f))[:1]:
            if "init_process_group(" in self.suspects.text_of(g):
                out.append("torch.distributed")
        return out

    def says_nccl(self, e: Expr) -> bool:
        given = e[3][0] if e[3] else next((v for k, v in e[4] if k == "backend"), None)
        return given is not None and given[0] == "const" and given[2] == "nccl"

    def used(self, target: Expr, f: Function) -> list[str]:
        """What a function uses that a child runs, itself or in what it calls."""
        found: list[str] = []
        for x in self.program.entities(target, self.program.scope(f)):
            if x[0] not in ("func", "method"):
                continue
            g = x[1]
            texts = [self.suspects.text_of(g)]
            for call in self.program.calls(g):
                texts += [self.suspects.text_of(h) for h in self.program.targets(call, self.program.scope(g))[:1]]
            if any("init_process_group(" in t for t in texts):
                continue  # a rank of its own: it is given its own devices
            if any(w in t for t in texts for w in ON_GPU):
                found.append("CUDA")
            if any(not words_of(t).isdisjoint(self.suspects.steps) for t in texts):
                found.append("torch.distributed")
        return found

    # ----------------------------------------------------------------------------------------------------- teardown
    def teardowns(self) -> list[Teardown]:
        self.suspects.find()
        out: list[Teardown] = []
        for page in list(self.suspects.pages.values()):
            if DESTROY in page.tokens:
                with self.program.guard(page.module):
                    for f in page.holding(DESTROY + "("):
                        out += self.taken_down(f)
        return out

    def taken_down(self, f: Function) -> Iterator[Teardown]:
        ranked = self.suspects.is_ranked(f)
        text = self.suspects.text_of(f)
        if not ranked and "finally" not in text:
            return
        statements = list(Guarded(self.machine, f).statements())
        for s, guards in statements:
            if s[0] == "try" and s[5]:
                gone = self.destroys(s[5], f)
                held = self.speaks(s[2], f) if gone else 0
                if gone and held and not s[3]:
                    yield Teardown("finally", f, gone, held)
            if s[0] != "expr" or side(guards) == ALL or not (gone := self.destroys((s,), f)):
                continue
            guard = guards[-1][1][1]
            for later, others in statements:
                if later[1] > s[1] and s[1] >> 44 != later[1] >> 44 and not any(g in others for g in guards):
                    known = self.speaks((later,), f) if later[0] in ("expr", "assign", "return") else 0
                    if known:
                        yield Teardown("some", f, gone, known, guard)
                        break

    def destroys(self, block: Block, f: Function) -> int:
        for e in calls_in(block):
            if callee_name(e) == DESTROY and not e[3] and not e[4]:
                row = knowledge.api(self.program.qualified(e[2], self.program.scope(f)) or "")
                if row is not None and row.kind == "teardown":
                    return int(e[1])
        return 0

    def speaks(self, block: Block, f: Function) -> int:
        """Where a block communicates, itself or in a function of the project; 0: nowhere."""
        scope = self.program.scope(f)
        for s in walk_block(block):
            for e in (x for y in expressions_of(s) for x in walk_expr(y) if x[0] == "call"):
                row = knowledge.api(self.program.qualified(e[2], scope) or "")
                if row is not None and row.kind == "collective":
                    return int(e[1])
                if row is None and callee_name(e) in self.suspects.hot_names:
                    reached = any(self.suspects.is_hot(g) for g in self.program.targets(e, scope))
                    if reached:
                        return int(e[1])
        return 0


def callee_of(target: Expr | None) -> str:
    return str(target[-1]) if target is not None and target[0] in ("name", "attr") else ""
