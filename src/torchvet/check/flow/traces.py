"""Traces: what a function does as far as other ranks can notice, and what of it one abstract rank runs.

A function is a *region tree* of items, in order:

    ("op", Op)
    ("call", Trace, pos, label)                        a project function, followed
    ("if", Value, then, orelse, pos, test pos)         blocks are tuples of items
    ("loop", key, trip Value, body, orelse, pos)       `for`
    ("while", Value, body, orelse, pos, test pos, whether a turn without collectives is as good as none)
    ("try", body, handlers, orelse, final, pos)        a handler is (items, pos, parts nobody, exception names)
    ("exit", how, pos)                                 return, break, continue, raise, quit (ends the program quietly)
    ("hole",)                                          where a generator-based context manager runs its body

`Walker.build` turns a tree into nodes for one abstract rank: guards that depend on the rank are folded, guards that
are the
same everywhere stay as choices. Nodes are built from the end backwards, each with its continuation, and hash-consed:
what
follows an `if c: return` is shared by both ways, never copied, so thirty early returns cost thirty nodes.
"""

from __future__ import annotations

from .ranks_values import NEGATED, UNKNOWN, at, holds_unknown, of_its_own, truth, varies
from .traces_questions import every, left_by, ops_of, swallowing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..program.model import Function, Module
    from .ranks_values import Place, Value

    Item = tuple[Any, ...]
    Items = tuple[Item, ...]

HEAVY = 400
"""A callee of more items than this (its own callees counted) is not inlined: it stands as one step, and is checked
by itself."""
MOST_NODES = 12000
"""Nodes for one root and one abstract rank; beyond, calls are no longer followed."""


class Op:
    """One collective call. `key` is what has to match on the other ranks; `group` is the process group it runs on;
    `doubted`: whether it communicates at all depends on what is not known (buffers made under a condition); `root`: the
    rank that gives or gets, which every rank has to name alike."""

    __slots__ = ("doubted", "family", "group", "key", "module", "name", "pos", "root", "row", "sure")

    def __init__(
        self,
        name: str,
        key: str,
        group: Any,
        module: Module,
        pos: int,
        row: Any = None,
        sure: bool = True,
        family: str = "",
        doubted: bool = False,
        root: Value = UNKNOWN,
    ) -> None:
        self.name = name
        self.key = key
        self.group = group
        self.module = module
        self.pos = pos
        self.row = row
        self.sure = sure
        self.family = family
        self.doubted = doubted
        self.root = root

    def __repr__(self) -> str:
        return f"<{self.name} {self.module.path}:{self.pos >> 44}>"


class Trace:
    """What one function does under one specialisation. `value` is what it returns; `outs` names the parameters that
    hold a
    uniform value afterwards. `busy` while it is being made: a recursive call does nothing that is known. `guarded`:
    a guard
    in it or in what it calls depends on the rank; `parts_here`: one of its own does, or of a callee that is
    `special`: made
    for arguments that no other call may pass."""

    __slots__ = (
        "busy", "function", "guarded", "has_ops", "has_quit", "items", "module", "outs", "partial", "parts_here",
        "special", "value", "weight",
    )  # fmt: skip

    def __init__(self, function: Function | None, module: Module) -> None:
        self.function = function
        self.module = module
        self.items: Items = ()
        self.value: Value = UNKNOWN
        self.outs: frozenset[str] = frozenset()
        self.busy = True
        self.has_ops = False
        self.has_quit = False
        self.guarded = False
        self.parts_here = False
        self.partial = False
        self.special = False
        self.weight = 0

    def finish(self, items: Items) -> None:
        self.items = prune(items)
        self.busy = False
        for item in every(self.items):
            self.weight += 1
            kind = item[0]
            if kind == "op":
                self.has_ops = True
                if varies(item[1].root):
                    self.guarded = self.parts_here = True
            elif kind == "call":
                callee = item[1]
                self.weight += callee.weight
                self.partial = self.partial or callee.busy or callee.partial
                self.has_ops = self.has_ops or callee.has_ops
                self.has_quit = self.has_quit or callee.has_quit
                self.guarded = self.guarded or callee.guarded
                self.parts_here = self.parts_here or (callee.special and callee.guarded)
            elif kind == "exit":
                self.has_quit = self.has_quit or item[1] == "quit"
            elif kind == "try":
                if swallowing(item):
                    self.guarded = self.parts_here = True
            elif kind in ("if", "while", "loop") and varies(item[2] if kind == "loop" else item[1]):
                self.guarded = self.parts_here = True

    @property
    def matters(self) -> bool:
        """Whether a caller has to know what this function does."""
        return self.has_ops or self.has_quit

    def __repr__(self) -> str:
        return f"<trace of {self.function}>"


def prune(items: Items) -> Items:
    """Leaves out what no other rank can notice: calls without collectives, branches and loops that hold nothing."""
    out: list[Item] = []
    for item in items:
        kind = item[0]
        if kind == "call" and not item[1].matters and not item[1].busy:
            continue
        if kind == "if":
            then, other = prune(item[2]), prune(item[3])
            if not then and not other:
                continue
            item = (*item[:2], then, other, *item[4:])
        elif kind == "loop":
            body, other = prune(item[3]), prune(item[4])
            if all(x[0] == "exit" and x[1] in ("break", "continue") for x in body):
                out.extend(other)
                continue
            item = (*item[:3], body, other, *item[5:])
        elif kind == "while":
            body, other = prune(item[2]), prune(item[3])
            if not body:
                out.extend(other)
                continue
            item = (*item[:2], body, other, *item[4:])
        elif kind == "try":
            body = prune(item[1])
            handlers = tuple([(prune(h[0]), *h[1:]) for h in item[2]])
            other, final = prune(item[3]), prune(item[4])
            ended = any("StopIteration" in h[3] and h[0] for h in handlers)
            item = ("try", body, handlers, other, final, *item[5:])
            handled = any(True for h in handlers if not h[2] for _ in ops_of(h[0]))
            if not (body or other or ended or handled or swallowing(item) or left_by(item) is not None):
                out.extend(final)
                continue
        out.append(item)
        if kind == "exit":
            break
    return tuple(out)


# -------------------------------------------------------------------------------------------------- one rank
class Node:
    """A step of one abstract rank with all that follows it. Two nodes of one table are equal when they are the same
    object.

    kind "op": data is (Op, chain, the root that this rank names or None);
    "call": a callee that is not inlined, data is (Trace, chain, pos);
    "branch": key is a value that is the same everywhere, `next` when it is true, `other` when not;
    "loop": key, data is (item, trip on this rank, chain), `other` is the body, `next` what follows;
    "mark": a guard that depends on the rank, data is (item, Trace, chain, taken): no step, only a note for the report;
    "end", "again" (the next turn of the loop in `key`), "raise", "quit": the ends of a path."""

    __slots__ = ("bits", "data", "id", "key", "kind", "next", "other", "steps")

    def __init__(self, number: int, kind: str, key: Any, data: Any, following: Node | None, other: Node | None) -> None:
        self.id = number
        self.kind = kind
        self.key = key
        self.data = data
        self.next = following
        self.other = other
        self.steps: bool = kind in ("op", "call") or bool(
            (following is not None and following.steps) or (other is not None and other.steps)
        )
        """Whether a collective lies on some path from here on."""
        self.bits: int = (following.bits if following is not None else 0) | (other.bits if other is not None else 0)
        """The keys of the branches from here on, one bit each (`Table.bit`)."""


class Table:
    """The nodes of one comparison, or of several that take the same collectives, hash-consed."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self._bits: dict[Any, int] = {}
        self._chains: dict[Any, Any] = {}
        self._trips: dict[Value, Value] = {}
        self._equalities: dict[Value, list[Any]] = {}
        self.called: dict[Any, Node] = {}
        """What calls of functions come to in which no rank decides anything: the same nodes on every rank."""
        self.start = 0
        """Nodes that were there before the comparison in progress."""
        self.end = self.node("end", None, None, None)
        self.stop = self.node("raise", None, None, None)

    def node(self, kind: str, key: Any, data: Any, following: Node | None, other: Node | None = None) -> Node:
        whole = (
            kind,
            key,
            tuple([x if isinstance(x, (bool, int, str)) else id(x) for x in data]) if data else None,
            following.id if following else -1,
            other.id if other else -1,
        )
        found = self._nodes.get(whole)
        if found is None:
            found = self._nodes[whole] = Node(len(self._nodes), kind, key, data, following, other)
            if kind == "branch":
                found.bits |= self.bit(key)
        return found

    def again(self, loop: Item) -> Node:
        """The next turn of a loop."""
        return self.node("again", id(loop), None, None)

    def deeper(self, chain: Any, trace: Trace, item: Item) -> Any:
        """A chain of calls with one more: the same object for the same calls, so that it is compared by identity."""
        key = (id(chain), id(trace), item[2], item[3])
        found = self._chains.get(key)
        if found is None:
            # the shorter chain is kept, so that its id stays its own
            found = self._chains[key] = ((*chain, (trace, item[2], item[3])), chain)
        return found[0]

    def trip(self, value: Value) -> Value:
        """One object for equal lengths of loops."""
        return self._trips.setdefault(value, value)

    def bit(self, key: Any) -> int:
        found = self._bits.get(key)
        if found is None:
            found = self._bits[key] = 1 << len(self._bits)
            if key[:2] == ("op", "==") and of_its_own(key[3]):
                self._equalities.setdefault(key[2], []).append(key)
        return found

    def excluded(self, key: Any) -> list[Any]:
        """The choices that are not so when this one is: `kind == "sharded"` where `kind == "full"`."""
        if key[:2] != ("op", "=="):
            return []
        return [k for k in self._equalities.get(key[2], ()) if k[3] != key[3] and k[3][0] == key[3][0]]

    def __len__(self) -> int:
        return len(self._nodes)


class Exits:
    """Where the ways out of a block lead."""

    __slots__ = ("again", "leave", "stop", "turn")

    def __init__(self, leave: Node, stop: Node, turn: Node | None = None, again: Node | None = None) -> None:
        self.leave = leave
        self.stop = stop
        self.turn = turn  # break
        self.again = again  # continue


class Walker:
    """Builds the nodes of one abstract rank. `takes(op)` says whether a collective counts (both ranks of a
    comparison are in
    its group); walkers of one table have the same."""

    def __init__(self, table: Table, place: Place, takes: Callable[[Op], bool]) -> None:
        self.table = table
        self.place = place
        self.takes = takes
        self.depth = 0
        self.inside: set[int] = set()
        """Callees that are being inlined: a recursive call runs nothing that is not known already."""
        self._called: dict[Any, Node] = {}
        self._shared = table.called if not any(caught(key) for key in place.chosen) else self._called

    def trace(self, trace: Trace) -> Node:
        """What this rank runs from the start to the end of a function."""
        return self.block(trace, trace.items, self.table.end, Exits(self.table.end, self.table.stop), ())

    def block(self, trace: Trace, items: Items, after: Node, exits: Exits, chain: Any) -> Node:
        for item in reversed(items):
            after = self.item(trace, item, after, exits, chain)
        return after

    def item(self, trace: Trace, item: Item, after: Node, exits: Exits, chain: Any) -> Node:
        kind = item[0]
        table = self.table
        if kind == "op":
            op = item[1]
            if not self.takes(op):
                return after
            return table.node("op", (op.key, op.group), (op, chain, named(op, self.place)), after)
        if kind == "if":
            then = self.block(trace, item[2], after, exits, chain)
            other = self.block(trace, item[3], after, exits, chain)
            return self.choice(trace, item, item[1], then, other, chain, item[5])
        if kind == "call":
            return self.call(trace, item, after, exits, chain)
        if kind == "exit":
            return self.leave(trace, item, exits)
        if kind == "loop":
            ended = self.block(trace, item[4], after, exits, chain)
            again = table.again(item)
            body = self.block(trace, item[3], again, Exits(exits.leave, exits.stop, after, again), chain)
            trip = at(item[2], self.place) if varies(item[2]) else UNKNOWN
            return self.loop(item, trace, trip, body, ended, after, chain)
        if kind == "while":
            ended = self.block(trace, item[3], after, exits, chain)
            again = table.again(item)
            body = self.block(trace, item[2], again, Exits(exits.leave, exits.stop, after, again), chain)
            if not self.quiet(body, (after, ended), again):
                body = self.choice(trace, item, item[1], body, ended, chain, item[5])
            return self.loop(item, trace, UNKNOWN, body, ended, after, chain)
        if kind == "try":
            return self.attempt(trace, item, after, exits, chain)
        return after  # a hole: the body of the `with` is built by its caller

    def leave(self, trace: Trace, item: Item, exits: Exits) -> Node:
        how = item[1]
        if how == "return":
            return exits.leave
        if how == "break":
            return exits.turn or exits.leave
        if how == "continue":
            return exits.again or exits.leave
        if how == "quit":
            return self.table.node("quit", None, (item, trace), None)
        return exits.stop

    def call(self, trace: Trace, item: Item, after: Node, exits: Exits, chain: Any) -> Node:
        callee: Trace = item[1]
        if callee.busy or not callee.matters:
            return after
        # what is called with a common continuation is the same step on every rank
        deeper = self.table.deeper(chain, trace, item)
        if id(callee) in self.inside:
            return after
        if callee.weight > HEAVY or self.depth > 40 or len(self.table) - self.table.start > MOST_NODES:
            if not callee.has_ops:
                return after
            return self.table.node("call", ("call", id(callee.function)), (callee, deeper, item[2]), after)
        key = (id(callee), after.id, exits.stop.id, id(deeper))
        called = self._called if callee.guarded or callee.partial else self._shared
        found = called.get(key)
        if found is None:
            self.depth += 1
            self.inside.add(id(callee))
            found = called[key] = self.block(callee, callee.items, after, Exits(after, exits.stop), deeper)
            self.inside.discard(id(callee))
            self.depth -= 1
        return found

    def attempt(self, trace: Trace, item: Item, after: Node, exits: Exits, chain: Any) -> Node:
        _, body, handlers, orelse, final, pos = item
        if final:
            after = self.block(trace, final, after, exits, chain)
            exits = Exits(
                self.block(trace, final, exits.leave, exits, chain),
                exits.stop,  # an exception ends the comparison, whatever its cleanup runs
                exits.turn and self.block(trace, final, exits.turn, exits, chain),
                exits.again and self.block(trace, final, exits.again, exits, chain),
            )
        # an exception of the program's own is as good as the end of the job; those that a handler catches on one
        # rank only
        # are looked at when it is chosen
        ended = self.block(trace, orelse, after, exits, chain)
        done = self.block(trace, body, ended, exits, chain)
        key = ("caught", trace.module.path, pos)
        if not handlers or key not in self.place.chosen:
            return done
        node = done
        if self.place.chosen[key]:
            node = exits.stop
            for number, (items, *_) in enumerate(reversed(handlers)):
                caught = self.block(trace, items, after, exits, chain)
                node = caught if number == 0 else self.split(("sym", (key, number)), caught, node, None)
        return self.table.node("mark", key, (item, trace, chain, str(self.place.chosen[key])), node)

    def loop(self, item: Item, trace: Trace, trip: Value, body: Node, ended: Node, after: Node, chain: Any) -> Node:
        if self.quiet(body, (after, ended), self.table.again(item)):
            return self.noted(body, ended)
        return self.table.node("loop", ("loop", id(item)), (item, trace, self.table.trip(trip), chain), ended, body)

    def noted(self, body: Node, node: Node) -> Node:
        """The guards that a quiet loop passed, kept as notes before what follows it."""
        marks: list[Node] = []
        at: Node | None = body
        while at is not None and at.kind in ("mark", "branch") and len(marks) < 4:
            if at.kind == "mark":
                marks.append(at)
            at = at.next
        for m in reversed(marks):
            node = self.table.node("mark", m.key, m.data, node)
        return node

    def quiet(self, body: Node, ends: tuple[Node, ...], again: Node) -> bool:
        """A loop whose turns run no collective and which is left to one place only is no step."""
        if ends[0] is not ends[1]:
            return body is again
        seen = set()
        stack = [body]
        while stack:
            n = stack.pop()
            if n is again or n is ends[0] or n.id in seen:
                continue
            seen.add(n.id)
            if n.kind not in ("branch", "mark") or len(seen) > 60:
                return False
            stack.append(n.next)  # type: ignore[arg-type]
            if n.other is not None:
                stack.append(n.other)
        return True

    def choice(self, trace: Trace, item: Item, guard: Value, then: Node, other: Node, chain: Any, pos: int) -> Node:
        if then is other:
            return then
        if plain(then) is plain(other):
            return meeting(then, other)
        here = at(guard, self.place)
        known = truth(here)
        if known is None:
            node = self.split(here, then, other, (trace.module.path, pos))
        else:
            node = then if known else other
        if varies(guard):
            node = self.table.node("mark", ("at", trace.module.path, pos), (item, trace, chain, str(known)), node)
        return node

    def split(self, guard: Value, then: Node, other: Node, place: Any) -> Node:
        """A choice over atoms: `a and b` is a choice inside a choice, so that equal atoms meet each other."""
        if then is other:
            return then
        kind = guard[0]
        if kind in ("const", "rc"):
            return then if guard[1] else other
        if kind == "op":
            name = guard[1]
            if name == "not":
                return self.split(guard[2], other, then, place)
            if name == "and":
                for n, g in enumerate(reversed(guard[2:])):
                    then = self.split(g, then, other, (place, n))
                return then
            if name == "or":
                for n, g in enumerate(reversed(guard[2:])):
                    other = self.split(g, then, other, (place, n))
                return other
            if name == "sel":
                yes = self.split(guard[3], then, other, (place, 1))
                no = self.split(guard[4], then, other, (place, 2))
                return self.split(guard[2], yes, no, (place, 0))
            if name in ("!=", "not in", "is not", ">=", ">"):
                guard = ("op", NEGATED[name], *guard[2:])
                then, other = other, then
        if holds_unknown(guard):
            guard = ("sym", ("at", place))
        return self.table.node("branch", guard, None, then, other)


def named(op: Op, place: Place) -> int | None:
    """The rank that gives or gets as one abstract rank names it, when that is a number."""
    if op.root == UNKNOWN:
        return None
    v = at(op.root, place)
    return v[1] if v[0] in ("const", "rc") and type(v[1]) is int else None


def caught(key: Any) -> bool:
    """Whether a decision is that of an exception: which handlers are run is asked in every function."""
    return isinstance(key, tuple) and key[0] == "caught"


def meeting(a: Node, b: Node) -> Node:
    """Where two ways that differ in notes only become one: the notes of later guards stay."""
    passed = {a.id}
    while a.kind == "mark":
        a = a.next  # type: ignore[assignment]
        passed.add(a.id)
    while b.id not in passed:
        b = b.next  # type: ignore[assignment]
    return b


def plain(node: Node) -> Node:
    """The node behind notes."""
    while node.kind == "mark":
        node = node.next  # type: ignore[assignment]
    return node
