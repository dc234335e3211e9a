"""Collectives on two threads of one process over the same group: nothing says in which order they go out.

The function that a thread runs is followed like any other; what the starting function runs on the same group after
`start()`, before it joins the thread, can come before it on one rank and after it on another.
"""

from __future__ import annotations

from ..program.model import walk_expr
from ..program.program import callee_name
from .ranks_values import varies
from .traces_questions import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function, Module
    from .ranks_machine import Machine
    from .traces import Items, Op, Trace

STARTS = ("Thread", "Timer", "submit")
JOINS = (".join(", ".result(", ".wait(")
MOST_TRACES = 300


class Concurrent:
    """A collective of the main thread at `pos` and one of the thread that was started at `start`."""

    __slots__ = ("function", "name", "pos", "start", "their_module", "their_pos", "theirs")

    def __init__(self, function: Function, pos: int, name: str, start: int, theirs: Op) -> None:
        self.function = function
        self.pos = pos
        self.name = name
        self.start = start
        self.theirs = theirs.name
        self.their_module: Module = theirs.module
        self.their_pos = theirs.pos

    @property
    def module(self) -> Module:
        return self.function.module


class Threads:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    def found(self) -> list[Concurrent]:
        self.suspects.find()
        out: list[Concurrent] = []
        for page in list(self.suspects.pages.values()):
            if page.tokens.isdisjoint(STARTS) or page.tokens.isdisjoint(self.suspects.steps | self.suspects.hot_names):
                continue
            for f in page.holding(*(w + "(" for w in STARTS if w in page.tokens)):
                with self.program.guard(f.module):
                    out += self.of(f)
        return out

    def of(self, f: Function) -> Iterator[Concurrent]:
        for e in self.program.calls(f):
            target = self.target(e)
            if target is None or not self.suspects.is_hot(f) or not self.may_follow(f, e[1], target):
                continue
            value = self.machine.pure(self.machine.pure_frame(f), target)
            if value[0] != "func" or not self.suspects.is_hot(value[1]):
                continue
            theirs = {op.group: op for op in reversed(self.ops(self.machine.root(value[1], value[2])))}
            if not theirs:
                continue
            joined = self.joined(f, e[1])
            for pos, op in self.after(self.machine.root(f), e[1], value[1]):
                if joined and pos >= joined:
                    break
                if op.group in theirs:
                    yield Concurrent(f, pos, op.name, e[1], theirs[op.group])
                    break

    def may_follow(self, f: Function, start: int, target: Expr) -> bool:
        """Whether a name that reaches a collective is called behind a position, by anything but the thread: asked
        before any trace is made."""
        own = target[-1] if target[0] in ("name", "attr") else ""
        s = self.suspects
        for e in self.program.calls(f):
            if (
                e[1] > start
                and (name := callee_name(e)) not in (own, "start")
                and (name in s.hot_names or name in s.steps or name in s.plain_steps)
            ):
                return True
        return False

    def target(self, e: Expr) -> Expr | None:
        """What a call starts on another thread."""
        last = callee_name(e)
        if last == "submit" and e[2][0] == "attr" and e[3]:
            return e[3][0]  # type: ignore[no-any-return]
        if last in ("Thread", "Timer"):
            return next((v for k, v in e[4] if k in ("target", "function")), e[3][1] if len(e[3]) > 1 else None)
        return None

    def ops(self, trace: Trace) -> list[Op]:
        """Every collective of a trace and of what it calls."""
        out: list[Op] = []
        seen: set[int] = set()
        stack = [trace]
        while stack and len(seen) < MOST_TRACES:
            t = stack.pop()
            if id(t) in seen:
                continue
            seen.add(id(t))
            for item in every(t.items):
                if item[0] == "op":
                    out.append(item[1])
                elif item[0] == "call":
                    stack.append(item[1])
        return out

    def after(self, trace: Trace, start: int, thread: Function) -> Iterator[tuple[int, Op]]:
        """(position in the function, collective) of what it runs behind a position."""
        for item in every(alongside(trace.items, start)):
            if item[0] == "op" and item[1].pos > start:
                yield item[1].pos, item[1]
            elif item[0] == "call" and item[2] > start and item[1].function is not thread:
                for op in self.ops(item[1]):
                    yield item[2], op

    def joined(self, f: Function, start: int) -> int:
        """Where the function waits for its threads behind a position, itself or in what it calls; 0: nowhere."""
        scope = self.program.scope(f)
        for e in self.program.calls(f):
            if e[1] <= start:
                continue
            if "." + callee_name(e) + "(" in JOINS and e[2][0] == "attr" and not any(
                x[0] == "const" for x in walk_expr(e[2][2])
            ):  # fmt: skip
                return int(e[1])
            for g in self.program.targets(e, scope)[:2]:
                if any(j in self.suspects.text_of(g) for j in JOINS):
                    return int(e[1])
        return 0


def alongside(items: Items, start: int, again: bool = False) -> Items:
    """What can run beside a thread that is started at a position: not the other way of the choice that led to it,
    unless a later turn of a loop may take that."""
    out = []
    for item in items:
        kind = item[0]
        if kind == "if":
            ways = [any(x[0] == "if" and x[4] == start for x in every(block)) for block in item[2:4]]
            other = again and not varies(item[1])
            then, orelse = [
                alongside(block, start, again) if own or not theirs or other else ()
                for block, own, theirs in zip(item[2:4], ways, reversed(ways))
            ]
            item = (*item[:2], then, orelse, *item[4:])
        elif kind == "loop":
            item = (*item[:3], alongside(item[3], start, True), *item[4:])
        elif kind == "while":
            item = (*item[:2], alongside(item[2], start, True), *item[3:])
        out.append(item)
    return tuple(out)
