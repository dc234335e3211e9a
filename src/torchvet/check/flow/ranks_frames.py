"""Forward interpretation of one function: from its statements to the items of its trace, with a value for every name.

Branches are both followed and their values joined; a value that was assigned under a guard becomes `sel(guard, then,
else)`,
so what is written on rank 0 only is known to depend on the rank later. Loops are interpreted once with what they change
unknown, and once more when a turn leaves something behind that depends on the rank.
"""

from __future__ import annotations

from ..program.model import dotted, target_names, walk_block
from . import ranks_agreement, ranks_batches, ranks_contexts, ranks_expressions, ranks_flags, ranks_loops
from .ranks_values import (
    NONE,
    REDUCED,
    TRUE,
    UNKNOWN,
    depends_on_rank,
    identified,
    is_local,
    one_of,
    op,
    parts,
    truth,
    varies,
)
from .traces_questions import OWN, TURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Function, Module, Stmt
    from ..program.names import Scope
    from .ranks_machine import Machine
    from .ranks_values import Value
    from .traces import Item, Items, Trace

    Env = dict[str, Value]

MOST_RETURNS = 8


class Frame:
    """One function under one specialisation. `env` holds names and dotted names ("self.rank"); `outer` is the frame
    in which
    a nested function was defined."""

    __slots__ = (
        "breaks", "decided", "declared", "dots", "dotted", "env", "function", "in_join", "items", "last", "machine",
        "module",
        "outer", "path", "receiver", "returns", "scope", "trace",
    )  # fmt: skip

    def __init__(self, machine: Machine, function: Function, trace: Trace, env: Env, outer: Frame | None) -> None:
        self.machine = machine
        self.function = function
        self.module: Module = function.module
        self.scope: Scope = machine.program.scope(function)
        self.trace = trace
        self.env = env
        self.outer = outer
        self.receiver: Value | None = None
        self.items: list[Item] = []
        self.path: list[Value] = []
        self.returns: list[tuple[tuple[Value, ...], Value]] = []
        self.breaks: list[list[Env]] = []
        self.declared: set[str] = set()
        self.decided = 0
        self.dots: set[str] = set()
        """First names of the dotted names that were put here: those that an assignment has to forget."""
        self.dotted = False
        """Whether `env` may hold a dotted name."""
        self.in_join = False
        self.last: set[int] = set()
        """Statements that end a turn of a loop."""

    def put(self, name: str, value: Value) -> None:
        """What a name or a dotted name holds from here on."""
        self.env[name] = value
        if "." in name:
            self.dotted = True
            self.dots.add(name.partition(".")[0])

    # ------------------------------------------------------------------------------------------- whole function
    def run(self, block: Block) -> None:
        alive = self.block(block)
        if alive:
            self.returns.append(((), NONE))
        self.trace.value = self.result()

    def result(self) -> Value:
        if not self.returns:
            return UNKNOWN
        if len(self.returns) > MOST_RETURNS:
            return UNKNOWN
        value = self.returns[-1][1]
        for path, v in reversed(self.returns[:-1]):
            value = v if not path else op("sel", op("and", *path) if len(path) > 1 else path[0], v, value)
        return value

    def sym(self, pos: int, what: object = "") -> Value:
        """Something unknown but the same on every rank, with an identity."""
        return ("sym", ("v", self.module.path, pos, what))

    def eval(self, e: Expr) -> Value:
        return ranks_expressions.evaluate(self, e)

    # ------------------------------------------------------------------------------------------------ blocks
    def block(self, stmts: Block) -> bool:
        """Runs statements; False when the end is not reached."""
        for s in stmts:
            run = STATEMENTS.get(s[0])
            if run is not None and not run(self, s):
                return False
        return True

    def nested(self, stmts: Block, guard: Value | None = None) -> tuple[Items, bool, Env]:
        """Runs a block beside the current one: its items, whether its end is reached, and its names."""
        items, env = self.items, self.env
        self.items, self.env = [], dict(env)
        if guard is not None:
            self.path.append(guard)
        alive = self.block(stmts)
        if guard is not None:
            self.path.pop()
        out = tuple(self.items), alive, self.env
        self.items, self.env = items, env
        return out

    def beside(self, e: Expr, guard: Value | None = None) -> tuple[Value, Items]:
        """The value of an expression and the items that evaluating it gives, kept apart."""
        items = self.items
        self.items = []
        if guard is not None:
            self.path.append(guard)
        v = self.eval(e)
        if guard is not None:
            self.path.pop()
        out = tuple(self.items)
        self.items = items
        return v, out

    def merge(self, guard: Value, then: Env, other: Env, pos: int) -> Env:
        if then is other:
            return then
        out = dict(then)
        get = then.get
        for name, b in [x for x in other.items() if get(x[0]) is not x[1]]:
            a = get(name)
            if a is None:
                a = self.before(name)
                if a is None:
                    out[name] = b
                    continue
            if a != b:
                out[name] = self.joined(guard, a, b, pos, name)
        for name in then.keys() - other.keys() if len(out) > len(other) else ():
            b2 = self.before(name)
            if b2 is not None and b2 != out[name]:
                out[name] = self.joined(guard, out[name], b2, pos, name)
        return out

    def before(self, name: str) -> Value | None:
        """What a dotted name held before it was assigned here."""
        if "." not in name:
            return None
        base, _, last = name.rpartition(".")
        holder = self.env.get(base)
        if holder is None or holder[0] != "inst":
            return None
        return self.machine.field(holder, last)

    def joined(self, guard: Value, a: Value, b: Value, pos: int, name: str) -> Value:
        if not varies(guard) and REDUCED in (a, b) and "const" not in (a[0], b[0]):
            return REDUCED  # `if distributed: loss = reduce(loss)`: what is checked is a distributed run
        if a[0] == "batch" and b[0] == "batch":
            return a
        v = one_of(guard, a, b)
        if v == UNKNOWN or (v[0] == "op" and not varies(v) and not keeps(a) and not keeps(b)):
            return self.sym(pos, name)
        return v

    # --------------------------------------------------------------------------------------------- statements
    def do_if(self, s: Stmt) -> bool:
        test = ranks_batches.asked(self, self.eval(s[2]), s[2])
        if depends_on_rank(test) and ranks_agreement.handle_is_set(self, s[2], s[3]):
            test = self.sym(s[1], "unset")
        return self.part(test, s[3], s[4], s[1], s[2][1])

    def part(self, test: Value, yes: Block, no: Block, pos: int, test_pos: int) -> bool:
        """Two ways after a test."""
        known = truth(test)
        if known is not None:
            return self.block(yes if known else no)
        guard = test if test != UNKNOWN else self.sym(pos, "if")
        then, then_alive, then_env = self.nested(yes, guard)
        other, other_alive, other_env = self.nested(no, op("not", guard))
        if then or other:
            self.items.append(("if", guard, then, other, pos, test_pos))
        if then_alive and other_alive:
            self.env = self.merge(guard, then_env, other_env, pos)
            if then and other:
                ranks_agreement.settle(self, guard, ((yes, then, then_env), (no, other, other_env)))
            return True
        if then_alive or other_alive:
            self.env = then_env if then_alive else other_env
            return True
        return False

    def do_for(self, s: Stmt) -> bool:
        iterated = self.eval(s[3])
        trip = ranks_loops.trip(self, iterated, s[1])
        element = ranks_batches.element(self, s[3], iterated, s[1]) or self.machine.element(self, iterated, s)
        body = self.turn(s[4], s[2], element, s[1])
        other, _, _ = self.nested(s[5])
        if body or other:
            self.items.append(("loop", s[1], trip, body, other, s[1]))
        return True

    def plainly(self, v: Value, pos: int, name: str) -> Value:
        """What a turn leaves in a name, without the way it is computed where a rank decides which: `bad += 1` on rank 0
        only grows with each turn that is looked at."""
        if v[0] != "op" or v[1] != "sel" or not varies(v[2]):
            return v
        arms = [x if x[0] in ("const", "sym") else self.sym(pos, (name, n)) for n, x in enumerate(v[3:5])]
        return v if any(varies(x) for x in v[3:5]) else op("sel", v[2], *arms)

    def turn(self, block: Block, target: Expr | None, element: Value, pos: int, test: Expr | None = None) -> Items:
        """One turn of a loop that stands for all of them; leaves the names as they are after the loop."""
        start = self.env
        if block and block[-1][0] == "try":
            self.last.add(id(block[-1]))
        changed = self.machine.changed(block)
        entry = dict(start)
        for name in changed:
            entry[name] = self.sym(pos, name)
            if "." in name:
                self.dotted = True
        returns, decided = len(self.returns), self.decided
        items: Items = ()
        for attempt in (1, 2):
            self.env = dict(entry)
            self.breaks.append([])
            if target is not None:
                self.assign(target, element, pos)
            head: Items = ()
            if test is not None:
                value, head = self.beside(test)
                head = self.loop_test(value, head, test, pos)
            items, alive, end = self.nested(block, self.sym(pos, "turn"))
            items = head + items
            left = self.breaks.pop()
            ends = [end] if alive else []
            ends += left
            if attempt == 1:
                carried = {}
                for name in changed:
                    for e in ends:
                        v = e.get(name, UNKNOWN)
                        if varies(v) and v != start.get(name):
                            v = self.plainly(v, pos, name)
                            carried[name] = op("sel", self.sym(pos, "first"), start.get(name, UNKNOWN), v)
                        elif ranks_batches.own(v) and ranks_batches.own(start.get(name, UNKNOWN)):
                            carried[name] = v  # `obs = env.reset()`, then `obs = env.step(action)` in every turn
                for e in ends if self.dots else ():
                    for name, v in e.items():
                        # `stopper(loss)` in the turn before, `while not stopper.stop`
                        if "." in name and name not in changed and varies(v) and v != start.get(name):
                            carried[name] = op("sel", self.sym(pos, "first"), start.get(name, UNKNOWN), v)
                if not carried:
                    break
                entry.update(carried)
                del self.returns[returns:]
                self.decided = decided
        out = start
        for e in ends:
            out = self.merge(self.sym(pos, "turns"), e, out, pos)
        self.env = dict(out)
        for e in ends:
            for name, v in e.items():
                listed = start.get(name, UNKNOWN)[0] == "list"  # `losses.append(loss)`
                if v[0] == "batch" or (v[0] == "graph" and (listed or name in changed)) or ranks_batches.table(v):
                    self.env[name] = v  # what the last turn left
        return items

    def loop_test(self, value: Value, head: Items, test: Expr, pos: int) -> Items:
        known = truth(value)
        if known is True:
            return head
        guard = value if value != UNKNOWN else self.sym(test[1], "while")
        return (*head, ("if", guard, (), (("exit", "break", pos),), pos, test[1]))

    def do_while(self, s: Stmt) -> bool:
        body = self.turn(s[3], None, UNKNOWN, s[1], s[2])
        other, _, _ = self.nested(s[4])
        if body or other:
            from .ranks_turns import repeatable  # few programs have a collective in a `while` loop

            again = repeatable(s, body)
            self.items.append(("while", TRUE, body, other, s[1], s[2][1], again))
        test = self.machine.pure_test(self, s[2])
        if test is not None:
            # a loop that turns as often as the rank wants leaves what it changes different on every rank
            for name in self.machine.changed(s[3]):
                self.dotted = self.dotted or "." in name
                self.env[name] = op("sel", test, self.sym(s[1], (name, 1)), self.sym(s[1], (name, 2)))
        endless = s[2][0] == "const" and bool(s[2][2])
        return not endless or any(st[0] == "break" for st in walk_block(s[3]))

    def do_with(self, s: Stmt) -> bool:
        posts: list[Items] = []
        swallows = False
        joined = self.in_join
        for context, target in s[2]:
            value, before, after, mild = ranks_contexts.enter(self, context, s[1])
            self.items.extend(before)
            posts.append(after)
            swallows = swallows or mild
            if target is not None:
                self.assign(target, value, s[1])
        if not any(posts) and not swallows:
            alive = self.block(s[3])
            self.in_join = joined
            return alive
        body, alive, env = self.nested(s[3])
        self.in_join = joined
        self.env = env
        final: Items = tuple(i for post in reversed(posts) for i in post)
        handlers = (((), s[1], True, ()),) if swallows else ()
        self.items.append(("try", body, handlers, (), final, s[1]))
        return alive or swallows

    def do_try(self, s: Stmt) -> bool:
        start = self.env
        body, alive, env = self.nested(s[2])
        handlers = []
        ends = []
        caught = self.merge(self.sym(s[1], "caught"), env, start, s[1])
        for kind, name, block, pos in s[3]:
            self.env = dict(caught)
            if name:
                self.env[name] = self.sym(pos, name)
            items, handler_alive, handler_env = self.nested(block, self.sym(pos, "except"))
            # `if "out of memory" in str(e): continue`, then `raise`
            kinds = [x[0] for x in walk_block(block)]
            goes_on = "continue" in kinds and "for" not in kinds and "while" not in kinds
            reraises = bool(block) and block[-1][0] == "raise" and not goes_on
            own = self.raised_for_data(kind)
            names = (*exceptions(kind), OWN) if own else exceptions(kind)
            if handler_alive and id(s) in self.last:
                names = (*names, TURN)
            handlers.append((items, pos, reraises or (self.agreed(kind) and not own), names))
            if handler_alive:
                ends.append(handler_env)
        self.env = env
        orelse: Items = ()
        if alive:
            orelse, alive, env = self.nested(s[4])
            if alive:
                ends.insert(0, env)
        out = ends[0] if ends else caught
        for e in ends[1:]:
            out = self.merge(self.sym(s[1], "caught"), out, e, s[1])
        self.env = dict(out)
        final, final_alive, final_env = self.nested(s[5])
        self.env = final_env
        self.items.append(("try", body, tuple(handlers), orelse, final, s[1]))
        return bool(ends) and final_alive

    def raised_for_data(self, kind: Expr | None) -> bool:
        """Whether a handler takes an exception of the program's own that a rank raises for its own data."""
        kinds = () if kind is None else kind[2] if kind[0] == "tuple" else (kind,)
        raised = self.machine.raised
        return bool(raised) and any(v[0] == "class" and id(v[1]) in raised for v in map(self.eval, kinds))

    def agreed(self, kind: Expr | None) -> bool:
        """Whether a handler takes what is no accident of one rank: Ctrl-C, which the launcher hands on to all, and
        exceptions of the program's own, by which it says that it ends (see `raised_for_data` for those of one rank)."""
        kinds = () if kind is None else kind[2] if kind[0] == "tuple" else (kind,)
        return bool(kinds) and all(
            x[0] in ("name", "attr") and (x[-1] == "KeyboardInterrupt" or self.eval(x)[0] == "class") for x in kinds
        )

    def do_match(self, s: Stmt) -> bool:
        return self.do_case(("case", s[2][1], self.eval(s[2]), s[3], s[4]))

    def do_case(self, s: Stmt) -> bool:
        """The first of several cases, the others behind it: `case 0:` is `if subject == 0:`."""
        _, pos, subject, cases, patterns = s
        names, guard, block = cases[0]
        values = patterns[0]
        for n in names:
            self.env[n] = subject if values == () and subject != UNKNOWN else self.sym(pos, n)
        test = TRUE
        if values:
            test = op("or", *[ranks_expressions.combined(self, "==", subject, self.eval(v), v) for v in values])
            pos = values[0][1]
        elif values is None:
            test = self.sym(pos, ("case", len(cases)))
        if guard:
            asked = self.eval(guard)
            test = op("and", test, asked if asked != UNKNOWN else self.sym(guard[1], "if"))
        rest = (("case", s[1], subject, cases[1:], patterns[1:]),) if cases[1:] else ()
        return self.part(test, block, rest, pos, pos)

    def do_return(self, s: Stmt) -> bool:
        value = self.eval(s[2]) if s[2] else NONE
        self.returns.append((tuple(self.path), value))
        self.items.append(("exit", "return", s[1]))
        return False

    def do_raise(self, s: Stmt) -> bool:
        made = self.eval(s[2]) if s[2] else UNKNOWN
        if made[0] in ("inst", "class") and any(is_local(g) for g in self.path):
            self.machine.raised.add(id(made[1]))
        self.items.append(("exit", "raise", s[1]))
        return False

    def do_break(self, s: Stmt) -> bool:
        self.items.append(("exit", s[0], s[1]))
        if self.breaks:
            self.breaks[-1].append(self.env)
        return False

    def do_expr(self, s: Stmt) -> bool:
        before = len(self.items)
        self.eval(s[2])
        return not (len(self.items) > before and self.items[-1][0] == "exit")

    def do_assert(self, s: Stmt) -> bool:
        self.eval(s[2])
        return True

    def do_assign(self, s: Stmt) -> bool:
        value = self.eval(s[3])
        if value == UNKNOWN:
            value = self.sym(s[1])
        for t in s[2]:
            self.assign(t, value, s[1])
        return True

    def do_ann(self, s: Stmt) -> bool:
        if s[4]:
            value = self.eval(s[4])
            self.assign(s[2], self.sym(s[1]) if value == UNKNOWN else value, s[1])
        return True

    def do_aug(self, s: Stmt) -> bool:
        left, right = self.eval(s[3]), self.eval(s[4])
        value = op(s[2], left, right) if varies(left) or varies(right) or self.by_some() else UNKNOWN
        if right[0] in ("graph", "batch") and value == UNKNOWN:
            value = right if left != REDUCED else REDUCED  # a sum of what this rank's batches gave
        if left[0] == "sym" and left == right:
            value = left
        self.assign(s[3], self.sym(s[1]) if value == UNKNOWN else value, s[1])
        return True

    def by_some(self) -> bool:
        """Whether only some ranks come by here: how a number is made from another one is kept then."""
        return any(map(depends_on_rank, self.path))

    def do_def(self, s: Stmt) -> bool:
        f = self.machine.program.nested(self.function, s[1], s[2])
        if self.function.name != "<module>":
            self.env[f.name] = self.machine.closure(f, self)
        return True

    def do_class(self, s: Stmt) -> bool:
        if self.function.name != "<module>":
            c = self.module.class_at(s[1], s[2], None, self.function)
            self.env[c.name] = ("class", c)
        return True

    def do_global(self, s: Stmt) -> bool:
        self.declared.update(s[2])
        return True

    def do_import(self, s: Stmt) -> bool:
        pairs = [(a or n.partition(".")[0]) for n, a in s[2]] if s[0] == "import" else [(a or n) for n, a in s[3]]
        for name in pairs:
            if name != "*" and self.function.name != "<module>":
                self.env[name] = self.machine.denoted(("name", s[1], name), self.scope) or UNKNOWN
        return True

    # -------------------------------------------------------------------------------------------- assignment
    def assign(self, t: Expr, value: Value, pos: int) -> None:
        kind = t[0]
        if kind == "name":
            name = t[2]
            self.forget(name)
            if name in self.declared:
                self.machine.set_global(self.module, name, value)
                return
            self.env[name] = identified(value, (self.module.path, pos)) if value[0] == "op" else value
        elif kind in ("tuple", "list"):
            known = value[1] if value[0] in ("tuple", "list") and len(value[1]) == len(t[2]) else None
            for i, x in enumerate(t[2]):
                v = known[i] if known else self.machine.part(value, i)
                if v == UNKNOWN:
                    v = self.sym(pos, i)
                self.assign(x, v, pos)
        elif kind == "attr":
            ranks_flags.asked_to_stop(self, t, value)
            t = ranks_agreement.tensor_of(t) if value == REDUCED else t
            if t[0] == "name":
                self.assign(t, value, pos)
                return
            whole = dotted(t)
            if whole is not None:
                self.forget(whole)
                self.put(whole, value)
            else:
                self.eval(t[2])
        elif kind == "sub":
            holder = dotted(t[2])
            index = self.eval(t[3])
            held = self.env.get(holder) if holder else None
            if holder and held is not None and held[0] == "list" and index[0] == "const" and isinstance(index[1], int):
                if -len(held[1]) <= index[1] < len(held[1]):
                    changed = list(held[1])
                    changed[index[1]] = value
                    self.env[holder] = ("list", tuple(changed))
            elif holder and held is not None and held[0] == "dict" and index[0] == "const":
                kept = tuple([(k, v) for k, v in held[1] if k != index[1]])
                self.env[holder] = ("dict", (*kept, (index[1], value)))
            elif holder and held is not None and ranks_batches.table(held):
                self.env[holder] = self.sym(pos, holder)  # `for k in sums: sums[k] = reduced(sums[k])`
            elif holder and varies(value):
                self.dotted = self.dotted or "." in holder
                self.env[holder] = ("list", (value,)) if held is None or held[0] != "list" else held
        elif kind == "star":
            self.assign(t[2], UNKNOWN, pos)

    def forget(self, name: str) -> None:
        if not self.dots or name.partition(".")[0] not in self.dots:
            return
        prefix = name + "."
        for key in [k for k in self.env if k.startswith(prefix)]:
            del self.env[key]

    def called_elsewhere(self) -> None:
        """A project function ran: constants held in fields may have been changed by it."""
        if self.dotted:
            for key in [k for k, v in self.env.items() if v[0] == "const" and "." in k]:
                del self.env[key]


def exceptions(e: Expr | None) -> tuple[str, ...]:
    """The names of the exceptions that a handler takes; empty: all."""
    if e is None:
        return ()
    return tuple([x[-1] for x in (e[2] if e[0] == "tuple" else (e,)) if x[0] in ("name", "attr")])


def keeps(v: Value) -> bool:
    """Values that are worth a `sel`: constants, and what can be called or carries something known."""
    return v[0] in ("const", "func", "closure", "class", "inst", "ext", "extinst", "wrapped", "group", "list") or any(
        x[0] == "wrapped" for x in parts(v)
    )


def assigned(s: Stmt) -> Any:
    """Names and dotted names that a statement rebinds."""
    kind = s[0]
    targets: tuple[Any, ...] = ()
    if kind == "assign":
        targets = s[2]
    elif kind in ("ann", "for"):
        targets = (s[2],)
    elif kind == "aug":
        targets = (s[3],)
    elif kind == "with":
        targets = tuple(t for _, t in s[2] if t)
    for t in targets:
        yield from target_names(t)
        if t[0] == "attr":
            whole = dotted(t)
            if whole:
                yield whole


STATEMENTS: dict[str, Any] = {
    "if": Frame.do_if, "for": Frame.do_for, "while": Frame.do_while, "with": Frame.do_with, "try": Frame.do_try,
    "match": Frame.do_match, "case": Frame.do_case, "return": Frame.do_return, "raise": Frame.do_raise,
    "break": Frame.do_break, "continue": Frame.do_break, "expr": Frame.do_expr, "assert": Frame.do_assert,
    "assign": Frame.do_assign, "ann": Frame.do_ann, "aug": Frame.do_aug, "def": Frame.do_def, "class": Frame.do_class,
    "global": Frame.do_global, "nonlocal": Frame.do_global, "import": Frame.do_import, "from": Frame.do_import,
}  # fmt: skip
