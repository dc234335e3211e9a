"""From where two traces part to what is said about it: which guard, which ranks, which calls, how sure."""

from __future__ import annotations

from ...findings import LIKELY, NOTE, POSSIBLE, WARNING, Text
from ..program.model import span_of
from .ranks_divergence import Divergence
from .ranks_values import leaves, varies
from .traces import Op
from .traces_compare import Difference, steps_from
from .traces_questions import (
    STEPPING,
    TURN,
    chosen_tries,
    conditions,
    contains,
    every,
    first_op,
    keys_in,
    left_by,
    not_agreed,
    ops_of,
    swallowing,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Module
    from .ranks_values import Place, Value
    from .traces import Item, Items, Node

OUT_OF_SIGHT = 12
"""Lines from a guard to a collective under it from which on a reader of either does not see the other."""
DECIDERS = (Text("one rank", "某个 rank"), Text("another rank", "另一个 rank"))


def divergence(d: Difference, a: Place, b: Place) -> Divergence | None:
    if d.kind == "trips":
        return uneven(d)
    if d.kind == "roots":
        return rooted(d)
    found = responsible(d)
    if found is None:
        return None
    mark, taken = found
    item, trace, chain, _ = mark.data
    if item[0] == "try":
        return caught(d, mark) if swallowing(item) else left_alone(d, mark, a, b)
    guard = item[1]
    pos = item[5] if item[0] in ("if", "while") else item[-1]
    node = d.node
    kind = {"missing": "exit", "quits": "exit"}.get(d.kind, d.kind)
    step = step_of(node, d)
    if step is None:
        return None
    op, calls = step
    if d.kind == "missing" and item[0] == "if":
        inside = within(mark, op, calls) if node.kind == "op" else contains(item[2] + item[3], op)
        kind = "guarded" if inside else kind
    if d.kind != "leaves" and answered(d, item, op):
        return unsaid(d, "answered", trace.module, pos, op)
    if item[0] == "if" and kind in ("exit", "order") and d.kind != "quits":
        around = item[2] + item[3]
        leaves_here = any(x[0] == "exit" or (x[0] == "call" and x[1].has_quit) for x in every(around))
        if not leaves_here and not contains(around, op):
            # out of step since an earlier difference, which was noted for itself
            return unsaid(d, "earlier", trace.module, pos, op)
    if kind == "exit" and d.kind == "missing":
        left_by = leaving(item, taken)
        if left_by is not None and left_by[1] == "break":
            kind = "leaves"  # what is missed are the turns that the others still run
    out = Divergence(kind, op, (trace.module, pos, guard))
    if d.kind == "quits":
        left = d.against.data
        if left is not None and left[1].module is trace.module:
            out.exit = left[0][2]
    elif kind == "leaves":
        exit_at = exit_of(item, taken)
        if exit_at is None:
            return None
        out.module, out.pos, out.exit = trace.module, exit_at, exit_at
    elif kind == "exit":
        out.exit = exit_of(item, taken)
    if out.exit is not None and kind != "leaves":
        for later in ops_of(trace.items):
            made = later.row is not None and later.row.kind == "init" and later.module is trace.module
            if made and later.pos > out.exit:
                return unsaid(d, "before", trace.module, pos, op)
    if out.subject == "state" and guard[:2] == ("op", "or") and any(not varies(x) for x in guard[2:]):
        # `is_main or sharded`: whoever wrote it knows when every rank has to take part
        return unsaid(d, "sharded", trace.module, pos, op)
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
        return unsaid(d, "members", trace.module, pos, op)
    out.chain = (
        [(t.module, p, label) for t, p, label in calls[len(chain) :]]
        if calls[: len(chain)] == chain
        else [(t.module, p, label) for t, p, label in calls]
    )
    if (
        kind == "guarded"
        and not out.chain
        and op.module is trace.module
        and at_guard(op, pos, d.side == 1 and a.name == "leader")
    ):
        out.module, out.pos = trace.module, pos
    names = who(a, b, ranks) if ranks else DECIDERS
    out.runner, out.leaver = names[d.side], names[1 - d.side]
    mine = steps_from(node)
    theirs = steps_from(d.against)
    out.rows = [(names[d.side], listed(mine)), (names[1 - d.side], listed(theirs))]
    if d.side == 1:
        out.rows.reverse()
    whole = item[2] + item[3] if kind == "guarded" and item[0] == "if" else trace.items
    unknown = conditions(whole, op) or 0
    if not out.sure or unknown or out.by_strategy:
        out.severity, out.confidence = WARNING, LIKELY
    if unknown > 1 or (unknown and not decided and not all(x[2] for x in ranks)):
        out.confidence = POSSIBLE
    if (
        kind == "guarded"
        and op.family in ("ddp", "deepspeed")
        and op.name == "forward"
        and not (op.sure or stepped(whole))
    ):
        out.confidence = POSSIBLE  # whether there are buffers to synchronise, or sharded parameters, is not known
    if op.doubted:
        out.severity, out.confidence = NOTE, POSSIBLE
    return out


def stepped(items: Items) -> bool:
    """Whether a block runs a backward, which communicates whatever buffers there are."""
    return any(o.key == "backward" for o in ops_of(items))


def at_guard(op: Op, pos: int, for_others: bool) -> bool:
    """Whether a guarded collective is reported where the ranks part instead of where it stands: when it is so far
    below that one does not see both, and for the barrier in which all but rank 0 wait, which is the first half of a
    pair and all that the guard is for."""
    below = (op.pos >> 44) - span_of(pos)[2]
    return below > OUT_OF_SIGHT or (below == 1 and op.key == "barrier" and for_others)


def unsaid(d: Difference, why: str, module: Module, pos: int, op: Op) -> Divergence | None:
    """Notes why a difference is not reported: "answered" (both ways run the collective, not comparably), "earlier" (a
    consequence of another difference), "before" (who left is not in the group made later), "sharded" (the guard asks
    for sharding too), "members" (the members of the group are not known)."""
    d.unsaid = (why, module, pos, op)
    return None


def answered(d: Difference, item: Item, op: Op) -> bool:
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
            return not contains(item[2] + item[3], op) or comes(d.against, op.key)
    return False


def comes(node: Node | None, key: str) -> bool:
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


def step_of(node: Node, d: Difference) -> tuple[Op, Any] | None:
    """The collective of a step, with the calls that lead to it."""
    if node.kind == "op":
        return node.data[:2]  # type: ignore[no-any-return]
    found: Op | None = None
    chain: Any = ()
    if node.kind == "call":
        found, chain = first_op(node.data[0].items), node.data[1]
    elif d.loop is not None:
        item, _, _, chain = d.loop.data
        found = first_op(item[3] if item[0] == "loop" else item[2])
    return (found, chain) if found is not None else None


def uneven(d: Difference) -> Divergence | None:
    """A loop that turns differently on each rank, with collectives in its turns."""
    item, trace, _, _ = d.node.data
    leaf = next((x for x in leaves(item[2]) if x[0] in ("local", "rank")), None)
    turn = not_agreed(item[3])
    step = next((o for o in ops_of(turn) if not perhaps_silent(o)), None) or first_op(turn)
    if leaf is None or step is None:
        return None
    if leaf[2] == "set" and step.row is not None and step.row.result == "none":
        return None  # a barrier has no order among its like
    out = Divergence("trips", step, (trace.module, item[5], item[2]))
    out.module, out.pos = trace.module, item[5] & ~0xFFFFFFFF | 0xFFF
    out.why, out.origin = (leaf[2] if leaf[0] == "local" else "share"), leaf[3]
    if item[2][:2] == ("op", "sel"):
        out.why = "keys"
    out.runner, out.leaver = DECIDERS
    out.rows = [(DECIDERS[0], listed([step.name])), (DECIDERS[1], listed([]))]
    out.sure, out.severity, out.confidence = False, WARNING, POSSIBLE if perhaps_silent(step) else LIKELY
    return out


def rooted(d: Difference) -> Divergence:
    """One collective in which the ranks name different ranks as its source or destination."""
    op, chain, _ = d.node.data
    against = d.against.data[0]
    out = Divergence("roots", op, (op.module, op.pos, op.root))
    leaf = next((x for o in (op, against) for x in leaves(o.root) if x[0] == "rank"), None)
    if leaf is None:
        out.why = "named"  # two calls, each with a number of its own
    else:
        out.origin, out.sure = leaf[3], leaf[2] and op.sure
    out.chain = [(t.module, p, label) for t, p, label in chain]
    out.severity, out.confidence = WARNING, LIKELY
    return out


def perhaps_silent(op: Op) -> bool:
    """A forward of which it is not known whether it communicates: no buffers are seen, no sharded parameters."""
    return op.name == "forward" and op.family in ("ddp", "deepspeed") and not op.sure


def caught(d: Difference, mark: Node) -> Divergence | None:
    """An exception that one rank alone meets, and a handler that keeps it from the others' collectives."""
    item, trace, _, _ = mark.data
    how = swallowing(item)
    step = step_of(d.node, d)
    if step is None or not how:
        return None
    op, calls = step
    if how == "passed" and (op.row is None or op.row.kind not in STEPPING):
        return None
    handler = next((h for h in item[2] if (h[0] or TURN in h[3]) and not h[2]), None)
    if handler is None:
        return None
    if how == "ended" and any(m.key == mark.key for m in d.marks[1 if d.marks[0] and mark in d.marks[0] else 0]):
        return None  # every rank runs this iterator
    key = ("caught", trace.module.path, item[5])
    guard = ("local", key, "exception", (trace.module.path, handler[1], "except"))
    left = next((x for x in every(handler[0]) if x[0] == "exit" and x[1] != "raise"), None)
    inside = next(ops_of(handler[0]), None)
    if how == "handled" and inside is not None:
        op, calls = inside, ()
    out = Divergence("guarded" if how == "handled" else "exit", op, (trace.module, handler[1], guard))
    if how in ("skipped", "passed"):
        out.module, out.pos = trace.module, int(left[2]) if left is not None else int(handler[1])
    out.exit = int(left[2]) if left is not None else None
    out.why, out.origin, out.sure = "exception", guard[3], False
    out.runner, out.leaver = DECIDERS
    out.chain = [(t.module, p, label) for t, p, label in calls]
    out.rows = [(DECIDERS[0], listed([op.name])), (DECIDERS[1], listed([]))]
    out.severity, out.confidence = WARNING, LIKELY
    return out


def left_alone(d: Difference, mark: Node, a: Place, b: Place) -> Divergence | None:
    """What some ranks alone try, and a handler by which they leave before a collective of the others."""
    item, trace, _, _ = mark.data
    left = left_by(item)
    leaver = 0 if mark in d.marks[0] else 1
    node = d.node if d.side != leaver else d.against
    step = step_of(node, d)
    test = chosen_tries(trace.items).get(id(item))
    if left is None or step is None or test is None or (d.side == leaver and d.kind != "order"):
        return None
    op, calls = step
    ranks = [x for x in leaves(test[1]) if x[0] == "rank"]
    out = Divergence("exit", op, (trace.module, test[5], test[1]))
    out.exit = int(left[2])
    out.why, out.origin, out.sure = "caught", ranks[0][3], False
    names = who(a, b, ranks)
    out.runner, out.leaver = names[1 - leaver], names[leaver]
    out.chain = [(t.module, p, label) for t, p, label in calls]
    out.rows = [(out.leaver, listed([])), (out.runner, listed(steps_from(node)))]
    out.severity, out.confidence = WARNING, POSSIBLE if conditions(trace.items, op) else LIKELY
    return out


def responsible(d: Difference) -> tuple[Node, str] | None:
    """(the guard at which the two ranks took different ways, the way of the side that does not run the step): the
    innermost
    guard around the step; else the latest one at which the other side leaves; else the latest one."""
    leaver = d.side if d.kind == "leaves" else 1 - d.side
    own, others = d.marks[leaver], d.marks[1 - leaver]
    tried = next((m for m in (*own, *others) if m.data[0][0] == "try" and m.data[3] == "True"), None)
    if tried is not None:
        return tried, "True"
    if d.node.kind == "op" and d.kind in ("missing", "order"):
        op = d.node.data[0]
        around = [m for m in others if m.data[0][0] == "if" and within(m, op, d.node.data[1])]
        passed = {m.key: m.data[3] for m in reversed(own)}
        for m in around:
            if passed.get(m.key, m.data[3]) != m.data[3]:
                return m, passed[m.key]
        if around:
            # where none of them was met, the ranks parted at the outermost
            unmet = [m for m in around if m.key not in passed]
            met = unmet[-1] if len(unmet) == len(around) else around[0]
            return met, opposite(met.data[3])
    went = {m.key: m.data[3] for m in reversed(others)}
    differing = [m for m in own if went.get(m.key, m.data[3]) != m.data[3]]
    for m in differing:
        if exit_of(m.data[0], m.data[3]) is not None:
            return m, m.data[3]
    if differing:
        return differing[0], differing[0].data[3]
    if own:
        return own[0], own[0].data[3]
    return (others[0], opposite(others[0].data[3])) if others else None


def within(mark: Node, op: Op, calls: Any) -> bool:
    """Whether this very run of a collective, with the calls that led to it, lies in a branch of a guard."""
    item, _, chain, _ = mark.data
    if calls[: len(chain)] != chain:
        return False
    rest = calls[len(chain) :]
    for x in every(item[2] + item[3]):
        if (x[0] == "op" and x[1] is op) if not rest else (x[0] == "call" and x[2] == rest[0][1]):
            return True
    return False


def opposite(taken: str) -> str:
    return {"True": "False", "False": "True"}.get(taken, taken)


def exit_of(item: Item, taken: str) -> int | None:
    """Where the ranks that take this way of a guard leave."""
    found = leaving(item, taken)
    return int(found[2]) if found is not None else None


def leaving(item: Item, taken: str) -> Item | None:
    """The exit that the ranks take on this way of a guard."""
    if item[0] == "if":
        ways = {"True": item[2], "False": item[3]}
        block = ways.get(taken, item[2] + item[3])
    else:
        block = item[2] if item[0] == "while" else item[1] if item[0] == "try" else item[3]
        if item[0] == "try" and taken == "True":
            block = tuple(x for h in item[2] for x in h[0])
    for x in every(block):
        if x[0] == "exit" and x[1] != "raise":
            return x
    return None


def exact(v: Value) -> bool:
    """Whether a rank test is one against known numbers: `rank < active` and `rank in members` may mean any share of
    ranks."""
    if v[0] != "op":
        return True
    if v[1] in ("in", "not in", "<", "<=", ">", ">=") and any(x[0] == "rank" for x in v[2:4]):
        other = v[3] if v[2][0] == "rank" else v[2]
        return other[0] in ("const", "size", "rank") or (
            other[0] in ("list", "tuple") and all(x[0] in ("const", "size") for x in other[1])
        )
    return all(exact(x) for x in v[2:])


def who(a: Place, b: Place, ranks: list[Value]) -> tuple[Text, Text]:
    axis = ranks[0][1]
    names = {
        "leader": Text("rank 0", "rank 0"),
        "other": Text("other ranks", "其他 rank"),
        "last": Text("last rank", "最后一个 rank"),
        "node leader": Text("local rank 0 of other nodes", "其他节点的 local rank 0"),
        "first": Text("first rank of the group", "组内第一个 rank"),
    }
    if axis == "local" and b.name == "other":
        return Text("local rank 0", "local rank 0"), names["other"]
    if b.name == "last":
        return names["other"], names["last"]
    return names[a.name], names[b.name]


def listed(steps: list[str]) -> Text:
    if not steps:
        return Text("nothing", "无")
    return Text(" · ".join(steps[:5]))
