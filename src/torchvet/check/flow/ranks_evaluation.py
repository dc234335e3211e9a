"""A DistributedSampler in what only rank 0 runs: it gives rank 0 its share, one in N of the samples, nobody the rest.

From each construction of such a sampler upwards: does a rank test stand around it, or around a call that leads there
(two levels)? The tests between are asked with what the call passes.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, expressions_of, walk_expr
from ..program.program import callee_name
from .ranks_frames import Frame
from .ranks_guarded import LEADS, SOME, Guarded, side
from .ranks_pages import callable_name
from .ranks_values import LEADER, UNKNOWN, at, truth
from .traces import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Module
    from .ranks_machine import Machine
    from .ranks_values import Value

    Tests = tuple[tuple[Expr, bool], ...]

LEVELS = 2
MOST_CALLERS = 12


class Alone:
    """A sampler made at `pos` for N ranks where `call` (in `caller`) is run by rank 0 only."""

    __slots__ = ("call", "caller", "function", "guard", "pos")

    def __init__(self, function: Function, pos: int, caller: Function, call: int, guard: int) -> None:
        self.function = function
        self.pos = pos
        self.caller = caller
        self.call = call
        self.guard = guard

    @property
    def module(self) -> Module:
        return self.function.module


class Evaluations:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects
        self._guards: dict[int, list[tuple[int, str, int]]] = {}

    def found(self) -> list[Alone]:
        self.suspects.find()
        samplers = set(knowledge.names("sampler"))
        words = {n.rpartition(".")[2] for n in samplers}
        out: list[Alone] = []
        for page in list(self.suspects.pages.values()):
            here = page.tokens & words
            if not here:
                continue
            for f in page.holding(*(w + "(" for w in here)):
                with self.program.guard(f.module):
                    for e, tests in constructions(self.program.body(f), here, ()):
                        name = self.program.qualified(e[2], self.program.scope(f)) or ""
                        if knowledge.canonical(name) in samplers and self.for_all(e):
                            alone = self.alone(f, e, tests)
                            if alone is not None:
                                out.append(alone)
        return out

    def for_all(self, e: Expr) -> bool:
        """The sampler shares the data among all ranks: nobody says how many there are, or which one this is."""
        return len(e[3]) == 1 and not any(k in (None, "num_replicas", "rank") for k, _ in e[4])

    def alone(self, f: Function, e: Expr, tests: Tests) -> Alone | None:
        who, guard = self.side(f, e[1])
        if who == LEADS:
            return Alone(f, e[1], f, e[1], guard)
        if who == SOME:
            return None
        return self.above(f, f, e, tests, LEVELS, {id(f)})

    def above(self, g: Function, f: Function, e: Expr, tests: Tests, levels: int, seen: set[int]) -> Alone | None:
        """A call of `g` that only rank 0 runs, and with whose arguments the tests around the sampler can hold."""
        for caller, call in self.callers(g):
            if id(caller) in seen or (g is f and tests and not self.reached(f, call, caller, tests)):
                continue
            who, guard = self.side(caller, call[1])
            if who == LEADS:
                return Alone(f, e[1], caller, call[1], guard)
            if who != SOME and levels > 1:
                found = self.above(caller, f, e, (), levels - 1, seen | {id(caller)})
                if found is not None:
                    return found
        return None

    def callers(self, g: Function) -> list[tuple[Function, Expr]]:
        """Calls of a function, those of its own module first."""
        name = callable_name(g)
        named = sorted(self.suspects.callers(name), key=lambda f: f.module is not g.module)
        out: list[tuple[Function, Expr]] = []
        for f in named[:MOST_CALLERS]:
            for h in self.program.with_nested(f):
                scope = self.program.scope(h)
                for call in self.program.calls(h):
                    if callee_name(call) == name and g in self.program.targets(call, scope):
                        out.append((h, call))
        return out

    def side(self, f: Function, pos: int) -> tuple[str, int]:
        """(who runs what stands at a position, where the test that says so stands)."""
        known = self._guards.get(id(f))
        if known is None:
            known = self._guards[id(f)] = []
            if self.suspects.is_ranked(f) or f.parent is not None:
                for s, guards in Guarded(self.machine, f).statements():
                    known.append((s[1], side(guards), guards[-1][1][1] if guards else 0))
        best = ("all", 0)
        for start, who, guard in known:
            if start >> 44 <= pos >> 44:
                best = (who, guard)
        return best

    def reached(self, f: Function, call: Expr, caller: Function, tests: Tests) -> bool:
        """Whether the tests around the sampler can hold on rank 0 with these arguments."""
        outer = self.machine.pure_frame(caller)
        env: dict[str, Value] = {}
        given = self.program.bind(f, call)
        for p in f.params[1:] if f.is_method else f.params:
            if p[0] in given:
                v = self.machine.pure(outer, given[p[0]])
            else:
                v = ("const", p[2][2]) if p[2] is not None and p[2][0] == "const" else UNKNOWN
            if v != UNKNOWN:
                env[p[0]] = v
        frame = Frame(self.machine, f, Trace(f, f.module), env, None)
        for e, wanted in tests:
            known = truth(at(frame.eval(e), LEADER))
            frame.items = []
            if known is not None and known is not wanted:
                return False
        return True


def constructions(block: Block, words: set[str], tests: Tests) -> Iterator[tuple[Expr, Tests]]:
    """Calls of these names with the tests (and their outcome) that stand around them."""
    for s in block:
        for e in expressions_of(s):
            yield from in_expression(e, words, tests)
        if s[0] == "if":
            yield from constructions(s[3], words, (*tests, (s[2], True)))
            yield from constructions(s[4], words, (*tests, (s[2], False)))
        elif s[0] not in ("def", "class"):
            for sub in blocks_of(s):
                yield from constructions(sub, words, tests)


def in_expression(e: Expr, words: set[str], tests: Tests) -> Iterator[tuple[Expr, Tests]]:
    if e[0] == "ifexp":
        yield from in_expression(e[3], words, (*tests, (e[2], True)))
        yield from in_expression(e[4], words, (*tests, (e[2], False)))
        return
    for x in walk_expr(e):
        if x[0] == "call" and callee_name(x) in words:
            yield x, tests
        elif x[0] == "ifexp" and x is not e:
            yield from in_expression(x, words, tests)
            return
