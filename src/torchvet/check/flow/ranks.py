"""Do all ranks make the same collective calls in the same order? The questions that rules ask.

Every function that can part the ranks is taken as the start of a trace, the trace is built for a few abstract ranks, and the
ranks are compared pair by pair on the groups they share. What its callers make up for (the other half of a paired barrier
in another function) is no difference.
"""

from __future__ import annotations

from ...findings import CERTAIN, ERROR, LIKELY, POSSIBLE, WARNING, Text
from .ranks_machine import Machine
from .ranks_suspects import Suspects
from .ranks_values import LAST, LEADER, NODE_LEADER, OTHER, Place, leaves, varies
from .traces import Op, Table, Trace, Walker, conditions, contains, every, first_op, keys_in
from .traces_compare import Comparison, Difference, steps_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..config import Options
    from ..program.model import Function, Module
    from ..program.program import Program
    from .ranks_values import Value
    from .traces import Item, Node

CALLER_LEVELS = 2
MOST_DECISIONS = 16
ONE = Place("one", {"world": 1, "local": 1, "node": 0})
ANOTHER = Place("another", {"world": 2, "local": 2, "node": 0})
DECIDERS = (Text("one rank", "某个 rank"), Text("another rank", "另一个 rank"))
STATE_WORDS = ("state", "checkpoint", "save", "full_tensor", "full_params", "load")


class Divergence:
    """One place where ranks part.

    `kind`: "guarded" (a collective under a guard), "exit" (after some ranks left), "order", "trips", "leaves" (a loop).
    `why` says what data of one rank decides ("number", "clock", "signal", "share", "set"), "" for a rank test.
    `op` is the collective, at `module`, `pos`; `guard` is (module, pos of the test, Value); `exit` the position where ranks
    leave, in the guard's module, or None; `origin` (module path, pos, name) where the rank enters; `chain` the calls from the
    guard to the collective, (module, pos, name); `rows` who runs what."""

    __slots__ = (
        "chain", "confidence", "exit", "function", "guard", "kind", "leaver", "module", "op", "origin", "pos", "rows", "runner",
        "severity", "sure", "why",
    )  # fmt: skip

    def __init__(self, kind: str, op: Op, guard: tuple[Module, int, Value]) -> None:
        self.kind = kind
        self.op = op
        self.module = op.module
        self.pos = op.pos
        self.guard = guard
        self.exit: int | None = None
        self.origin: Any = None
        self.chain: list[tuple[Module, int, str]] = []
        self.rows: list[tuple[Text, Text]] = []
        self.runner: Text = Text("")
        self.leaver: Text = Text("")
        self.function: Function | None = None
        self.sure = True
        self.why = ""
        self.severity = ERROR
        self.confidence = CERTAIN

    @property
    def many(self) -> bool:
        """Whether `runner` is a plural."""
        return str(self.runner).startswith("other") or str(self.runner).endswith("nodes")

    @property
    def place(self) -> Function | None:
        """The function that holds the finding."""
        best: Function | None = None
        line = self.pos >> 44
        for f in self.module.all_functions():
            if f.first_line <= line <= f.end_line and (best is None or f.first_line > best.first_line):
                best = f
        return best

    @property
    def fault(self) -> str:
        """The name of the rule that this is a case of."""
        if self.kind == "trips":
            return "collective-order" if self.why == "set" else "uneven-loop"
        if self.why in ("clock", "signal", "flag"):
            return "local-stop-decision"
        if self.why:
            return "local-skip"
        if self.kind == "leaves":
            return "local-stop-decision"
        if self.kind == "exit":
            return "collective-after-rank-exit"
        if self.kind == "order":
            return "collective-order"
        names = {
            "group": "group-made-by-some",
            "state": "rank-guarded-sharded-state",
            "forward": "rank-guarded-forward",
        }
        return names.get(self.subject, "rank-guarded-collective")

    @property
    def subject(self) -> str:
        """What the collective is about: "group" (making one), "state" (saving, loading, gathering shards), "forward", or
        "collective"."""
        row = self.op.row
        if row is not None and row.kind == "group_create":
            return "group"
        if row is not None and row.kind in ("forward_collective", "backward_collective"):
            return "forward"
        name = self.op.name.lower()
        return "state" if any(w in name for w in STATE_WORDS) else "collective"

    def places(self) -> list[tuple[Module, int, Text]]:
        """The way to the collective: where the rank enters, the guard, where ranks leave, the calls in between."""
        out: list[tuple[Module, int, Text]] = []
        guard, pos, _ = self.guard
        if self.origin is not None and self.origin[1] != pos and self.origin[0] == guard.path:
            out.append(
                (guard, self.origin[1], Text("the rank comes from {name}", "rank 来自 {name}", name=self.origin[2]))
            )
        out.append((guard, pos, Text("ranks part here", "各 rank 在此分开")))
        if self.exit is not None and self.exit != self.pos:
            out.append((guard, self.exit, Text("{who}: leave here", "{who}：在此离开", who=self.leaver)))
        for module, at, label in self.chain:
            out.append((module, at, Text("calls {name}", "调用 {name}", name=label)))
        if (self.module, self.pos) != (self.op.module, self.op.pos):
            out.append(
                (
                    self.op.module,
                    self.op.pos,
                    Text("the others call {name}()", "其他 rank 调用 {name}()", name=self.op.name),
                )
            )
        return out

    @property
    def key(self) -> Any:
        """One finding for a guard and a kind of fault: the first collective on which the ranks part."""
        return (self.fault, self.guard[0].path, self.guard[1])


class Ranks:
    def __init__(self, program: Program, options: Options | None = None) -> None:
        self.program = program
        self.suspects = Suspects(program)
        self.machine = Machine(program, self.suspects)
        self.gave_up: list[str] = []
        self._found: list[Divergence] | None = None
        self._of: dict[int, list[Divergence]] = {}

    def divergences(self) -> list[Divergence]:
        if self._found is None:
            found: dict[Any, Divergence] = {}
            for function in self.suspects.functions():
                for d in self.confirmed(function):
                    found.setdefault(d.key, d)
            self._found = sorted(found.values(), key=lambda d: (d.module.path, d.pos, d.guard[1]))
        return self._found

    def confirmed(self, function: Function) -> list[Divergence]:
        """The divergences of a function that its callers do not make up for."""
        trace = self.machine.root(function)
        if not trace.parts_here or not trace.has_ops:
            return []  # what parts the ranks lies in a function that is looked at by itself
        out = self.of(function)
        if not out:
            return out
        return self.survivors(out, function, CALLER_LEVELS, {id(function)})

    def survivors(self, found: list[Divergence], function: Function, levels: int, seen: set[int]) -> list[Divergence]:
        callers = []
        for caller, _ in self.program.callers(function)[:8]:
            if id(caller) not in seen and caller not in callers:
                callers.append(caller)
        if not callers:
            return found
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
        """Whether the caller's trace follows a call of the function."""
        trace = self.machine.root(caller)
        seen: set[int] = set()
        stack = [trace]
        while stack:
            t = stack.pop()
            if id(t) in seen:
                continue
            seen.add(id(t))
            for item in every(t.items):
                if item[0] == "call":
                    if item[1].function is function:
                        return True
                    stack.append(item[1])
        return False

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
        axes, decisions = guard_leaves(trace)
        pairs: list[tuple[Place, Place, Any]] = []
        if axes & {"world", "local", "node"}:
            pairs += [(LEADER, OTHER, "world"), (OTHER, LAST, "world")]
            if axes & {"local", "node"}:
                pairs.append((LEADER, NODE_LEADER, "world"))
        for axis in axes - {"world", "local", "node"}:
            pairs.append((Place("first", {axis: 0}), Place("other", {axis: 1}), axis))
        for key in decisions:
            # two ranks that differ in nothing but how their own data turned out
            pairs.append((ONE.decided(key, True), ANOTHER.decided(key, False), "world"))
        found: dict[Any, Divergence] = {}
        for a, b, axis in pairs:
            table = Table()
            takes = Takes(a, b, axis)
            x, y = Walker(table, a, takes).trace(trace), Walker(table, b, takes).trace(trace)
            comparison = Comparison(table)
            for difference in comparison.run(x, y):
                d = self.divergence(difference, a, b)
                if d is not None and d.key not in found:
                    d.function = trace.function
                    found[d.key] = d
            if comparison.gave_up and trace.function is not None:
                self.gave_up.append(f"{trace.module.path}:{trace.function.line} {trace.function.qualname}")
        yield from found.values()

    def divergence(self, d: Difference, a: Place, b: Place) -> Divergence | None:
        mark = self.responsible(d)
        if mark is None:
            return None
        item, trace, chain, _ = mark.data
        guard = item[1]
        pos = item[5] if item[0] in ("if", "while") else item[-1]
        node = d.node
        kind = {"missing": "exit", "quits": "exit"}.get(d.kind, d.kind)
        step = self.step_of(node, d)
        if step is None:
            return None
        op, calls = step
        if d.kind == "missing" and (contains(item[2], op) or contains(item[3], op)):
            kind = "guarded"
        if d.kind != "leaves" and self.answered(d, item, op):
            return None
        out = Divergence(kind, op, (trace.module, pos, guard))
        if d.kind == "quits":
            left = d.against.data
            if left is not None and left[1].module is trace.module:
                out.exit = left[0][2]
        elif kind == "leaves":
            exit_at = self.exit_of(item, mark.data[3], d)
            if exit_at is not None:
                out.module, out.pos, out.exit = trace.module, exit_at, exit_at
            elif item[0] == "while" or item[4] != item[5]:
                out.module, out.pos = trace.module, pos
        elif kind == "exit":
            out.exit = self.exit_of(item, mark.data[3], d)
        if out.subject == "state" and guard[:2] == ("op", "or") and any(not varies(x) for x in guard[2:]):
            return None  # `is_main or sharded`: whoever wrote it knows when every rank has to take part
        ranks = [x for x in leaves(guard) if x[0] == "rank"]
        decided = [x for x in leaves(guard) if x[0] == "local"]
        if a.name == "one":
            chosen = next(iter(a.chosen))
            decided = [x for x in decided if x[1] == chosen]
            ranks = []
        elif ranks:
            decided = []
        if not ranks and not decided:
            return None
        out.why = decided[0][2] if decided else ""
        out.origin = decided[0][3] if decided else ranks[0][3]
        out.sure = not decided and all(x[2] for x in ranks) and op.sure and exact(guard)
        if op.group == "mesh" and not exact(guard):
            return None  # members of a group that is not known
        out.chain = (
            [(t.module, p, label) for t, p, label in calls[len(chain) :]]
            if calls[: len(chain)] == chain
            else [(t.module, p, label) for t, p, label in calls]
        )
        names = who(a, b, ranks) if ranks else DECIDERS
        out.runner, out.leaver = names[d.side], names[1 - d.side]
        mine = steps_from(node)
        theirs = steps_from(d.against)
        out.rows = [(names[d.side], listed(mine)), (names[1 - d.side], listed(theirs))]
        if d.side == 1:
            out.rows.reverse()
        whole = item[2] + item[3] if kind == "guarded" and item[0] == "if" else trace.items
        unknown = conditions(whole, op) or 0
        if not out.sure or unknown:
            out.severity, out.confidence = WARNING, LIKELY
        if unknown > 1:
            out.confidence = POSSIBLE
        return out

    def answered(self, d: Difference, item: Item, op: Op) -> bool:
        """Both ways of the guard run this collective, at least one of them under conditions or in loops that cannot be
        compared: not decided, so nothing is said."""
        if item[0] != "if":
            return False
        inside = [keys_in(item[2]), keys_in(item[3])]
        if op.key in inside[0] and op.key in inside[1]:
            return not (inside[0][op.key] and inside[1][op.key])
        left = [any(x[0] == "exit" and x[1] != "raise" for x in every(b)) for b in (item[2], item[3])]
        for n in (0, 1):
            if left[n] and op.key in inside[n] and not inside[n][op.key]:
                return not contains(item[2] + item[3], op) or self.comes(d.against, op.key)
        return False

    def comes(self, node: Node | None, key: str) -> bool:
        """Whether a collective with this key lies ahead."""
        seen: set[int] = set()
        stack = [node]
        while stack and len(seen) < 300:
            n = stack.pop()
            if n is None or n.id in seen or not n.steps:
                continue
            seen.add(n.id)
            if n.kind == "op" and n.data[0].key == key:
                return True
            stack.append(n.next)
            stack.append(n.other)
        return False

    def step_of(self, node: Node, d: Difference) -> tuple[Op, Any] | None:
        """The collective of a step, with the calls that lead to it."""
        if node.kind == "op":
            return node.data  # type: ignore[no-any-return]
        found: Op | None = None
        chain: Any = ()
        if node.kind == "call":
            found, chain = first_op(node.data[0].items), node.data[1]
        elif d.loop is not None:
            item, _, _, chain = d.loop.data
            found = first_op(item[3] if item[0] == "loop" else item[2])
        return (found, chain) if found is not None else None

    def responsible(self, d: Difference) -> Node | None:
        """The guard at which the two ranks took different ways: the innermost around the step, else the latest one."""
        mine, theirs = d.marks
        if d.node.kind == "op" and d.kind in ("missing", "order"):
            op = d.node.data[0]
            own, others = (mine, theirs) if d.side == 0 else (theirs, mine)
            around = [
                m for m in own if m.data[0][0] == "if" and (contains(m.data[0][2], op) or contains(m.data[0][3], op))
            ]
            passed = {m.key: m.data[3] for m in reversed(others)}
            for m in around:
                if passed.get(m.key, m.data[3]) != m.data[3]:
                    return m
            if around:
                return around[0]
        other = {m.key: m for m in reversed(theirs)}
        for m in mine:
            n = other.get(m.key)
            if n is not None and n.data[3] != m.data[3]:
                return m if d.side == 0 else n
        for m in theirs if d.side == 0 else mine:
            return m
        for m in mine if d.side == 0 else theirs:
            return m
        return None

    def exit_of(self, item: Item, taken: str, d: Difference) -> int | None:
        """Where the ranks that do not go on leave: an exit in the branch of the guard that they take."""
        blocks = [item[2], item[3]] if item[0] in ("if", "while") else [item[3]]
        if item[0] == "if":
            # `taken` is the way of the side that runs the step; for a loop exit it is the side that leaves
            index = {"True": 0, "False": 1}.get(taken, 0)
            if d.kind != "leaves":
                index = 1 - index
            blocks = [blocks[index], blocks[1 - index]]
            if d.kind == "leaves":
                del blocks[1]
        for block in blocks:
            for x in every(block):
                if x[0] == "exit" and x[1] != "raise":
                    return int(x[2])
        return None


def exact(v: Value) -> bool:
    """Whether a rank test is one against known numbers: `rank < active` and `rank in members` may mean any share of ranks."""
    if v[0] != "op":
        return True
    if v[1] in ("in", "not in", "<", "<=", ">", ">=") and any(x[0] == "rank" for x in v[2:4]):
        other = v[3] if v[2][0] == "rank" else v[2]
        return other[0] in ("const", "size", "rank") or (
            other[0] in ("list", "tuple") and all(x[0] in ("const", "size") for x in other[1])
        )
    return all(exact(x) for x in v[2:])


def guard_leaves(trace: Trace) -> tuple[set[Any], list[Any]]:
    """(the axes, the keys of local decisions) on which guards of a trace and of what it calls depend."""
    out: set[Any] = set()
    decisions: dict[Any, None] = {}
    seen: set[int] = set()
    stack = [trace]
    while stack:
        t = stack.pop()
        if id(t) in seen:
            continue
        seen.add(id(t))
        for item in every(t.items):
            v = item[1] if item[0] in ("if", "while") else item[2] if item[0] == "loop" else None
            if v is not None and varies(v):
                for x in leaves(v):
                    if x[0] == "rank":
                        out.add(x[1])
                    elif len(decisions) < MOST_DECISIONS:
                        decisions[x[1]] = None
            elif item[0] == "call" and item[1].guarded:
                stack.append(item[1])
    return out, list(decisions)


class Takes:
    """Whether two abstract ranks are both members of the group of a collective."""

    def __init__(self, a: Place, b: Place, axis: Any) -> None:
        self.a = a
        self.b = b
        self.axis = axis

    def __call__(self, op: Op) -> bool:
        group = op.group
        if group == "world":
            return True
        if group == "mesh" or (isinstance(group, tuple) and group[0] == "copy"):
            return bool(self.axis == "world")
        if isinstance(group, tuple) and group[0] == "ranks":
            return self.a.axes.get("world") in group[1] and self.b.axes.get("world") in group[1]
        return bool(group == self.axis or self.axis == ("group", group))


def who(a: Place, b: Place, ranks: list[Value]) -> tuple[Text, Text]:
    axis = ranks[0][1]
    names = {
        "leader": Text("rank 0", "0 号进程"),
        "other": Text("other ranks", "其他进程"),
        "last": Text("last rank", "最后一个进程"),
        "node leader": Text("local rank 0 of other nodes", "其他节点的本地 0 号进程"),
        "first": Text("first rank of the group", "组内第一个进程"),
    }
    if axis == "local" and b.name == "other":
        return Text("local rank 0", "本地 0 号进程"), names["other"]
    if b.name == "last":
        return names["other"], names["last"]
    return names[a.name], names[b.name]


def listed(steps: list[str]) -> Text:
    if not steps:
        return Text("nothing", "无")
    return Text(" · ".join(steps[:5]))
