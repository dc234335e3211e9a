"""Which assignments of a local name can still hold where it is read.

A setting is often set twice (`workers = 32`, later `workers = min(workers, 8)`): only the assignment that reaches the
use counts. One name is followed through one function's statements; branches join, loops run twice.
"""

from __future__ import annotations

from ..program.model import blocks_of, expressions_of, walk_expr
from ..program.names import bind_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Stmt

    Definition = tuple[Any, ...]
    State = frozenset[Definition] | None

START: tuple[Any, ...] = ("start",)
"""The name is not assigned on some path: a parameter, or a name of an outer scope."""
OPAQUE: tuple[Any, ...] = ("opaque",)
EMPTY: frozenset[Any] = frozenset()


def start_of(pos: int) -> int:
    """Line and column of the first character, comparable."""
    return pos >> 32


def end_of(pos: int) -> int:
    return ((pos >> 44) + (pos >> 12 & 0xFFFFF)) << 12 | (pos & 0xFFF)


def contains(outer: int, inner: int) -> bool:
    return start_of(outer) <= start_of(inner) and end_of(inner) <= end_of(outer)


def reaching(
    block: Block, name: str, use: int | None, walrus: bool = True, known: dict[int, frozenset[str]] | None = None
) -> list[Definition]:
    """Definitions of `name` that can hold at position `use` (None: at the end of the block): ("value", E),
    ("item", E, index), ("element", E), ("enter", E), OPAQUE, or START where nothing was assigned. `walrus`: look for
    `:=` inside expressions too. `known`: what earlier questions about the same blocks have found out."""
    walk = _Walk(name, use, walrus, {} if known is None else known)
    end = walk.block(block, frozenset((START,)))
    found = walk.seen if use is not None else end
    if found is None or (use is not None and not walk.met):
        found = end
    return sorted(found or (), key=_order)


def _order(d: Definition) -> int:
    return d[1][1] if len(d) > 1 else 0


LEAVES = "return"
"""Stands among the names that a statement touches when the way may end inside it (no name is a keyword)."""


def touched(s: Stmt, walrus: bool, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The names that a statement, with its blocks, may bind or delete, and LEAVES. Kept by the statement's identity."""
    found = known.get(id(s))
    if found is None:
        kind = s[0]
        names: dict[str, list[Definition]] = {}
        if kind in ("return", "raise", "break", "continue"):
            names[LEAVES] = []
        elif kind == "assign":
            for t in s[2]:
                bind_target(t, s[3], names)
        elif kind in ("ann", "for"):
            bind_target(s[2], s[3], names)
        elif kind == "aug":
            bind_target(s[3], s[4], names)
        elif kind == "with":
            for context, target in s[2]:
                if target:
                    bind_target(target, context, names)
        elif kind == "try":
            names.update({h[1]: [] for h in s[3] if h[1]})
        elif kind == "match":
            names.update({n: [] for case in s[3] for n in case[0]})
        elif kind in ("def", "class"):
            names[s[2][0]] = []
        elif kind == "del":
            names.update({t[2]: [] for t in s[2] if t[0] == "name"})
        elif kind in ("import", "from"):
            names.update({a or n.partition(".")[0]: [] for n, a in (s[2] if kind == "import" else s[3])})
        for e in expressions_of(s) if walrus else ():
            for x in walk_expr(e):
                if x[0] == "walrus":
                    bind_target(x[2], x[3], names)
        found = frozenset(names).union(*[touched(x, walrus, known) for b in blocks_of(s) for x in b])
        known[id(s)] = found
    return found


class _Walk:
    def __init__(self, name: str, use: int | None, walrus: bool, known: dict[int, frozenset[str]]) -> None:
        self.known = known
        self.walrus = walrus
        self.name = name
        self.use = use
        self.seen: frozenset[Definition] = EMPTY
        self.met = False
        self.breaks: list[State] = []

    def meet(self, state: State) -> None:
        self.met = True
        self.seen = self.seen | (state or EMPTY)

    def block(self, block: Block, state: State) -> State:
        for s in block:
            state = self.statement(s, state)
        return state

    def statement(self, s: Stmt, state: State) -> State:
        kind = s[0]
        here = self.use is not None and contains(s[1], self.use)
        if not here:
            names = touched(s, self.walrus, self.known)
            if self.name not in names and LEAVES not in names:
                return state
        if kind == "if":
            if here and not any(_inside(b, self.use) for b in (s[3], s[4])):
                self.meet(state)
            then = self.block(s[3], state)
            other = self.block(s[4], state)
            joined = _join(then, other)
            if joined is not None and joined != state and _compares(s[2], self.name):
                # `if workers > 8: workers = 8` bounds the value: what is left is not one of the assigned ones
                return frozenset((OPAQUE,))
            return joined
        if kind in ("for", "while"):
            return self.loop(s, state, here)
        if kind == "with":
            if here and not _inside(s[3], self.use):
                self.meet(state)
            out: dict[str, list[Definition]] = {}
            for context, target in s[2]:
                if target:
                    bind_target(target, context, out, "enter")
            return self.block(s[3], self.bound(out, state))
        if kind == "try":
            before = state
            state = self.block(s[2], state)
            joined = self.block(s[4], state)
            for _, name, handler, _ in s[3]:
                entry = _join(before, state)
                joined = _join(joined, self.block(handler, frozenset((OPAQUE,)) if name == self.name else entry))
            return self.block(s[5], joined)
        if kind == "match":
            joined = state
            for names, _, case in s[3]:
                joined = _join(joined, self.block(case, frozenset((OPAQUE,)) if self.name in names else state))
            return joined
        if kind in ("def", "class"):
            if here:
                self.meet(state)
            return frozenset((OPAQUE,)) if s[2][0] == self.name else state
        if here:
            self.meet(state)
        if kind in ("return", "raise"):
            return None
        if kind in ("break", "continue"):
            if self.breaks:
                self.breaks[-1] = _join(self.breaks[-1], state)
            return None
        return self.simple(s, state)

    def simple(self, s: Stmt, state: State) -> State:
        kind = s[0]
        out: dict[str, list[Definition]] = {}
        if kind == "assign":
            for t in s[2]:
                bind_target(t, s[3], out)
        elif kind == "ann" and s[4]:
            bind_target(s[2], s[4], out)
        elif kind == "aug" and s[3][0] == "name" and s[3][2] == self.name:
            return frozenset((("value", ("bin", s[1], s[2], s[3], s[4])),)) if state is not None else None
        elif kind == "del" and any(t[0] == "name" and t[2] == self.name for t in s[2]):
            return frozenset((OPAQUE,))
        elif kind in ("import", "from"):
            pairs = s[2] if kind == "import" else s[3]
            if any((a or n.partition(".")[0]) == self.name for n, a in pairs):
                return frozenset((START,)) if state is not None else None
        for e in expressions_of(s) if self.walrus else ():
            for x in walk_expr(e):
                if x[0] == "walrus":
                    bind_target(x[2], x[3], out)
        return self.bound(out, state) if out else state

    def bound(self, out: dict[str, list[Definition]], state: State) -> State:
        if state is None or self.name not in out:
            return state
        return frozenset(out[self.name])

    def loop(self, s: Stmt, state: State, here: bool) -> State:
        bodies = (s[4], s[5]) if s[0] == "for" else (s[3], s[4])
        if here and not any(_inside(b, self.use) for b in bodies):
            self.meet(state)
        entry = state
        for _ in (1, 2):
            self.breaks.append(None)
            inner = entry
            if s[0] == "for":
                out: dict[str, list[Definition]] = {}
                bind_target(s[2], s[3], out, "element")
                inner = self.bound(out, inner)
            after = self.block(bodies[0], inner)
            left = self.breaks.pop()
            entry = _join(entry, _join(after, left))
        return _join(self.block(bodies[1], entry), left)


def _join(a: State, b: State) -> State:
    if a is None:
        return b
    return a if b is None else a | b


def _inside(block: Block, use: int | None) -> bool:
    return use is not None and any(contains(s[1], use) for s in block)


def _compares(test: Expr, name: str) -> bool:
    """Does the test compare the name with something else than None?"""
    for x in walk_expr(test):
        if x[0] == "cmp" and x[2][0] in ("<", "<=", ">", ">=") and any(v[0] == "name" and v[2] == name for v in x[3]):
            return True
    return False


def loops_around(block: Block, use: int) -> list[Stmt]:
    """The `for` and `while` statements around a position, outermost first."""
    for s in block:
        if contains(s[1], use) and s[0] not in ("def", "class"):
            out = [s] if s[0] in ("for", "while") and any(_inside(b, use) for b in blocks_of(s)[:1]) else []
            for b in blocks_of(s):
                out += loops_around(b, use)
            return out
    return []
