"""Sends and receives without a partner, and asynchronous calls that nothing waits for.

A function with `send` and `recv` is run for a few worlds of concrete ranks: each rank gives the ordered list of what
it posts, and the lists are matched as the calls would be. Only what evaluates to numbers is run; one test or peer that
does not ends the question. A function that holds all sends of the program has to match within itself; one of several is
asked only whether the order of its own pairs can go through (a ring in which everybody sends first cannot).
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, dotted, expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .ranks_pages import callable_name
from .ranks_values import ARITHMETIC, COMPARISONS, RELATIONS, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Block, Expr, Function, Module, Stmt
    from .ranks_machine import Machine
    from .ranks_pages import Page
    from .ranks_saves import Saves
    from .ranks_values import Value

WORLDS = (2, 3, 4, 8)
MOST_POSTS = 64
PAIRED = {
    "send": "recv", "isend": "irecv", "send_object_list": "recv_object_list", "recv": "send", "irecv": "isend",
    "recv_object_list": "send_object_list",
}  # fmt: skip
OTHER_WAYS = ("P2POp", "batch_isend_irecv", "isend_irecv")
SIZES = ("world", "world_size", "nprocs", "num_ranks", "n_ranks")
"""Parameters that hold the number of ranks where no caller says otherwise."""
ALL_DONE = ("synchronize", "barrier")
"""Calls after which what was started has ended, or every rank has come by."""


class Unmatched:
    """A call at `pos` that hangs or does nothing. `kind`: "dropped" (an asynchronous call whose handle is lost),
    "alone" (no rank has the other half), "order" (all send before anyone receives); `other`: the half that comes too
    late."""

    __slots__ = ("function", "kind", "name", "other", "pos")

    def __init__(self, kind: str, function: Function, pos: int, name: str, other: int = 0) -> None:
        self.kind = kind
        self.function = function
        self.pos = pos
        self.name = name
        self.other = other

    @property
    def module(self) -> Module:
        return self.function.module


class Post:
    """One call of one rank: it sends to, or receives from, `peer` (None: from anyone)."""

    __slots__ = ("blocks", "done", "key", "name", "peer", "pos", "sends")

    def __init__(self, name: str, peer: int | None, key: Any, pos: int) -> None:
        self.name = name
        self.sends = "send" in name
        self.blocks = not name.startswith("i")
        self.peer = peer
        self.key = key
        self.pos = pos
        self.done = False


class Untold(Exception):
    """Something that decides is not known."""


class Sends:
    def __init__(self, machine: Machine, saves: Saves) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects
        self.saves = saves

    def found(self) -> list[Unmatched]:
        self.suspects.find()
        out: list[Unmatched] = []
        holders: dict[int, Function] = {}
        other_ways = False
        for page in list(self.suspects.pages.values()):
            if "async_op=True" in page.text or not page.tokens.isdisjoint(("isend", "irecv")):
                with self.program.guard(page.module):
                    out += self.dropped(page)
            other_ways = other_ways or not page.tokens.isdisjoint(OTHER_WAYS)
            for word in page.tokens & PAIRED.keys():
                for i in page.places(word):
                    if page.text.startswith("(", i + len(word)) and page.text[i - 4 : i] != "def ":
                        f = page.at(i)
                        if id(f) not in holders and self.paired(f):
                            holders[id(f)] = f
        for f in holders.values():
            with self.program.guard(f.module):
                out += self.unmatched(f, len(holders) == 1 and not other_ways)
        return sorted(out, key=lambda u: (u.module.path, u.pos))

    def paired(self, f: Function) -> bool:
        """Whether a function calls one of the two halves."""
        return any(self.half(e, f) for g in self.program.with_nested(f) for e in self.program.calls(g))

    def half(self, e: Expr, f: Function) -> bool:
        if callee_name(e) not in PAIRED:
            return False
        row = knowledge.api(self.program.qualified(e[2], self.program.scope(f)) or "")
        return row is not None and row.kind == "p2p"

    # ------------------------------------------------------------------------------------------ handles that are lost
    def dropped(self, page: Page) -> Iterator[Unmatched]:
        for g in page.holding("async_op=True", "isend(", "irecv("):
            for f in self.program.with_nested(g):
                for s, looped in statements(self.program.body(f), False):
                    e = s[2] if s[0] == "expr" else s[3] if s[0] == "assign" else None
                    if e is None or e[0] != "call" or not self.starts(e, f):
                        continue
                    if s[0] == "assign":
                        name = s[2][0][2] if len(s[2]) == 1 and s[2][0][0] == "name" else ""
                        if not name or f.name == "<module>" or self.mentioned(name, f):
                            continue
                    if self.used_later(e, f, looped):
                        yield Unmatched("dropped", f, e[1], callee_name(e))

    def mentioned(self, name: str, f: Function) -> bool:
        """Whether a function, or one inside it, reads a name or shares it with others."""
        for g in self.program.with_nested(f):
            found = self.program.statements(g)
            stored = {id(t) for s in found if s[0] == "assign" for t in s[2]}
            if any(name in s[2] for s in found if s[0] in ("global", "nonlocal")):
                return True
            if any(x[0] == "name" and x[2] == name and id(x) not in stored for x in self.program.expressions(g)):
                return True
        return False

    def starts(self, e: Expr, f: Function) -> bool:
        """Whether a call comes back before it is done."""
        last = callee_name(e)
        asked = any(k == "async_op" and v[0] == "const" and v[2] is True for k, v in e[4])
        if not asked and last not in ("isend", "irecv"):
            return False
        row = knowledge.api(self.program.qualified(e[2], self.program.scope(f)) or "")
        return row is not None and (row.blocking == "async_arg" if asked else row.kind == "p2p")

    def used_later(self, e: Expr, f: Function, looped: bool) -> bool:
        """Whether anyone looks at the tensor before all that was started must have ended."""
        given = e[3][0] if e[3] else next((v for k, v in e[4] if k in ("tensor", "output")), None)
        while given is not None and given[0] in ("sub", "attr") and dotted(given) is None:
            given = given[2]
        whole = dotted(given) if given is not None else None
        if whole is None:
            return False
        later = [x for x in self.program.expressions(f) if x[1] > e[1] or (looped and x[1] < e[1])]
        inside = {id(x) for x in walk_expr(e)}
        if any(x[0] == "call" and self.ends_all(x, f) for x in later):
            return False
        if "." in whole or whole in [p[0] for p in f.params]:
            # others see it: so may what waits for all streams at once
            return "synchronize(" not in (self.program.text(f.module.path) or "")
        return any(x[0] == "name" and id(x) not in inside and x[2] == whole for x in later)

    def ends_all(self, call: Expr, f: Function) -> bool:
        """Whether a call waits for all that was started, itself or in a function of the project."""
        return callee_name(call) in ALL_DONE or any(
            f"{name}(" in line
            for g in self.program.targets(call, self.program.scope(f))
            for line in self.program.lines_of(g)
            for name in ALL_DONE
        )

    # -------------------------------------------------------------------------------------------------- both halves
    def unmatched(self, f: Function, only: bool) -> Iterator[Unmatched]:
        if self.saves.unguarded(f, 2, {id(f)}) is None and self.suspects.callers(callable_name(f)):
            return
        worst: Unmatched | None = None
        for world in WORLDS:
            try:
                posts = [Run(self, f, rank, world).posts() for rank in range(world)]
            except Untold:
                return
            if not any(posts):
                continue
            found = self.judge(posts, f, only)
            if found is None:
                return
            worst = worst or found
        if worst is not None:
            yield worst

    def judge(self, posts: list[list[Post]], f: Function, only: bool) -> Unmatched | None:
        for rank, mine in enumerate(posts):
            for p in mine:
                if not any(meets(p, rank, q, peer) for peer, theirs in enumerate(posts) for q in theirs):
                    return Unmatched("alone", f, p.pos, p.name) if only else None
        stuck = through(posts)
        if not stuck or not all(p.sends for p in stuck):
            return None
        late = next(q for p in stuck for mine in posts for q in mine if not q.sends and q.pos > p.pos)
        return Unmatched("order", f, stuck[0].pos, stuck[0].name, late.pos) if late else None


def meets(p: Post, rank: int, q: Post, other: int) -> bool:
    """Whether two calls, of `rank` and of `other`, are two halves of one transfer."""
    return (
        p.sends is not q.sends
        and p.key == q.key
        and p.peer in (other, None)
        and q.peer in (rank, None)
        and rank != other
    )


def through(posts: list[list[Post]]) -> list[Post]:
    """The calls at which ranks stay when each runs its list in order; empty when all come to their ends."""
    at = [0] * len(posts)
    moved = True
    while moved:
        moved = False
        for rank, mine in enumerate(posts):
            while at[rank] < len(mine) and (mine[at[rank]].done or not mine[at[rank]].blocks):
                at[rank] += 1
                moved = True
        # what each has posted: all before where it stands that is not done, and where it stands
        for rank, mine in enumerate(posts):
            for p in mine[: at[rank] + 1]:
                for other, theirs in enumerate(posts) if not p.done else ():
                    q = next((q for q in theirs[: at[other] + 1] if not q.done and meets(p, rank, q, other)), None)
                    if q is not None:
                        p.done = q.done = moved = True
                        break
    return [mine[at[rank]] for rank, mine in enumerate(posts) if at[rank] < len(mine)]


class Run:
    """What one rank of a world posts in a function."""

    def __init__(self, sends: Sends, function: Function, rank: int, world: int) -> None:
        self.sends = sends
        self.function = function
        self.frame = sends.machine.pure_frame(function)
        self.rank = rank
        self.world = world
        self.env: dict[str, int | None] = {}
        self.out: list[Post] = []

    def posts(self) -> list[Post]:
        self.block(self.sends.program.body(self.function))
        return self.out

    def matters(self, block: Block) -> bool:
        """Whether a block posts anything, or decides whether what follows it does."""
        return self.holds(block) or any(s[0] in ("return", "continue", "break", "raise") for s in walk_block(block))

    def holds(self, block: Block) -> bool:
        return any(
            x[0] == "call" and callee_name(x) in PAIRED
            for s in walk_block(block) for e in expressions_of(s) for x in walk_expr(e)
        )  # fmt: skip

    def block(self, block: Block) -> bool:
        """Runs a block; False when it leaves the function or the turn of its loop."""
        return all(self.statement(s) for s in block)

    def statement(self, s: Stmt) -> bool:
        kind = s[0]
        if kind in ("def", "class"):
            return True
        for e in expressions_of(s):
            for x in walk_expr(e):
                if x[0] == "call":
                    self.call(x)
        if kind == "if":
            test = 1 if started(s[2]) else self.number(s[2])
            if test is not None:
                return self.block(s[3] if test else s[4])
            if self.matters(s[3]) or self.matters(s[4]):
                raise Untold
        elif kind == "for":
            return self.loop(s)
        elif kind == "assign":
            value = self.number(s[3])
            for t in s[2]:
                for name in target_names(t):
                    self.env[name] = value if t[0] == "name" else None
            return True
        elif kind in ("return", "continue", "break", "raise"):
            return False
        self.forget((s,))
        if kind == "match" and self.matters((s,)):
            raise Untold
        if kind == "try":
            if any(self.holds(h[2]) for h in s[3]):
                raise Untold
            return self.block(s[2]) and self.block(s[4]) and self.block(s[5])
        if kind == "while":
            self.turn(s[3])
        return self.block(s[3]) if kind == "with" else True

    def loop(self, s: Stmt) -> bool:
        self.forget((s,))
        if not self.matters(s[4]):
            return True
        turns: list[int | None] = [None]
        given = s[3]
        if given[0] == "call" and callee_name(given) == "range" and 0 < len(given[3]) < 4:
            bounds = [self.number(x) for x in given[3]]
            if None not in bounds and 0 not in bounds[2:]:
                turns = [*range(*bounds)][:MOST_POSTS]  # type: ignore[arg-type]
        for turn in turns:
            if s[2][0] == "name":
                self.env[s[2][2]] = turn
            self.turn(s[4])
        return True

    def turn(self, block: Block) -> None:
        """One turn of a loop; one that ends the loop or the function is not followed."""
        if not self.block(block) and any(x[0] in ("return", "break", "raise") for x in walk_block(block)):
            raise Untold

    def forget(self, block: Block) -> None:
        """Names that a block may set are not known any more."""
        for s in walk_block(block):
            targets = s[2] if s[0] == "assign" else (s[3],) if s[0] == "aug" else (s[2],) if s[0] == "for" else ()
            if s[0] == "with":
                targets = [t for _, t in s[2] if t]
            for t in targets:
                for name in target_names(t):
                    self.env[name] = None

    def call(self, e: Expr) -> None:
        if not self.sends.half(e, self.function):
            return
        name = callee_name(e)
        given = dict(e[4])
        if None in given or any(a[0] == "star" for a in e[3]) or len(e[3]) > 2 or len(self.out) > MOST_POSTS:
            raise Untold
        if any(k not in ("tensor", "object_list", "dst", "src", "tag") for k in given):
            raise Untold
        tag = self.number(given["tag"]) if "tag" in given else 0
        side = "dst" if "send" in name else "src"
        peer = e[3][1] if len(e[3]) > 1 else given.get(side)
        number = self.number(peer) if peer is not None else None
        if tag is None or (peer is None and side == "dst") or (peer is not None and number is None):
            raise Untold
        self.out.append(Post(name, number, (tag, name.endswith("object_list")), e[1]))

    # ------------------------------------------------------------------------------------------------------ numbers
    def number(self, e: Expr) -> int | None:
        """An expression as this rank's number, where it has one."""
        kind = e[0]
        if kind == "name" and e[2] in self.env:
            known = self.env[e[2]]
            return known if known is not None else self.of(self.sends.machine.pure(self.frame, e))
        if kind == "const":
            return e[2] if isinstance(e[2], int) else None
        if kind == "bin" and e[2] in ARITHMETIC:
            return computed(e[2], self.number(e[3]), self.number(e[4]))
        if kind == "cmp" and len(e[2]) == 1 and e[2][0] in RELATIONS and e[2][0] not in ("in", "not in"):
            return computed(e[2][0], self.number(e[3][0]), self.number(e[3][1]))
        if kind == "unary" and e[2] == "not":
            inner = self.number(e[3])
            return None if inner is None else not inner
        if kind == "bool":
            parts = [self.number(x) for x in e[3]]
            if None in parts:
                return None
            return all(parts) if e[2] == "and" else any(parts)
        if kind not in ("name", "attr", "call"):
            return None
        found = self.of(self.sends.machine.pure(self.frame, e))
        if found is None and kind == "name" and e[2] in SIZES and any(p[0] == e[2] for p in self.function.params):
            return self.world
        return found

    def of(self, v: Value) -> int | None:
        if v == UNKNOWN:
            return None
        kind = v[0]
        if kind == "const":
            return v[1] if isinstance(v[1], int) else None
        if kind == "rank":
            return self.rank if v[1] in ("world", "local") else None
        if kind == "size":
            return self.world if v[1] in ("world", "local") else None
        if kind != "op":
            return None
        parts = [self.of(x) for x in v[2:]]
        if None in parts:
            return None
        if v[1] == "not":
            return not parts[0]
        if v[1] in ("and", "or"):
            return all(parts) if v[1] == "and" else any(parts)
        return computed(v[1], *parts) if len(parts) == 2 else None


def started(test: Expr) -> bool:
    """`__name__ == "__main__"`"""
    return bool(test[0] == "cmp" and test[3][0][0] == "name" and test[3][0][2] == "__name__")


def computed(name: str, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    if name in COMPARISONS:
        return bool(RELATIONS[name](a, b))
    try:
        c = ARITHMETIC[name](a, b)
    except (ArithmeticError, KeyError):
        return None
    return c if isinstance(c, int) else None


def statements(block: Block, looped: bool) -> Iterator[tuple[Stmt, bool]]:
    """(statement, whether it runs again and again), definitions not entered."""
    for s in block:
        yield s, looped
        if s[0] not in ("def", "class"):
            for sub in blocks_of(s):
                yield from statements(sub, looped or s[0] in ("for", "while"))
