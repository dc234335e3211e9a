"""Walking the items of a region tree, and questions about its blocks: what they run, how surely, what keeps an
exception there."""

from __future__ import annotations

from ... import knowledge
from .ranks_values import LEADER, REDUCED, at, depends_on_rank, parts, truth, varies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .ranks_values import Value
    from .traces import Item, Items, Op, Trace


def blocks(item: Item) -> tuple[Items, ...]:
    """The blocks inside one item (not those of a callee)."""
    kind = item[0]
    if kind == "if":
        return (item[2], item[3])
    if kind == "loop":
        return (item[3], item[4])
    if kind == "while":
        return (item[2], item[3])
    if kind == "try":
        return (item[1], *(h[0] for h in item[2]), item[3], item[4])
    return ()


def every(items: Items) -> Iterator[Item]:
    """Each item of a tree, outer ones first; callees are not entered."""
    stack = list(reversed(items))
    while stack:
        item = stack.pop()
        yield item
        for block in reversed(blocks(item)):
            stack.extend(reversed(block))


def swallowing(item: Item) -> str:
    """Whether an exception on one rank alone can part it from the others here: "handled" (the handler runs a
    collective), "skipped" (it goes on elsewhere, and the body is more than one collective), "passed" (it gives up a
    turn whose collectives come later), "ended" (an iterator's end leaves), or ""."""
    body = list(ops_of(item[1]))
    for items, _, reraises, marked in item[2]:
        leaves_by = next((x[1] for x in every(items) if x[0] == "exit"), "")
        names = tuple([n for n in marked if n != TURN])
        if not leaves_by and len(names) < len(marked):
            leaves_by = "continue"
        if "StopIteration" in names:
            if leaves_by in ("return", "break"):
                return "ended"
            continue
        if not body and not reraises and leaves_by == "continue" and PASSING.intersection(names):
            return "passed"
        if reraises or not body or leaves_by == "raise":
            continue
        if any(conditions(items, o) == 0 for o in ops_of(items)):
            return "handled"
        steps = sum(2 if o.row is not None and o.row.kind in STEPPING else 1 for o in body)
        if leaves_by in ("continue", "break") and steps >= 2 and (not names or BROAD.intersection(names)):
            return "skipped"
    return ""


def left_by(item: Item) -> Item | None:
    """The way out that a handler takes instead of what comes behind its `try`: where one rank alone runs the `try`, the
    others do not take it."""
    for items, _, reraises, _ in item[2]:
        out = next((x for x in every(items) if x[0] == "exit"), None)
        if out is not None and not reraises and out[1] != "raise":
            return out
    return None


def not_agreed(items: Items) -> Items:
    """What a turn runs without asking for a number that all ranks have agreed on: `if step < fewest: all_reduce(x)`,
    with the fewest turns of any rank, runs as often on each."""
    out: list[Item] = []
    for item in items:
        if item[0] == "if":
            if holds_agreed(item[1]):
                if any(x[0] == "exit" for x in every(item[2] + item[3])):
                    break
                continue
            item = (*item[:2], not_agreed(item[2]), not_agreed(item[3]), *item[4:])
        out.append(item)
    return tuple(out)


def holds_agreed(v: Value) -> bool:
    return v == REDUCED or any(map(holds_agreed, parts(v)))


def chosen_tries(items: Items, test: Item | None = None, out: dict[int, Item] | None = None) -> dict[int, Item]:
    """{id of a `try`: the test of a rank under which it stands, or behind which only some ranks come by}."""
    found: dict[int, Item] = {} if out is None else out
    for item in items:
        kind = item[0]
        if kind == "try" and test is not None:
            found[id(item)] = test
        ranked = kind == "if" and depends_on_rank(item[1])
        for block in blocks(item):
            chosen_tries(block, item if ranked else test, found)
        if ranked and any(b and b[-1][0] == "exit" for b in item[2:4]):
            test = item
    return found


BROAD = {"Exception", "RuntimeError", "BaseException", "OutOfMemoryError", "ValueError", "AssertionError"}
OWN = "own"
"""Among the names of a handler: an exception of the program's own that a rank raises for its own data."""
TURN = "turn"
"""Among the names of a handler: behind it the next turn of a loop begins."""
BROAD.add(OWN)
PASSING = {"OutOfMemoryError", "RuntimeError", "AssertionError", OWN}
"""What one rank alone meets in a forward, or in making a batch."""
STEPPING = ("forward_collective", "backward_collective")


def contains(items: Items, op: Op) -> bool:
    """Whether a block runs this very collective, also through calls."""
    return any(x is op for x in ops_of(items))


def ops_of(items: Items) -> Iterator[Op]:
    """Every collective of a block and of what it calls, each function once."""
    seen: set[int] = set()
    stack = [items]
    while stack:
        for item in every(stack.pop()):
            if item[0] == "op":
                yield item[1]
            elif item[0] == "call" and item[1].has_ops and id(item[1]) not in seen:
                seen.add(id(item[1]))
                stack.append(item[1].items)


def reached(trace: Trace) -> Iterator[Trace]:
    """A trace and those that it calls, at any depth, each once."""
    seen: set[int] = set()
    stack = [trace]
    while stack:
        t = stack.pop()
        if id(t) not in seen:
            seen.add(id(t))
            yield t
            stack += [item[1] for item in every(t.items) if item[0] == "call"]


def conditions(items: Items, op: Op, inside: bool = False, known: dict[int, int | None] | None = None) -> int | None:
    """How many conditions that are not known stand before a collective inside the functions that are called (those
    of the
    block itself are in sight and do not count); None when the block does not run it."""
    memo: dict[int, int | None] = {} if known is None else known
    best: int | None = None
    passed = 0
    for item in items:
        kind = item[0]
        found: int | None = None
        if kind == "op" and item[1] is op:
            found = 0
        elif kind == "call" and item[1].has_ops:
            key = id(item[1])
            if key not in memo:
                memo[key] = None  # a recursive call adds no way of its own
                memo[key] = conditions(item[1].items, op, True, memo)
            found = memo[key]
        else:
            chosen = kind == "if" and (inside or item[4] == item[5]) and uncertain(item[1], inside)
            for block in blocks(item):
                inner = conditions(block, op, inside, memo)
                handler = kind == "try" and inside and block is not item[1] and block is not item[4]
                if inner is not None and (chosen or handler):
                    inner += 1
                if inner is not None and (found is None or inner < found):
                    found = inner
        if found is not None and (best is None or found + passed < best):
            best = found + passed
        if inside and kind == "if" and not varies(item[1]) and not expected(item[1]):
            passed += any(x[0] == "exit" and x[1] not in ("raise", "continue") for x in every(item[2] + item[3]))
    return best


def uncertain(guard: Value, inside: bool) -> bool:
    """Whether a guard adds a condition that is not known: one that is the same everywhere, alone or beside a rank
    test."""
    if not varies(guard):
        return not expected(guard)
    parts = guard[2:] if guard[:2] == ("op", "and") else ()
    return inside and any(not varies(x) and not expected(x) for x in parts)


def expected(guard: Value) -> bool:
    """A flag whose name says that the run is distributed, or a test of the number of ranks."""
    name = ""
    if guard[0] == "op":
        return truth(at(guard, LEADER)) is not None
    if guard[0] == "bound":
        name = guard[2]
    elif guard[0] == "sym" and isinstance(guard[1], tuple):
        name = str(guard[1][-1])
    hinted = knowledge.identifier(name) if name else None
    return hinted is not None and hinted[0] == "uniform_source"


def keys_in(items: Items, known: dict[int, dict[str, bool]] | None = None) -> dict[str, bool]:
    """{key of a collective: whether it always runs} of a block, calls followed."""
    memo: dict[int, dict[str, bool]] = {} if known is None else known
    out: dict[str, bool] = {}
    for item in items:
        kind = item[0]
        if kind == "op":
            out[item[1].key] = True
        elif kind == "call" and item[1].has_ops:
            key = id(item[1])
            if key not in memo:
                memo[key] = {}
                memo[key] = keys_in(item[1].items, memo)
            for name, always in memo[key].items():
                out[name] = out.get(name, False) or always
        else:
            for block in blocks(item):
                for name in keys_in(block, memo):
                    out.setdefault(name, False)
    return out


def first_op(items: Items, seen: set[int] | None = None) -> Op | None:
    """The first collective of a block, calls followed."""
    passed: set[int] = set() if seen is None else seen
    for item in every(items):
        if item[0] == "op":
            return item[1]  # type: ignore[no-any-return]
        if item[0] == "call" and item[1].has_ops and id(item[1]) not in passed:
            passed.add(id(item[1]))
            found = first_op(item[1].items, passed)
            if found is not None:
                return found
    return None
