"""Whether a rank that gives up a turn of a `while` loop comes to the same collective in its next one.

In a loop that waits for input, `if not text: continue` on rank 0 leaves the others waiting in the broadcast of this
turn until rank 0 comes to it in a later one. That is so where no turn is counted and nothing runs out: the loop is left
only behind the turn's collectives, and no test in it asks for what a given-up turn has changed.
"""

from __future__ import annotations

from ..program.model import blocks_of, dotted, expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .traces_questions import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Stmt
    from .traces import Item, Items

BY_HAND = frozenset(("KeyboardInterrupt", "EOFError"))
"""Exceptions by which somebody ends the program, not data that run out."""


def repeatable(loop: Stmt, body: Items) -> bool:
    """Whether a turn of a `while` loop that runs no collective is as good as none."""
    steps = [item[1].pos if item[0] == "op" else item[2] for item in every(body) if item[0] in ("op", "call")]
    if not steps or not stays_open(loop[2], loop[3], max(steps)) or left_early(body, loop[1])[0]:
        return False
    counted = counters(loop[3], max(steps))
    if counted is None:
        return False
    asked = {item[4] for item in every(body) if item[0] in ("if", "while")}
    tests = [s[2] for s in walk_block(loop[3]) if s[0] in ("if", "while") and s[1] in asked]
    return counted.isdisjoint(words_of(*tests))


def stays_open(test: Expr, block: Block, last: int) -> bool:
    """Whether a given-up turn does not bring a loop nearer to its end: `while True`, a flag, a count of what was done.
    What has methods called on it, or is given something else before a turn's last collective, may run out."""
    if test[0] == "const":
        return bool(test[2])
    if any(x[0] not in ("name", "attr", "const", "unary", "cmp", "bool") for x in walk_expr(test)):
        return False
    asked = words_of(test)
    for s in walk_block(block):
        for names, value in changes(s):
            if value[1] < last and value[0] != "const" and not asked.isdisjoint(names):
                return False
        for x in (x for e in expressions_of(s) for x in walk_expr(e)):
            if x[0] == "call" and x[2][0] == "attr" and dotted(x[2][2]) in asked:
                return False
    return True


def left_early(items: Items, loop: int) -> tuple[bool, bool]:
    """(whether the loop at a position can be left before a turn's first collective, whether items can be passed without
    one)."""
    for item in items:
        kind = item[0]
        early, passed = False, True
        if kind == "op" or (kind == "call" and item[1].has_ops):
            return False, False
        if kind == "exit":
            return item[1] in ("break", "return", "quit") and item[2] != loop, False
        if kind == "if":
            (one, first), (two, second) = left_early(item[2], loop), left_early(item[3], loop)
            early, passed = one or two, first or second
        elif kind in ("loop", "while"):
            early = any(x[0] == "exit" and x[1] in ("return", "quit") for x in every(inner(item)))
        elif kind == "try":
            early, passed = left_early((*item[1], *item[3], *item[4]), loop)
            caught = [h for h in item[2] if not (h[3] and BY_HAND.issuperset(h[3]))]
            early = early or any(left_early(h[0], loop)[0] for h in caught)
            passed = passed or bool(caught)
        if early or not passed:
            return early, passed
    return False, True


def inner(item: Item) -> Items:
    """The turns of a loop inside the loop."""
    return item[3] if item[0] == "loop" else item[2]  # type: ignore[no-any-return]


def counters(block: Block, last: int) -> set[str] | None:
    """The names that a given-up turn leaves changed: those made from their own value in the turn before, ahead of a
    turn's last collective, and what follows from them; None where a turn takes the next of what may run out."""
    statements = walk_block(block)
    if any(
        x[0] == "call" and callee_name(x) == "next" for s in statements for e in expressions_of(s) for x in walk_expr(e)
    ):
        return None
    found: set[str] = set()
    carried(block, set(), last, found)
    rows = [(names, words_of(value)) for s in statements for names, value in changes(s)]
    size = -1
    while size != len(found):
        size = len(found)
        for names, words in rows:
            if not found.isdisjoint(words):
                found.update(names)
    return found


def carried(block: Block, fresh: set[str], last: int, out: set[str]) -> None:
    """Adds the names that are made from what an earlier turn has left in them; those in `fresh` are given anew in every
    turn."""
    for s in block:
        for names, value in changes(s):
            old = words_of(value).intersection(names) - fresh
            if old and value[1] < last:
                out.update(old)
            elif not old:
                fresh.update(names)
        for sub in blocks_of(s):
            carried(sub, set(fresh), last, out)


def changes(s: Stmt) -> Iterator[tuple[list[str], Expr]]:
    """(names, what they are given) of a statement; `x += 1` reads itself."""
    kind = s[0]
    if kind == "aug":
        yield named((s[3],)), ("tuple", s[1], (s[3], s[4]))
    elif kind == "assign":
        yield named(s[2]), s[3]
    elif kind == "ann" and s[4]:
        yield named((s[2],)), s[4]
    elif kind == "for":
        yield named((s[2],)), s[3]
    elif kind == "with":
        for context, target in s[2]:
            if target:
                yield named((target,)), context


def named(targets: tuple[Expr, ...]) -> list[str]:
    out: list[str] = []
    for t in targets:
        whole = dotted(t)
        out += [whole] if whole is not None else target_names(t)
    return out


def words_of(*tests: Expr) -> set[str]:
    """The names and dotted names in expressions."""
    return {name for e in tests for x in walk_expr(e) if x[0] in ("name", "attr") and (name := dotted(x)) is not None}
