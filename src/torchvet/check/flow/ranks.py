"""Do all ranks make the same collective calls in the same order? The questions that rules ask.

Every function that can part the ranks is taken as the start of a trace, the trace is built for a few abstract ranks,
and the
ranks are compared pair by pair on the groups they share. What its callers make up for (the other half of a paired
barrier
in another function) is no difference.
"""

from __future__ import annotations

from ...findings import ERROR, POSSIBLE
from .ranks_divergence import Divergence
from .ranks_explain import divergence
from .ranks_machine import Machine
from .ranks_suspects import Suspects
from .ranks_values import LAST, LEADER, NODE_LEADER, OTHER, Place, at, leaves, varies
from .traces import HEAVY, Op, Table, Trace, Walker
from .traces_compare import Comparison
from .traces_questions import chosen_tries, conditions, every, left_by, ops_of, reached, swallowing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..config import Options
    from ..program.model import Function, Module
    from ..program.program import Program
    from .ranks_evaluation import Alone
    from .ranks_forward import Partial
    from .ranks_pages import Page
    from .ranks_patience import Long
    from .ranks_processes import Forked, Teardown
    from .ranks_races import Race
    from .ranks_saves import Save, Stranded
    from .ranks_sends import Unmatched
    from .ranks_shapes import Ragged
    from .ranks_threads import Concurrent
    from .ranks_values import Value

CALLER_LEVELS = 2
SELF_KILL = "os.kill(os.getpid(), signal.SIGKILL"
FEW = 24
"""Suspects up to which reading their statements beforehand is not worth its own cost."""
MOST_DECISIONS = 16
ONE = Place("one", {"world": 1, "local": 1, "node": 0})
ANOTHER = Place("another", {"world": 2, "local": 2, "node": 0})


class Ranks:
    def __init__(self, program: Program, options: Options | None = None) -> None:
        self.program = program
        self.suspects = Suspects(program)
        self.machine = Machine(program, self.suspects)
        self.gave_up: list[str] = []
        self.unsaid: dict[int, list[Any]] = {}
        """By function: the differences that are not reported (`ranks_explain.unsaid`)."""
        self._found: list[Divergence] | None = None
        self._apart: list[Divergence] = []
        """Collectives of which each rank names another source."""
        self._of: dict[int, list[Divergence]] = {}

    def divergences(self) -> list[Divergence]:
        if self._found is None:
            found: dict[Any, Divergence] = {}
            functions = self.suspects.functions()
            parts = self.parting(functions)
            for function in functions:
                with self.program.guard(function.module):
                    for d in self.confirmed(function) if parts(function) else ():
                        known = found.get(d.key)
                        if known is None or (d.sure and not known.sure):
                            found[d.key] = d
            why = "ranks: more ways than are followed"
            self.program.given_up += [(place, why) for place in sorted({*self.gave_up, *self.machine.over_budget})]
            # what only some ranks run is said as that, not again as another order of calls
            guarded = {
                (d.guard[0].path, d.guard[1], d.op.module.path, d.op.pos)
                for d in found.values()
                if d.kind == "guarded" and d.confidence != POSSIBLE
            }
            told = [
                d
                for d in found.values()
                if d.kind != "order" or (d.guard[0].path, d.guard[1], d.op.module.path, d.op.pos) not in guarded
            ]
            self._apart = [d for d in told if d.kind == "roots" and d.confidence != POSSIBLE]
            told = [d for d in told if d.kind != "roots"]
            self._found = sorted(told, key=lambda d: (d.module.path, d.pos, d.guard[1]))
        return self._found

    def parting(self, functions: list[Function]) -> Callable[[Function], bool]:
        """The question whether a suspect can part the ranks by what stands in it; a few are traced unasked."""
        if len(functions) <= FEW:
            return lambda f: True
        from .ranks_parting import Parting

        return Parting(self.suspects).may

    def wrong_sources(self) -> list[tuple[Module, int, Function | None, str, str]]:
        """(module, pos, function, collective, rank as written): a rank counted inside a group where one of the world is
        expected; "" where each rank names another one."""
        self.divergences()
        found: dict[tuple[str, int], tuple[Module, int, Function | None, str, str]] = {
            (d.module.path, d.pos): (d.module, d.pos, d.place, d.op.name, "") for d in self._apart
        }
        found.update(self.machine.wrong_sources)
        return [found[k] for k in sorted(found)]

    def races(self) -> list[Race]:
        """Files that rank 0 writes or deletes while nothing makes the others wait."""
        from .ranks_races import Races

        out = Races(self.machine).found()
        if any("exists(" in page.text or "isfile(" in page.text for page in self.pages()):
            from .ranks_polls import Polls

            out += Polls(self.machine).found()
        return out

    def ragged(self) -> list[Ragged]:
        """Collectives over tensors whose length follows from each rank's own data."""
        from .ranks_shapes import Shapes

        return Shapes(self.machine).found()

    def partial_forwards(self) -> list[Partial]:
        """Forwards of wrapped models that do on one rank what they do not do on another."""
        from .ranks_forward import Forwards

        return Forwards(self.machine).found()

    def alone(self) -> list[Alone]:
        """Samplers that share the data among all ranks where only rank 0 runs."""
        if not any("ampler(" in page.text for page in self.pages()):
            return []
        from .ranks_evaluation import Evaluations

        return Evaluations(self.machine).found()

    def concurrent(self) -> list[Concurrent]:
        """Collectives on two threads over the same group."""
        if not self.mentions("Thread", "Timer", "submit"):
            return []
        from .ranks_threads import Threads

        return Threads(self.machine).found()

    def shared_saves(self) -> list[Save]:
        """Checkpoints that every rank writes to the same path."""
        if not any(".module" in page.text and ".state_dict()" in page.text for page in self.pages()):
            return []
        from .ranks_saves import Saves

        return Saves(self.machine).shared()

    def stranded(self) -> list[Stranded]:
        """Errors of rank 0 that it does not tell the ranks that wait for it."""
        from .ranks_saves import Saves

        return Saves(self.machine).stranded()

    def unmatched(self) -> list[Unmatched]:
        """Sends and receives without a partner, asynchronous calls that nothing waits for."""
        if not self.mentions("async_op", "send", "recv", "isend", "irecv", "send_object_list", "recv_object_list"):
            return []
        from .ranks_saves import Saves
        from .ranks_sends import Sends

        return Sends(self.machine, Saves(self.machine)).found()

    def forked(self) -> list[Forked]:
        """Processes forked behind the first use of CUDA or of a process group, which the child uses too."""
        if not self.mentions("Process", "Pool", "ProcessPoolExecutor"):
            return []
        from .ranks_processes import Processes

        return Processes(self.machine).forked()

    def teardowns(self) -> list[Teardown]:
        """Process groups that some ranks take down while others still use them."""
        from .ranks_guarded import conditional

        word = "destroy_process_group("
        if not any(word in page.text and conditional(page.text, word) for page in self.pages()):
            return []
        from .ranks_processes import Processes

        return Processes(self.machine).teardowns()

    def long_work(self) -> list[Long]:
        """Work of the first rank that can take longer than the others wait."""
        if not (self.mentions("timedelta") and self.mentions("init_process_group")) and not any(
            w in page.text for page in self.pages() for w in ("first(", "download", "tokeni")
        ):
            return []
        from .ranks_patience import Patience

        return Patience(self.machine).found()

    def mentions(self, *words: str) -> bool:
        """Whether one of the words stands in a file that is parsed."""
        return any(not page.tokens.isdisjoint(words) for page in self.pages())

    def pages(self) -> list[Page]:
        self.suspects.find()
        return list(self.suspects.pages.values())

    def confirmed(self, function: Function) -> list[Divergence]:
        """The divergences of a function that its callers do not make up for."""
        trace = self.machine.root(function)
        if not trace.parts_here or not trace.has_ops:
            return []  # what parts the ranks lies in a function that is looked at by itself
        out = self.of(function)
        if not out or self.bracketed(function):
            return []
        # what happens in a handler or a loop of this function is so, whoever calls it
        own = [d for d in out if d.why in ("exception", "caught") or d.kind in ("leaves", "trips")]
        rest = [d for d in out if d not in own]
        return own + (self.survivors(rest, function, CALLER_LEVELS, {id(function)}) if rest else [])

    def bracketed(self, function: Function) -> bool:
        """Whether `__enter__` and `__exit__` of a class make up for each other: the others wait in the one for the rank
        that comes to the other when it is through with the block."""
        if function.owner is None or function.name not in ("__enter__", "__exit__"):
            return False
        halves = [self.program.method(function.owner, name) for name in ("__enter__", "__exit__")]
        whole = Trace(function, function.module)
        whole.finish(
            tuple(("call", self.machine.root(f), f.pos, f.name) for f in halves if f is not None)  # both or none
        )
        return None not in halves and not any(True for _ in self.compared(whole))

    def survivors(self, found: list[Divergence], function: Function, levels: int, seen: set[int]) -> list[Divergence]:
        callers = []
        for caller, _ in self.program.callers(function)[:8]:
            if id(caller) not in seen and caller not in callers:
                callers.append(caller)
        if not callers or self.machine.root(function).weight > HEAVY:
            return found  # too long to be looked at inside of its callers
        out: list[Divergence] = []
        for caller in callers:
            if not self.holds(caller, function):
                return found
            theirs = self.of(caller)
            keys = {d.key for d in theirs}
            ops = {(d.op.module.path, d.op.pos) for d in theirs}
            out += [d for d in found if d not in out and (d.key in keys or (d.op.module.path, d.op.pos) in ops)]
        return out

    def holds(self, caller: Function, function: Function) -> bool:
        """Whether the caller's trace follows a call of the function (its trace may hold nothing of it)."""
        trace = self.machine.root(caller)
        if (id(caller), id(function)) in self.machine.met:
            return True
        return any(t.function is function for t in reached(trace))

    def of(self, function: Function) -> list[Divergence]:
        key = id(function)
        if key not in self._of:
            self._of[key] = []
            try:
                trace = self.machine.root(function)
                if trace.guarded and trace.has_ops:
                    self._of[key] = list(self.compared(trace))
            except RecursionError:
                self.gave_up.append(f"{function.module.path}:{function.line} {function.qualname}")
        return self._of[key]

    # --------------------------------------------------------------------------------------------- comparison
    def compared(self, trace: Trace) -> Iterator[Divergence]:
        axes, decisions, guards = guard_leaves(trace)
        pairs: list[tuple[Place, Place, Any]] = []
        if axes & {"world", "local", "node"}:
            pairs.append((LEADER, OTHER, "world"))
            if parted(guards, OTHER, LAST):
                pairs.append((OTHER, LAST, "world"))
            if axes & {"local", "node"} and parted(guards, LEADER, NODE_LEADER):
                pairs.append((LEADER, NODE_LEADER, "world"))
        for axis in axes - {"world", "local", "node"}:
            pairs.append((Place("first", {axis: 0}), Place("other", {axis: 1}), axis))
        for key, how in caught_in(trace):
            if how in ("ended", "left"):
                pairs.append((LEADER.decided(key, True), OTHER.decided(key, False), "world"))
                if how == "left":
                    pairs.append((LEADER.decided(key, False), OTHER.decided(key, True), "world"))
            else:
                pairs.append((ONE.decided(key, True), ANOTHER.decided(key, False), "world"))
        for key in decisions:
            # two ranks that differ in nothing but how their own data turned out
            pairs.append((ONE.decided(key, True), ANOTHER.decided(key, False), "world"))
        found: dict[Any, Divergence] = {}
        # a doubted step is asked about last: it hides nothing that is sure
        doubts = self.machine.doubts and any(op.doubted for op in ops_of(trace.items))
        rounds = [(pair, False) for pair in pairs] + [(pair, True) for pair in pairs if doubts]
        tables: dict[Any, Table] = {}
        for (a, b, axis), doubted in rounds:
            takes = Takes(a, b, axis, doubted)
            table = tables.setdefault((axis, doubted, a.axes.get("world"), b.axes.get("world")), Table())
            table.start = len(table)
            x, y = Walker(table, a, takes).trace(trace), Walker(table, b, takes).trace(trace)
            comparison = Comparison(table)
            for difference in comparison.run(x, y):
                d = divergence(difference, a, b)
                if difference.unsaid is not None:
                    self.unsaid.setdefault(id(trace.function), []).append(difference.unsaid)
                if d is None or d.op.doubted != doubted:
                    continue
                if d.kind == "roots" and conditions(trace.items, d.op, True):
                    d.confidence = POSSIBLE  # `if is_source: broadcast(x, src=rank)`: only one of them may come here
                known = found.get(d.key)
                # the first collective on which they part; one under conditions gives way to one that surely runs
                better = known is not None and (
                    known.confidence == POSSIBLE != d.confidence
                    # the collective that stands beside the guard says more than one far from it
                    or (known.confidence == d.confidence and known.op.module is not trace.module is d.op.module)
                )
                if known is None or better or (known.sure and known.severity != ERROR and d.severity == ERROR):
                    d.function = trace.function
                    found[d.key] = d
            if comparison.gave_up and trace.function is not None:
                self.gave_up.append(f"{trace.module.path}:{trace.function.line} {trace.function.qualname}")
        told = {d.guard[1] for d in found.values() if d.kind != "exit"}
        # who calls under a guard what ends the program may leave there too: a consequence of what is said of the guard
        for d in found.values():
            if d.kind != "exit" or (not self.meant_to_fail(d) if d.exit is not None else d.guard[1] not in told):
                yield d

    def meant_to_fail(self, d: Divergence) -> bool:
        """Whether the function in which ranks leave kills its own process elsewhere: it is there to inject faults."""
        module, line = d.guard[0], (d.exit or d.guard[1]) >> 44
        rows = {n + 1 for n, x in enumerate(self.program.lines(module.path)) if SELF_KILL in x}
        return bool(rows) and any(
            f.first_line <= line <= f.end_line and any(f.first_line <= row <= f.end_line for row in rows)
            for f in module.all_functions()
        )


def parted(guards: list[Value], a: Place, b: Place) -> bool:
    """Whether two abstract ranks can take different ways at one of the guards."""
    return any(at(v, a) != at(v, b) for v in guards)


def guard_leaves(trace: Trace) -> tuple[set[Any], list[Any], list[Value]]:
    """(the axes, the keys of local decisions) on which guards of a trace and of what it calls depend; those guards."""
    out: set[Any] = set()
    guards: dict[Value, None] = {}
    decisions: dict[Any, None] = {}
    seen: set[int] = set()
    stack = [trace]
    while stack:
        t = stack.pop()
        if id(t) in seen:
            continue
        seen.add(id(t))
        for item in every(t.items):
            kind = item[0]
            v = item[1] if kind in ("if", "while") else item[2] if kind == "loop" else None
            if kind == "op":
                v = item[1].root
            if v is not None and v not in guards and varies(v):
                guards[v] = None
                for x in leaves(v):
                    if x[0] == "rank":
                        out.add(x[1])
                    elif len(decisions) < MOST_DECISIONS:
                        decisions[x[1]] = None
            elif item[0] == "call" and item[1].guarded:
                stack.append(item[1])
    return out, list(decisions), list(guards)


def caught_in(trace: Trace) -> list[tuple[Any, str]]:
    """(key, how) of the handlers that can take one rank elsewhere: of a function, and of what it alone calls so."""
    out: list[tuple[Any, str]] = []
    guarded = {
        id(x) for item in every(trace.items) if item[0] == "if" and varies(item[1]) for x in every(item[2] + item[3])
    }
    chosen = chosen_tries(trace.items)
    seen = {id(trace)}
    stack = [trace]
    while stack:
        t = stack.pop()
        for item in every(t.items):
            if item[0] == "try" and len(out) < 4:
                how = swallowing(item)
                # an iterator that every rank runs ends on every rank; one that only some run is theirs alone
                if how == "ended" and id(item) not in guarded:
                    how = ""
                if not how and id(item) in chosen and left_by(item) is not None:
                    how = "left"
                if how:
                    out.append((("caught", t.module.path, item[5]), how))
            elif item[0] == "call" and item[1].special and item[1].guarded and id(item[1]) not in seen:
                seen.add(id(item[1]))
                stack.append(item[1])  # a method of an object that holds the wrapped model runs it only here
    return out


class Takes:
    """Whether two abstract ranks are both members of the group of a collective."""

    def __init__(self, a: Place, b: Place, axis: Any, doubted: bool = True) -> None:
        self.a = a
        self.b = b
        self.axis = axis
        self.doubted = doubted

    def __call__(self, op: Op) -> bool:
        group = op.group
        if op.doubted and not self.doubted:
            return False
        if group == "world":
            return True
        if group == "mesh" or (isinstance(group, tuple) and group[0] == "copy"):
            return bool(self.axis == "world")
        if isinstance(group, tuple) and group[0] == "ranks":
            return self.a.axes.get("world") in group[1] and self.b.axes.get("world") in group[1]
        return bool(group == self.axis or self.axis == ("group", group))
