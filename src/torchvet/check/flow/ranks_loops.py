"""How often a loop turns on each rank: the same everywhere unless it runs over this rank's own share or over a set.

`files[rank::world]` and `range(rank, n, world)` give shares of different length when the number is no multiple; a
dataset or a
sampler that iterates over such a share hands it on to its loader. A DistributedSampler pads, so its loops are even.
The order
of a set of strings differs between processes (PYTHONHASHSEED).
"""

from __future__ import annotations

from ..program.model import expressions_of, walk_block, walk_expr
from ..source.patterns import Later
from .ranks_values import UNKNOWN, const, depends_on_rank, leaves, op, varies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Class, Expr, Function
    from .ranks_frames import Frame
    from .ranks_machine import Machine
    from .ranks_values import Value


PADDED = Later(
    r"pad|drop_last|\)\s*\*\s*[\w.]*(?:world|gpus|size|replicas|proc)"
    r"|//\s*[\w.]*(?:world|gpus|size|replicas|proc)[\w.]*(?:\(\))?\s*\*"
    r"|-\s*(?:[\w.]+|\(?len\([\w.]+\)\)?)\s*%\s*[\w.]*(?:world|gpus|size|replicas|proc)",
    2,
)
"""Text of code that makes the shares equal."""
ROUNDED_UP = Later(r"ceil|\bmin\(|linspace|array_split|\+ *1\b(?=[^\n]*//)|- *1\)? *//|-\(-|else")
"""Text of code that may give the last share another length."""


def trip(f: Frame, iterated: Value, pos: int) -> Value:
    """What decides how a loop over a value turns; `UNKNOWN`: the same on every rank."""
    if f.in_join:
        return UNKNOWN
    kind = iterated[0]
    if varies(iterated):
        if iterated[:2] == ("op", "sel") and iterated[3][0] == iterated[4][0] == "dict":
            return op("sel", iterated[2], const(len(iterated[3][1])), const(len(iterated[4][1])))
        shares = [x[1] for x in leaves(iterated) if x[0] == "local" and x[2] == "share"]
        if iterated[0] == "local" and shares and all(k[0] == "even" for k in shares):
            return UNKNOWN
        sliced = bool(shares)
        return UNKNOWN if sliced and PADDED.search(f.machine.suspects.text_of(f.function)) else iterated
    if kind == "set":
        return ("local", ("set", f.module.path, pos), "set", iterated[1])
    if kind == "bar":
        return trip(f, iterated[1], pos)
    if kind == "loader":
        for part in iterated[1:4]:
            share = trip(f, part, pos)
            if share != UNKNOWN:
                return share
        return UNKNOWN
    if kind == "inst":
        origin = share_of(f, iterated[1])
        if origin is not None:
            return ("local", ("share", f.module.path, pos), "share", origin)
    return UNKNOWN


def is_even(start: Value, end: Value) -> bool:
    """`range(rank * n, rank * n + n)`, `range(rank * n, (rank + 1) * n)`: as many turns on every rank."""
    if end[:2] == ("op", "+") and start in end[2:]:
        rest = [x for x in end[2:] if x != start]
        return len(rest) == 1 and not depends_on_rank(rest[0])
    if start[:2] == end[:2] == ("op", "*") and len(start) == len(end) == 4:
        for rank, each in (start[2:], start[:1:-1]):
            for after, same in (end[2:], end[:1:-1]):
                if each == same and not depends_on_rank(each) and is_even(rank, after):
                    return True
    return False


def has_rest(v: Value) -> bool:
    """A number of which some ranks have more, computed from what the others have: `n = total // world`, then
    `if rank == world - 1: n += total % world`."""
    if v[:2] != ("op", "sel") or not depends_on_rank(v[2]):
        return False
    one, other = v[3], v[4]
    return one != other and (holds(one, other) or holds(other, one))


def holds(v: Value, part: Value) -> bool:
    """Whether a number is computed from another one."""
    return v[0] == "op" and v[1] in MADE and any(x == part or holds(x, part) for x in v[2:])


def given_share(f: Frame, given: list[Value], e: Expr) -> Value:
    """What a function gives that is handed the rank: `islice(items, rank, None, world)`."""
    if not any(map(depends_on_rank, given)) or (len(given) > 2 and is_even(given[1], given[2])):
        return UNKNOWN
    return own_share(f, e)


def own_share(f: Frame, e: Expr) -> Value:
    return ("local", ("share", f.module.path, e[1]), "share", f.machine.origin(f, e, "share"))


def picked(f: Frame, base: Value, index: Value, e: Expr) -> Value | None:
    """`np.array_split(items, world)[rank]`: this rank's part."""
    parts = base[0] == "sym" and isinstance(base[1], tuple) and base[1][0] == "split"
    if parts and any(x[0] == "rank" and x[1] in OVER_DATA for x in leaves(index)):
        return own_share(f, e)
    return None


def kept(f: Frame, tests: list[Value], e: Expr) -> Value | None:
    """`[x for i, x in enumerate(items) if i % world == rank]`"""
    return own_share(f, e) if any(map(depends_on_rank, tests)) else None


OVER_DATA = ("world", "dp")
"""Axes along which data are divided; along the others a tensor is."""
MADE = frozenset(("+", "-", "*", "//", "%"))


def even_share(f: Frame, piece: Expr, bounds: list[Value]) -> bool:
    """`x[rank * n : (rank + 1) * n]`: pieces of one length, unless rounded up or with the rest in the last."""
    step = piece[4]
    whole = bool(piece[2]) and bool(piece[3]) and (not step or (step[0] == "const" and step[2] in (None, 1)))
    if any(b[:2] == ("op", "sel") and depends_on_rank(b[2]) for b in bounds):
        return False  # `if rank == world - 1: end = len(items)`
    return whole and not ROUNDED_UP.search(f.machine.suspects.text_of(f.function))


def share_of(f: Frame, cls: Class) -> Any:
    """Where a class of the project iterates over this rank's share, or None."""
    method = f.machine.program.method(cls, "__iter__")
    if method is None or any("DistributedSampler" in b for b in f.machine.program.bases(cls)[1]):
        return None
    return share_in(f, method)


def generated(f: Frame, function: Function, e: Expr) -> Value | None:
    """`def mine(items): for i, x in enumerate(items): if i % world == rank: yield x`"""
    if "yield " not in f.machine.suspects.text_of(function) or function.decorators:
        return None
    return own_share(f, e) if share_in(f, function) is not None else None


def share_in(f: Frame, method: Function) -> Any:
    """Where a generator, or `__iter__`, gives this rank's share, or None."""
    known = f.machine.shares
    if id(method) not in known:
        known[id(method)] = None
        if not PADDED.search(f.machine.suspects.text_of(method)):
            known[id(method)] = find_share(f.machine, method)
    return known[id(method)]


def find_share(machine: Machine, method: Function) -> Any:
    frame = machine.pure_frame(method)
    for s in walk_block(machine.program.body(method)):
        counted = s[0] == "if" and any(x[0] == "bin" and x[2] == "%" for x in walk_expr(s[2]))
        if counted and depends_on_rank(machine.pure(frame, s[2])):  # `if i % world != rank: continue`
            return machine.origin(frame, s[2], "share")
        handed = s[0] == "expr" and s[2][0] == "yieldfrom"
        if s[0] not in ("for", "while", "return") and not handed:
            continue
        for e in (s[2][2],) if handed else expressions_of(s)[:1]:
            for x in leaves(machine.pure(frame, e)):
                if x[0] == "local" and x[2] == "share" and x[1][0] != "even":
                    return x[3]
    return None
