"""What ranks hold alike although a test or a clock of their own stands between: what is computed from gathered values,
what a broadcast told one side and the other had, a handle that each rank takes from the groups it is in, a flag that
the first of all calls has set."""

from __future__ import annotations

from ..program.model import dotted, expressions_of, target_names, walk_block, walk_expr
from ..source.patterns import Later
from .ranks_values import LEADER, MADE, REDUCED, TRUE, UNKNOWN, at, concrete, depends_on_rank, op, truth, varies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Block, Expr, Function, Stmt
    from .ranks_frames import Env, Frame
    from .ranks_machine import Machine
    from .ranks_values import Value
    from .traces import Items

COMPUTES = ("torch", "numpy", "math")
"""Modules whose functions compute from what they are given."""
OF_ITS_OWN = Later(r"rand|bernoulli|multinomial|normal|poisson|load|save|seed|device|stream")
"""Names of their functions that give something else, too."""
PARTS = frozenset(("list", "tuple"))


def computed(f: Frame, q: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """What a function outside the project makes. Given what all ranks hold alike, and nothing of one of them, that is
    the same on all: `torch.tensor(gathered)`, `torch.empty((numel // 2, 2))`; else something, which is not None."""
    module, _, name = q.rpartition(".")
    if module not in COMPUTES or not args or OF_ITS_OWN.search(name):
        return UNKNOWN
    given = [*args, *keywords.values()]
    given += [x for v in given if v[0] in PARTS for x in v[1]]
    if any(varies(v) or v[0] in ("graph", "batch") for v in given):
        return UNKNOWN
    return REDUCED if REDUCED in given else f.sym(e[1], MADE)


def tensor_of(e: Expr) -> Expr:
    """`x.data` is `x` itself."""
    while e[0] == "attr" and e[3] == "data":
        e = e[2]
    return e


# ------------------------------------------------------------------------------------------------- two sides
def receives(f: Frame) -> bool:
    """Whether only ranks run this that the source of a broadcast is not among: `if rank != 0:`."""
    return any(depends_on_rank(g) and truth(at(g, LEADER)) is False for g in f.path)


def received(v: Value) -> Value:
    """What a broadcast leaves where it is received, whatever was there before: as many things as there were."""
    return (v[0], tuple([received(x) for x in v[1]])) if v[0] in PARTS else REDUCED


def arrived(v: Value | None) -> bool:
    return v is not None and (v == REDUCED or (v[0] in PARTS and bool(v[1]) and all(map(arrived, v[1]))))


def settle(f: Frame, guard: Value, sides: tuple[tuple[Block, Items, Env], tuple[Block, Items, Env]]) -> None:
    """Behind `if rank == 0: broadcast(x) else: y = empty(); broadcast(y); x = y`: a name that one side binds to what
    it was told, and of which the other made what it told, holds the same on both."""
    if not depends_on_rank(guard) or not all(map(sends, (sides[0][1], sides[1][1]))):
        return
    for (block, items, _), (_, _, env) in (sides, sides[::-1]):
        for name in sorted(told(block, items)):
            v = env.get(name)
            if v is not None and arrived(v):
                f.env[name] = v


def sends(items: Items) -> list[int]:
    """Where items give what one rank has to the others."""
    ops = [i[1] for i in items if i[0] == "op"]
    return [o.pos for o in ops if o.row is not None and o.row.root is not None and o.row.result == "uniform"]


def told(block: Block, items: Items) -> set[str]:
    """The names that go into what a block broadcasts, also through what it assigns."""
    calls = frozenset(sends(items))
    names: set[str] = set()
    for s in reversed(walk_block(block)):
        if not names.isdisjoint(bound(s)):
            names.update(read(s[3]))
        for e in expressions_of(s):
            for x in walk_expr(e):
                if x[0] == "call" and x[1] in calls:
                    for a in (*x[3][:1], *[v for _, v in x[4]]):
                        names.update(read(a))
    return names


def bound(s: Stmt) -> list[str]:
    """Names that a plain assignment binds, or puts something into."""
    if s[0] != "assign":
        return []
    held = [dotted(t[2]) for t in s[2] if t[0] == "sub"]
    return [n for t in s[2] for n in target_names(t)] + [n for n in held if n is not None]


def read(e: Expr) -> list[str]:
    return [n for n in map(dotted, walk_expr(e)) if n is not None]


# ------------------------------------------------------------------------------------------------- made once
def handle_is_set(f: Frame, test: Expr, body: Block) -> bool:
    """`if not cls.group: cls.group = make_group()`, where `make_group` makes one group after the other and keeps
    the one that this rank is in: all of them are in one, so all have a handle, or none has."""
    name = unset(test)
    if name is None or name not in f.machine.changed(body):
        return False
    inner = test[3][0] if test[0] == "cmp" else test[3]
    held, _ = f.beside(inner)
    return kept_of_several(f.machine, held)


def unset(test: Expr) -> str | None:
    """`not name`, `name is None`"""
    if test[0] == "unary" and test[2] == "not":
        return dotted(test[3])
    if test[0] == "cmp" and test[2] in (("is",), ("==",)) and test[3][1][0] == "const" and test[3][1][2] is None:
        return dotted(test[3][0])
    return None


def kept_of_several(machine: Machine, v: Value) -> bool:
    """Whether a value is the group of this rank among those that a loop makes."""
    if v[0] == "group":
        return isinstance(v[1], tuple) and v[1][0] == "made" and v[1][1:] in machine.in_turn
    return v[:2] == ("op", "sel") and any(kept_of_several(machine, x) for x in v[3:5])


def behind_first(f: Frame, function: Function, receiver: Value | None) -> Value | None:
    """The receiver of a method as a later call finds it: `def init(self): self.sync(); self.ready = True` was run by
    all before one of them comes to `self.sync()` by its own clock, and `if not self.ready: barrier()` runs once."""
    if receiver is None or receiver[0] not in ("inst", "class") or function.owner is None or not function.params:
        return receiver
    known = f.machine.first_calls.get(id(function))
    if known is None:
        known = f.machine.first_calls[id(function)] = first_call(f.machine, function)
    for flag, setters in known:
        if f.function not in setters and any(map(varies, f.path)):
            fields = () if receiver[0] == "class" else tuple([x for x in receiver[2] if x[0] != flag])
            receiver = ("inst", receiver[1], (*fields, (flag, TRUE)))
    return receiver


def first_call(machine: Machine, function: Function) -> list[tuple[str, list[Function]]]:
    """(flag, methods that set it for good behind their call of `function`) of each flag that `function` asks."""
    me = function.params[0][0] + "."
    out = []
    for s in walk_block(machine.program.body(function)):
        name = unset(s[2]) if s[0] == "if" else None
        if name is None or not name.startswith(me) or "." in name[len(me) :] or function.owner is None:
            continue
        flag = name[len(me) :]
        setters = []
        for value, where in machine.assignments(function.owner, flag):
            if value[0] != "const":
                break
            if value[2]:
                if where is function or not sets_behind(machine, where, function.name, flag):
                    break
                setters.append(where)
            elif where.name not in ("<module>", "__init__"):
                break
        else:
            if setters:
                out.append((flag, setters))
    return out


def sets_behind(machine: Machine, method: Function, called: str, flag: str) -> bool:
    """Whether a method sets a flag, in a statement of its own, after it has called another one."""
    me = method.params[0][0] if method.params else ""
    seen = False
    for s in machine.program.body(method):
        if s[0] == "assign" and any(dotted(t) == f"{me}.{flag}" for t in s[2]):
            return seen
        for e in (e for x in walk_block((s,)) for e in expressions_of(x)):
            seen = seen or any(x[0] == "call" and dotted(x[2]) == f"{me}.{called}" for x in walk_expr(e))
    return False


def is_set(name: str, a: Value, b: Value) -> Value | None:
    """`self.last > 0` where `last` is -1 or a reading of the clock: whether it was read, not when."""
    if b[0] != "const" or type(b[1]) not in (int, float) or b[1] > 0:
        return None
    if a[0] == "const":
        return ("const", concrete(name, a[1], b[1])) if type(a[1]) in (int, float) else None
    if a[0] == "local":
        return ("const", concrete(name, 1, b[1])) if a[2] == "clock" and a[1][0] == "clock" else None
    if a[:2] == ("op", "sel") and not varies(a[2]):
        then, other = is_set(name, a[3], b), is_set(name, a[4], b)
        return op("sel", a[2], then, other) if then is not None and other is not None else None
    return None
