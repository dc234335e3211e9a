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

    from ..program.model import Class, Expr
    from .ranks_frames import Frame
    from .ranks_values import Value


PADDED = Later(
    r"pad|drop_last|\)\s*\*\s*[\w.]*(?:world|gpus|size|replicas|proc)"
    r"|//\s*[\w.]*(?:world|gpus|size|replicas|proc)[\w.]*(?:\(\))?\s*\*",
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


def even_share(f: Frame, piece: Expr) -> bool:
    """`x[rank * n : (rank + 1) * n]`: pieces of one length, unless rounded up or with the rest in the last."""
    step = piece[4]
    whole = bool(piece[2]) and bool(piece[3]) and (not step or (step[0] == "const" and step[2] in (None, 1)))
    return whole and not ROUNDED_UP.search(f.machine.suspects.text_of(f.function))


def share_of(f: Frame, cls: Class) -> Any:
    """Where a class of the project iterates over this rank's share, or None."""
    machine = f.machine
    known = machine.shares
    if id(cls) not in known:
        known[id(cls)] = None
        method = machine.program.method(cls, "__iter__")
        even = any("DistributedSampler" in b for b in machine.program.bases(cls)[1])
        if method is not None and not even and not PADDED.search(machine.suspects.text_of(method)):
            frame = machine.pure_frame(method)
            for s in walk_block(machine.program.body(method)):
                counted = s[0] == "if" and any(x[0] == "bin" and x[2] == "%" for x in walk_expr(s[2]))
                if counted and depends_on_rank(machine.pure(frame, s[2])):  # `if i % world != rank: continue`
                    known[id(cls)] = machine.origin(frame, s[2], "share")
                    return known[id(cls)]
                if s[0] not in ("for", "while", "return"):
                    continue
                for e in expressions_of(s)[:1]:
                    v = machine.pure(frame, e)
                    shares = [x for x in leaves(v) if x[0] == "local" and x[2] == "share" and x[1][0] != "even"]
                    found = shares[0] if shares else None
                    if found is not None:
                        known[id(cls)] = found[3]
                        return found[3]
    return known[id(cls)]
