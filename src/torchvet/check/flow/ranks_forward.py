"""Forwards of wrapped models that do on one rank what they do not do on another, because of its data.

A sub-module that only some data reaches leaves its parameters without gradients on the other ranks: DDP waits for them
(unless it looks for unused ones), FSDP and ZeRO-3 gather them on one rank only. A loop of generation that ends with
this rank's own sentence does the same to a sharded model.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, expressions_of, walk_block, walk_expr
from ..program.program import callee_name
from ..source.patterns import Later
from .ranks_batches import left_out
from .ranks_pages import callable_name
from .ranks_shapes import Shapes
from .ranks_values import FALSE, NONE, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Class, Expr, Function, Module
    from .ranks_machine import Machine

    Branch = tuple[int, int]  # position of a test, number of its branch
    Seen = dict[str, list[tuple[tuple[Branch, ...], Expr]]]

SHARDED = ("fsdp_module", "fsdp2_module", "engine_tuple")
LEAVING = ("return", "continue", "break")
MOST_CLASSES = 200
COLLATES = Later(r"collate_fn\s*=\s*(?:\w+\.)*(\w+)")


class Partial:
    """What only some ranks do in a forward. `kind`: "module" (a sub-module called at `pos` under the test at `test`) or
    "generate" (a call at `pos` that does not switch on the agreement of `name`). `wrap`: where the model is wrapped."""

    __slots__ = ("function", "kind", "name", "pos", "test", "where", "wrap")

    def __init__(self, kind: str, function: Function, pos: int, test: int, name: str, where: Module, wrap: int) -> None:
        self.kind = kind
        self.function = function
        self.pos = pos
        self.test = test
        self.name = name
        self.where = where
        self.wrap = wrap

    @property
    def module(self) -> Module:
        return self.function.module


class Forwards:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects
        self.shapes = Shapes(machine)
        self.sharders = [
            row.last + "("
            for row in map(knowledge.api, sorted(knowledge.names("wraps_model")))
            if row is not None and row.result in SHARDED
        ] + ["FSDP("]
        self._absent: set[str] | None = None

    def found(self) -> list[Partial]:
        self.suspects.find()
        out: dict[tuple[str, int], Partial] = {}
        switch = str(knowledge.tensors("agrees")["parameter"])
        seen: set[int] = set()
        for page in list(self.suspects.pages.values()):
            words = page.tokens & self.suspects.wraps
            if words:
                with self.program.guard(page.module):
                    for f in page.holding(*(w + "(" for w in words)):
                        for cls, wrap in self.wrapped(f, words):
                            for p in self.partial(cls, f.module, wrap, seen):
                                out.setdefault((p.module.path, p.pos), p)
            if switch in page.tokens:
                with self.program.guard(page.module):
                    for f in page.functions:
                        for p in self.unsynchronised(f, switch):
                            out.setdefault((p.module.path, p.pos), p)
        return sorted(out.values(), key=lambda p: (p.module.path, p.pos))

    # -------------------------------------------------------------------------------------------- wrapped classes
    def wrapped(self, f: Function, words: set[str]) -> Iterator[tuple[Class, int]]:
        """Classes of the project whose instances a function wraps, with the place."""
        scope = self.program.scope(f)
        for e in self.program.calls(f):
            if callee_name(e) not in words or not e[3]:
                continue
            row = knowledge.api(self.program.qualified(e[2], scope) or "")
            if row is None or row.kind != "wraps_model" or row.result not in (*SHARDED, "ddp_module"):
                continue
            frame = self.machine.pure_frame(f)
            if row.result == "ddp_module" and any(
                k is None or (k in ("find_unused_parameters", "static_graph") and self.machine.pure(frame, v) != FALSE)
                for k, v in e[4]
            ):
                continue
            given = self.machine.pure(frame, e[3][0])
            while given[0] == "wrapped":
                given = given[2]
            if given[0] == "inst":
                yield given[1], e[1]

    def partial(self, cls: Class, where: Module, wrap: int, seen: set[int]) -> Iterator[Partial]:
        """Sub-modules of a class, and of the classes it holds, that only some data reaches."""
        todo = [cls]
        for c in todo:
            if id(c) in seen or len(seen) > MOST_CLASSES:
                continue
            seen.add(id(c))
            members = self.members(c)
            todo += [m for m in members.values() if m is not None]
            forward = c.methods.get("forward")
            if forward is not None and members and forward.params:
                yield from self.in_forward(forward, members, where, wrap)

    def members(self, cls: Class) -> dict[str, Class | None]:
        """{field: its class when that is the project's, else None} of the sub-modules with parameters."""
        out: dict[str, Class | None] = {}
        inside, outside = self.program.bases(cls)
        if not any(o.endswith("Module") for o in outside):
            return out
        for c in (cls, *inside):
            for name, assigned in self.program.own_attributes(c).items():
                for e, function in assigned:
                    for x in self.program.entities(e, self.program.scope(function)) if e[0] == "call" else ():
                        if x[0] == "inst":
                            if any(o.endswith("Module") for o in self.program.bases(x[1])[1]):
                                out.setdefault(name, x[1])
                        elif x[0] == "extinst" and (
                            x[1] in knowledge.graph("parametric_modules") or x[1].endswith(("Sequential", "ModuleList"))
                        ):
                            out.setdefault(name, None)
        return out

    # ------------------------------------------------------------------------------------------------- forwards
    def in_forward(
        self, forward: Function, members: dict[str, Class | None], where: Module, wrap: int
    ) -> Iterator[Partial]:
        me = forward.params[0][0]
        if not any(self.by_content(s[2], forward, me) for s in self.program.statements(forward) if s[0] == "if"):
            return
        seen: Seen = {name: [] for name in members}
        self.uses(self.program.body(forward), (), forward, me, seen)
        for name, places in sorted(seen.items()):
            if not places:
                continue
            shared = set(places[0][0]).intersection(*(set(way) for way, _ in places))
            call = next((e for _, e in places if e[0] == "call"), None)
            if shared and call is not None:
                yield Partial("module", forward, call[1], max(shared)[0], f"{me}.{name}", where, wrap)

    def uses(self, block: Block, way: tuple[Branch, ...], f: Function, me: str, seen: Seen) -> None:
        """Every mention of a member with the tests of content that it stands under."""
        for s in block:
            for e in expressions_of(s):
                called: set[int] = set()
                for x in walk_expr(e):
                    if x[0] == "call" and x[2][0] == "attr":
                        name = self.member(x[2], me, seen)
                        if name is not None:
                            seen[name].append((way, x))
                            called.add(id(x[2]))
                    name = self.member(x, me, seen)
                    if name is not None and id(x) not in called:
                        seen[name].append((way, x))
            if s[0] == "if" and self.by_content(s[2], f, me):
                self.uses(s[3], (*way, (s[2][1], 1)), f, me, seen)
                self.uses(s[4], (*way, (s[2][1], 2)), f, me, seen)
                if s[3] and s[3][-1][0] in LEAVING:
                    way = (*way, (s[2][1], 2))
            elif s[0] not in ("def", "class"):
                for sub in blocks_of(s):
                    self.uses(sub, way, f, me, seen)

    def member(self, e: Expr, me: str, seen: Seen) -> str | None:
        return e[3] if e[0] == "attr" and e[3] in seen and e[2][0] == "name" and e[2][2] == me else None

    def by_content(self, test: Expr, f: Function, me: str) -> bool:
        """Whether a test asks what a tensor of this batch holds, or whether it is there."""
        content = knowledge.tensors("content")
        for x in walk_expr(test):
            if x[0] == "cmp" and self.asks_for_part(x, f):
                return True
            if x[0] != "call":
                continue
            last = callee_name(x)
            if x[2][0] == "attr" and last in content["methods"] and self.of_batch(x[2][2], f, me):
                return True
            name = self.program.qualified(x[2], self.program.scope(f)) or ""
            if x[3] and name in content["calls"] and self.of_batch(x[3][0], f, me):
                return True
            if last == "len" and x[3] and self.shapes.ragged(x[3][0], f, self.program.scope(f), x[1], 0):
                return True
        return False

    def asks_for_part(self, e: Expr, f: Function) -> bool:
        """`batch["image"] is not None`, `image is not None`, `"image" in batch`, where a collate function gives it for
        some batches only."""
        if len(e[2]) != 1 or e[2][0] not in ("is", "is not", "in", "not in"):
            return False
        a, b = e[3]
        params = {p[0] for p in f.params[1:]}
        if e[2][0] in ("in", "not in"):
            part = a[2] if a[0] == "const" and b[0] == "name" and b[2] in params else None
        elif b[0] != "const" or b[2] is not None:
            return False
        elif a[0] == "sub":
            part = a[3][2] if a[3][0] == "const" and a[2][0] == "name" and a[2][2] in params else None
        else:
            part = a[2] if a[0] == "name" and a[2] in params else None
        return part is not None and part in self.absent()

    def absent(self) -> set[str]:
        """The parts that the collate functions of the program give for some batches only."""
        if self._absent is None:
            self._absent = set()
            pages = list(self.suspects.pages.values())
            names = {n for p in pages if "collate_fn" in p.tokens for n in COLLATES.findall(p.text)}
            for page in pages if names else ():
                for f in page.functions:
                    if f.name in names:
                        self._absent.update(k for k in left_out(self.machine, f) if isinstance(k, str))
        return self._absent

    def of_batch(self, e: Expr, f: Function, me: str) -> bool:
        """Whether a value is made from what forward was given (not from the module's own fields alone)."""
        names = {x[2] for x in walk_expr(e) if x[0] == "name"} - {me, "torch"}
        params = {p[0] for p in f.params[1:]}
        for _ in range(4):
            if names & params:
                return True
            made: set[str] = set()
            for s in walk_block(self.program.body(f)):
                if s[0] == "assign" and any(t[0] == "name" and t[2] in names for t in s[2]):
                    made |= {x[2] for x in walk_expr(s[3]) if x[0] == "name"}
            if made <= names:
                break
            names |= made - {me, "torch"}
        return bool(names & params)

    # ------------------------------------------------------------------------------------------------ generation
    def unsynchronised(self, f: Function, switch: str) -> Iterator[Partial]:
        """Calls that run a sharded model in a loop without the agreement that the function offers."""
        param = next((p for p in f.params if p[0] == switch), None)
        if param is None or param[2] is None or param[2][0] != "const" or param[2][2]:
            return
        for caller, call in self.sharding_callers(f):
            bound = self.program.bind(f, call)
            given = bound.get(switch)
            if any(k is None for k, _ in call[4]):
                continue
            value = self.machine.pure(self.machine.pure_frame(caller), given) if given is not None else FALSE
            if value not in (FALSE, NONE):
                continue
            models = [*call[3][:1], *(v for k, v in call[4] if k == "model")]
            if call[2][0] == "attr":
                models.append(call[2][2])
            for m in models:
                wrap = self.sharded(m, caller)
                if wrap:
                    yield Partial("generate", caller, call[1], f.pos, switch, caller.module, wrap)
                    break

    def sharding_callers(self, f: Function) -> Iterator[tuple[Function, Expr]]:
        """Calls of a function from functions that wrap a model."""
        name = callable_name(f)
        for g in self.suspects.callers(name):
            text = self.suspects.text_of(g)
            if not any(w in text for w in self.sharders):
                continue
            scope = self.program.scope(g)
            for call in self.program.calls(g):
                if callee_name(call) == name and f in self.program.targets(call, scope):
                    yield g, call

    def sharded(self, e: Expr, f: Function) -> int:
        """Where a model of this name is sharded in a function, or 0."""
        if e[0] != "name" or self.machine.pure(self.machine.pure_frame(f), e) == UNKNOWN:
            return 0
        scope = self.program.scope(f)
        for s in self.program.statements(f):
            for x in (y for e2 in expressions_of(s) for y in walk_expr(e2) if y[0] == "call"):
                row = knowledge.api(self.program.qualified(x[2], scope) or "")
                if row is None or row.kind != "wraps_model" or row.result not in SHARDED:
                    continue
                bound = s[0] == "assign" and any(
                    y[0] == "name" and y[2] == e[2] for t in s[2] for y in (t, *(t[2] if t[0] == "tuple" else ()))
                )
                if bound or (row.result == "fsdp2_module" and x[3] and x[3][0][0] == "name" and x[3][0][2] == e[2]):
                    return int(x[1])
        return 0
