"""Do two abstract ranks run the same collectives in the same order on the groups they share?

Both traces are walked together. A choice that is the same everywhere is taken the same way on both sides; where they
differ, the walk notes the difference and tries to fall into step again: the remainder behind a guarded block is one
and the
same node on both sides when nothing in it depends on the rank.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .ranks_values import Value
    from .traces import Node, Table

    Trail = Any  # linked pairs (mark node, earlier trail)

MOST_PAIRS = 4000
"""Pairs of nodes of one comparison; beyond, the rest counts as equal and `gave_up` is set."""
MOST_VISITS = 3
"""Sets of assumptions under which one pair of choices is looked at; without a bound they double with every choice."""
DEEPEST = 220
LOOK_AHEAD = 12


class Difference:
    """Where two ranks part. `kind`: "missing" (one side runs `node`, the other does not), "order" (each runs another
    step), "leaves" (one side leaves the loop), "trips" (the loop has another length), "quits", "roots" (the same
    collective, but each names another rank as its source). `side` (0 or 1) is the one that runs `node`, or that leaves.
    `marks` are the guards passed on either side, latest first."""

    __slots__ = ("against", "kind", "loop", "marks", "node", "side", "unsaid")

    def __init__(
        self, kind: str, node: Node, side: int, marks: tuple[list[Node], list[Node]], against: Node, loop: Node | None
    ) -> None:
        self.kind = kind
        self.node = node
        self.side = side
        self.marks = marks
        self.against = against
        self.loop = loop
        self.unsaid: Any = None  # why nothing is said of it (`ranks_explain.unsaid`)


class Comparison:
    """Compares two nodes of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.differences: list[Difference] = []
        self.gave_up = False
        self._pairs = 0
        self._seen: set[Any] = set()
        self._visits: dict[tuple[int, int], int] = {}
        self._quiet = 0

    def run(self, a: Node, b: Node) -> list[Difference]:
        self.walk(a, b, {}, None, None, (), 0)
        return self.differences

    def equal(self, a: Node, b: Node, assume: dict[Value, bool], loops: Any, depth: int) -> bool:
        """Whether two remainders agree, without noting anything."""
        if a is b:
            return True
        inner = Comparison(self.table)
        inner._quiet = self._quiet + 1
        inner._pairs = self._pairs
        inner.walk(a, b, assume, None, None, loops, depth + 1)
        self._pairs = inner._pairs
        self.gave_up = self.gave_up or inner.gave_up
        return not inner.differences

    def step(self, node: Node, trail: Trail) -> tuple[Node, Trail]:
        """The next step at or after `node`, over notes."""
        while node.kind == "mark":
            trail = (node, trail)
            node = node.next  # type: ignore[assignment]
        return node, trail

    def walk(
        self, a: Node, b: Node, assume: dict[Value, bool], ta: Trail, tb: Trail, loops: tuple[Any, ...], depth: int
    ) -> None:
        while True:
            if a is b or (self._quiet and self.differences):
                return
            a, ta = self.step(a, ta)
            b, tb = self.step(b, tb)
            if a is b:
                return
            self._pairs += 1
            if self._pairs > MOST_PAIRS or depth > DEEPEST:
                self.gave_up = True
                return
            if a.kind == "raise" or b.kind == "raise":
                return  # the launcher ends a job one of whose ranks dies of an exception
            if a.kind == "branch" or b.kind == "branch":
                # what was assumed about choices that come no more makes no difference
                ahead = a.bits | b.bits
                assume = {k: v for k, v in assume.items() if self.table.bit(k) & ahead}
                key = (a.id, b.id, frozenset(assume.items()), stepped(loops))
                if key in self._seen:
                    return
                self._seen.add(key)
                visits = self._visits[a.id, b.id] = self._visits.get((a.id, b.id), 0) + 1
                if visits > MOST_VISITS:
                    return
                self.choose(a, b, assume, ta, tb, loops, depth)
                return
            if a.kind == b.kind == "loop":
                if a.data[0] is not b.data[0] and (self.passes(a, b) or self.passes(b, a)):
                    self.apart(a, b, assume, ta, tb, loops, depth)
                    return
                self.turns(a, b, assume, ta, tb, loops, depth)
                a, b, loops = a.next, b.next, begun(loops)  # type: ignore[assignment]
                continue
            if a.kind == b.kind and a.kind in ("op", "call") and a.key == b.key:
                if self.doubled(a, b, ta, tb):
                    return
                if not self._quiet and a.kind == "op" and a.data[2] != b.data[2] and None not in (a.data[2], b.data[2]):
                    self.note("roots", a, 0, ta, tb, b, None)
                a, b, loops = a.next, b.next, begun(loops)  # type: ignore[assignment]
                continue
            if a.kind == b.kind:
                if a.kind in ("op", "call"):
                    self.apart(a, b, assume, ta, tb, loops, depth)
                elif a.kind == "again" and loops and loops[-1][0] is not loops[-1][1]:
                    # one side begins the next turn of this loop, the other has left it for the next of one around
                    side = 0 if b is self.table.again(loops[-1][1].data[0]) else 1
                    self.leaves(b if side else a, side, assume, ta, tb, loops, depth)
                return
            self.apart(a, b, assume, ta, tb, loops, depth)
            return

    def doubled(self, a: Node, b: Node, ta: Trail, tb: Trail) -> bool:
        """Equal collectives, but one side runs the other's very step right after its own: the first is one too many."""
        if a.data[0] is b.data[0]:
            return False
        for side, one, other in ((0, a, b), (1, b, a)):
            following, _ = self.step(one.next, None)  # type: ignore[arg-type]
            if following is other:
                self.note("missing", one, side, ta, tb, other, None)
                return True
        return False

    def passes(self, a: Node, b: Node) -> bool:
        """Whether `b` comes next after `a`: then `a` is what the other side does not have."""
        following, _ = self.step(a.next, None)  # type: ignore[arg-type]
        while following.kind == "branch" and following.next is not None and following.other is not None:
            if following is b:
                return True
            straight = following.next if following.next.steps and not following.other.steps else following.other
            following, _ = self.step(straight, None)
        return following is b

    def choose(self, a: Node, b: Node, assume: dict[Value, bool], ta: Trail, tb: Trail, loops: Any, depth: int) -> None:
        for side, node in ((0, a), (1, b)):
            if node.kind == "branch" and node.key in assume:
                taken: Any = node.next if assume[node.key] else node.other
                if side == 0:
                    self.walk(taken, b, assume, ta, tb, loops, depth + 1)
                else:
                    self.walk(a, taken, assume, ta, tb, loops, depth + 1)
                return
        guard = a.key if a.kind == "branch" else b.key
        for truth in (True, False):
            x: Any = (a.next if truth else a.other) if a.kind == "branch" and a.key == guard else a
            y: Any = (b.next if truth else b.other) if b.kind == "branch" and b.key == guard else b
            if x is not y:
                others = dict.fromkeys(self.table.excluded(guard), False) if truth else {}
                self.walk(x, y, {**assume, **others, guard: truth}, ta, tb, loops, depth + 1)

    def turns(self, a: Node, b: Node, assume: dict[Value, bool], ta: Trail, tb: Trail, loops: Any, depth: int) -> None:
        """Two loops: their bodies have to agree turn by turn, and so does the number of turns where it is known."""
        mine, theirs = a.data[2], b.data[2]
        known = mine[0] in ("rc", "const") and theirs[0] in ("rc", "const")
        if known and mine != theirs and self.body_steps(a):
            self.note("trips", a, 0, ta, tb, b, a)
            return
        if a.data[0] is not b.data[0] and self.body_keys(a) == self.body_keys(b):
            return  # two loops over what may be the same things, with the same collectives: not decided
        if a.other is not b.other:
            # what is changed inside has other keys there: the choices of the turn before are not among these
            self.walk(a.other, b.other, assume, ta, tb, (*loops, (a, b)), depth + 1)  # type: ignore[arg-type]

    def apart(self, a: Node, b: Node, assume: dict[Value, bool], ta: Trail, tb: Trail, loops: Any, depth: int) -> None:
        """The two sides are out of step here: note it, and go on where they meet again."""
        if self.comes_later(a, b, loops) and not (caught(ta) or caught(tb)):
            return
        if loops and loops[-1][0] is loops[-1][1] and "again" in (a.kind, b.kind):
            # a loop that one side does not have: what counts is what its turns run, not where it is left
            one = b if a.kind == "again" else a
            if one.kind not in ("op", "call", "loop") or self.left(one, loops):
                return
        if "quit" in (a.kind, b.kind):
            side = 0 if a.kind == "quit" else 1
            leaver, rest = (a, b) if side == 0 else (b, a)
            found = self.first(rest)
            if found is None and loops:
                found = self.first(loops[-1][1 - side].other, inside=loops[-1][1 - side]) or self.first(
                    loops[-1][1 - side].next
                )
            if found is not None:
                self.note("quits", found, 1 - side, ta, tb, leaver, None)
            return
        for side, one, other in ((0, a, b), (1, b, a)):
            if other.kind == "again" and one.kind not in ("op", "call", "loop", "again"):
                # one side is through with this turn, the other has left the loop
                self.leaves(one, side, assume, ta, tb, loops, depth)
                return
        best: tuple[int, int, Node] | None = None
        for side, one, other in ((0, a, b), (1, b, a)):
            skipped = 0
            at: Node | None = one
            while at is not None and at.kind in ("op", "call", "loop") and skipped < LOOK_AHEAD:
                at = at.next
                skipped += 1
                if at is None:
                    break
                at, _ = self.step(at, None)
                if self.same_step(at, other) and self.equal(at, other, assume, loops, depth):
                    if best is None or skipped < best[0]:
                        best = (skipped, side, at)
                    break
        if best is not None:
            _, side, meeting = best
            at = a if side == 0 else b
            while at is not None and at is not meeting:
                if at.kind in ("op", "call"):
                    self.note("missing", at, side, ta, tb, b if side == 0 else a, None)
                elif at.kind == "loop":
                    self.alone(at, side, assume, ta, tb, loops, depth)
                at, _ = self.step(at.next, None)  # type: ignore[arg-type]
            return
        if a.kind in ("op", "call") and b.kind in ("op", "call"):
            self.note("order", a, 0, ta, tb, b, None)
            return
        for side, one, other in ((0, a, b), (1, b, a)):
            if one.kind in ("op", "call"):
                if other.kind == "again" and loops[-1][0] is not loops[-1][1] and self.left(one, loops):
                    self.leaves(one, side, assume, ta, tb, loops, depth)
                else:
                    self.note("missing", one, side, ta, tb, other, None)
                return
        for side, one, other in ((0, a, b), (1, b, a)):
            if one.kind == "loop":
                if other.kind == "again" and loops[-1][0] is not loops[-1][1] and self.left(one, loops):
                    self.leaves(one, side, assume, ta, tb, loops, depth)
                    return
                self.alone(one, side, assume, ta, tb, loops, depth)
                # `for batch in loader: model(batch)`, then `gather(results)` if there is more than one rank
                x, y = (one.next, other) if side == 0 else (other, one.next)
                self.walk(x, y, assume, ta, tb, loops, depth + 1)  # type: ignore[arg-type]
                return

    def comes_later(self, a: Node, b: Node, loops: Any) -> bool:
        """Whether one side has given up a turn before its first collective, and comes to the other's in its next."""
        if not loops or stepped(loops) or not repeats(loops[-1][0]) or loops[-1][0].data[0] is not loops[-1][1].data[0]:
            return False
        for side, one, other in ((0, a, b), (1, b, a)):
            if one.kind == "again" and other.kind in ("op", "call", "loop") and not self.left(other, loops):
                return one is self.table.again(loops[-1][side].data[0]) and any(
                    self.same_step(n, other) for n in openings(loops[-1][side])
                )
        return False

    def alone(self, loop: Node, side: int, assume: Any, ta: Trail, tb: Trail, loops: Any, depth: int) -> None:
        """A loop that only one side has: what is in it is compared with turns that do nothing."""
        inside = (*loops, (loop, loop, True))
        if side == 0:
            self.walk(loop.other, self.table.again(loop.data[0]), assume, ta, tb, inside, depth + 1)  # type: ignore[arg-type]
        else:
            self.walk(self.table.again(loop.data[0]), loop.other, assume, ta, tb, inside, depth + 1)  # type: ignore[arg-type]

    def same_step(self, a: Node, b: Node) -> bool:
        return (
            a is b
            or a.kind == "branch"
            or b.kind == "branch"
            or (a.kind == b.kind and (a.kind == "loop" or a.key == b.key))
        )

    def left(self, node: Node, loops: Any) -> bool:
        """Whether a step lies behind the innermost loop, not in it."""
        if not loops:
            return False
        after = loops[-1][0].next, loops[-1][1].next
        return any(x is not None and reaches(x, node) for x in after)

    def leaves(self, one: Node, side: int, assume: Any, ta: Trail, tb: Trail, loops: Any, depth: int) -> None:
        if not loops:
            return
        pair = loops[-1]
        if self.body_steps(pair[1 - side]) or self.body_steps(pair[side]):
            self.note("leaves", one, side, ta, tb, pair[1 - side], pair[side])
            return
        # turns without collectives: only what comes after the loop has to agree
        after = pair[1 - side].next
        if side == 0:
            self.walk(one, after, assume, ta, tb, loops[:-1], depth + 1)
        else:
            self.walk(after, one, assume, ta, tb, loops[:-1], depth + 1)

    def body_steps(self, loop: Node) -> bool:
        """Whether a turn of the loop runs a collective."""
        return next(body_ops(loop), None) is not None

    def body_keys(self, loop: Node) -> set[Any]:
        """The keys of all collectives in a loop's body."""
        return {n.key for n in body_ops(loop)}

    def first(self, node: Node | None, inside: Node | None = None) -> Node | None:
        """The nearest collective at or after a node (not behind the loop `inside`)."""
        seen = set()
        stack = [node]
        while stack:
            n = stack.pop()
            if n is None or n.id in seen or not n.steps or (inside is not None and n is inside.next):
                continue
            seen.add(n.id)
            if n.kind in ("op", "call"):
                return n
            stack.append(n.next)
            stack.append(n.other)
        return None

    def note(self, kind: str, node: Node, side: int, ta: Trail, tb: Trail, against: Node, loop: Node | None) -> None:
        self.differences.append(Difference(kind, node, side, (listed(ta), listed(tb)), against, loop))


def repeats(loop: Node) -> bool:
    """Whether a turn of the loop that runs no collective is as good as none (`ranks_turns`)."""
    item = loop.data[0]
    return item[0] == "while" and bool(item[6])


def begun(loops: Any) -> Any:
    """The loops around, once a collective of this turn has been run: noted where it makes a difference."""
    if loops and len(loops[-1]) == 2 and repeats(loops[-1][0]):
        return (*loops[:-1], (*loops[-1], True))
    return loops


def stepped(loops: Any) -> bool:
    return bool(loops) and len(loops[-1]) > 2


def openings(loop: Node) -> Iterator[Node]:
    """The steps that can be the first of a loop's turn."""
    seen = set()
    stack = [loop.other]
    while stack:
        n = stack.pop()
        if n is None or n.id in seen:
            continue
        seen.add(n.id)
        if n.kind in ("branch", "mark"):
            stack += [n.next, n.other]
        elif n.kind in ("op", "call", "loop"):
            yield n


def caught(trail: Trail) -> bool:
    """Whether a side has come here by a handler: by an exception that may have come up behind a collective as well."""
    return any(m.data[0][0] == "try" and m.data[3] == "True" for m in listed(trail))


def listed(trail: Trail) -> list[Node]:
    out: list[Node] = []
    while trail is not None and len(out) < 200:
        out.append(trail[0])
        trail = trail[1]
    return out


def reaches(start: Node, node: Node) -> bool:
    seen: set[int] = set()
    stack: list[Node | None] = [start]
    while stack and len(seen) < 400:
        n = stack.pop()
        if n is node:
            return True
        if n is None or n.id in seen:
            continue
        seen.add(n.id)
        stack.append(n.next)
        stack.append(n.other)
    return False


def steps_from(node: Node, most: int = 5) -> list[str]:
    """The names of the next collectives on the straight way from a node (the first way of each choice), for the
    report."""
    out: list[str] = []
    at: Node | None = node
    hops = 0
    while at is not None and len(out) < most and hops < 400:
        hops += 1
        if at.kind == "op":
            out.append(at.data[0].name)
        elif at.kind == "call":
            out.append(f"{at.data[0].function.name}()" if at.data[0].function else "call")
        elif (at.kind == "loop" and at.other is not None and at.other.steps) or (
            at.kind == "branch" and at.other is not None and not (at.next is not None and at.next.steps)
        ):
            at = at.other
            continue
        at = at.next
    return out


def body_ops(loop: Node) -> Iterator[Node]:
    """The collectives, and the calls that run some, in a loop's body."""
    seen = set()
    stack = [loop.other]
    while stack:
        n = stack.pop()
        if n is None or n is loop.next or n.id in seen or not n.steps:
            continue
        seen.add(n.id)
        if n.kind in ("op", "call"):
            yield n
        stack.append(n.next)
        stack.append(n.other)
