"""`with` statements: first-rank contexts, context managers of the project, swallowed exceptions."""

from __future__ import annotations

from ... import knowledge
from . import ranks_calls, ranks_expressions, ranks_loops
from .ranks_values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    op,
    truth,
)
from .traces import Op, Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...knowledge import Row
    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value
    from .traces import Items


def enter(f: Frame, context: Expr, pos: int) -> tuple[Value, Items, Items, bool]:
    """(what `as` binds, items before the body, items after it, whether exceptions of the body are swallowed)."""
    outer = f.items
    f.items = []
    before: Items = ()
    after: Items = ()
    mild = False
    value: Value = UNKNOWN
    if context[0] == "call":
        callee = ranks_expressions.evaluate(f, context[2])
        if callee[0] in ("sym", "bound") and context[2][0] in ("name", "attr"):
            callee = f.machine.denoted(context[2], f.scope) or callee
        q = qualified(callee)
        row = (
            knowledge.api(q)
            if q
            else f.machine.method_row(f, context[2][-1], context)
            if callee[0] == "bound"
            else None
        )
        if row is not None and row.kind == "first_context":
            args, keywords, _ = ranks_calls.arguments(f, context)
            before, after = first_context(f, row, args, keywords, context)
        elif row is not None and row.kind == "join_context":
            f.in_join = True
        elif row is not None and row.kind == "share_context":
            args, keywords, _ = ranks_calls.arguments(f, context)
            if truth(keywords.get("apply_padding", args[1] if len(args) > 1 else FALSE)) is False:
                value = ranks_loops.own_share(f, context)
        elif q == "contextlib.suppress":
            mild = True
        elif callee[0] == "func" and "contextmanager" in callee[1].decorator_names():
            args, keywords, _ = ranks_calls.arguments(f, context)
            bound = f.machine.bound(f, callee[1], callee[2], args, keywords)
            trace = f.machine.called(callee[1], callee[2], bound, None)
            if trace is not None and trace.matters:
                before, after = around(trace, context[1])
        else:
            args, keywords, _ = ranks_calls.arguments(f, context)
            value = ranks_calls.dispatch(f, callee, args, keywords, context)
    else:
        value = ranks_expressions.evaluate(f, context)
    if value[0] == "inst":
        entered = f.machine.program.method(value[1], "__enter__")
        left = f.machine.program.method(value[1], "__exit__")
        whole = value
        if entered is not None:
            value = ranks_calls.project(f, entered, whole, [], {}, context, "__enter__")
        if left is not None:
            kept = f.items
            f.items = []
            ranks_calls.project(f, left, whole, [NONE, NONE, NONE], {}, context, "__exit__")
            after = tuple(f.items)
            f.items = kept
    before = (*f.items, *before)
    f.items = outer
    return value, before, after, mild


def qualified(callee: Value) -> str | None:
    if callee[0] == "ext":
        return str(callee[1])
    if callee[0] == "bound" and callee[1][0] == "extinst":
        return f"{callee[1][1]}.{callee[2]}"
    return None


def first_context(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> tuple[Items, Items]:
    """One rank runs the body, the others wait at a barrier before it and it waits for them behind: a paired barrier."""
    axis = "local" if "local" in row.name or keywords.get("local") == TRUE else "world"
    leader = ranks_expressions.predicate(f, axis, e, True)
    barrier = Op("barrier", "barrier", "world", f.module, e[1], row, True, row.family)
    before = ("if", op("not", leader), (("op", barrier),), (), e[1], e[1])
    after = ("if", leader, (("op", barrier),), (), e[1], e[1])
    return (before,), (after,)


def around(trace: Trace, pos: int) -> tuple[Items, Items]:
    """The parts of a generator-based context manager before and after its `yield`."""
    found = split_hole(trace.items)
    if found is None:
        return (), ()
    out = []
    for items in found:
        half = Trace(trace.function, trace.module)
        half.finish(items)
        out.append((("call", half, pos, trace.function.name if trace.function else ""),) if half.matters else ())
    return out[0], out[1]


def split_hole(items: Items) -> tuple[Items, Items] | None:
    for i, item in enumerate(items):
        if item[0] == "hole":
            return items[:i], items[i + 1 :]
        if item[0] == "try":
            inner = split_hole(item[1])
            if inner is not None:
                return (*items[:i], *inner[0]), (*inner[1], *item[3], *item[4], *items[i + 1 :])
        if item[0] == "if":
            for n in (2, 3):
                inner = split_hole(item[n])
                if inner is not None:
                    first = (*item[:n], inner[0], *item[n + 1 :])
                    second = (*item[:n], inner[1], *item[n + 1 :])
                    rest: Items = ()
                    other = split_hole(item[3]) if n == 2 else None
                    if other is not None:
                        first = (*first[:3], other[0], *first[4:])
                        second = (*second[:3], other[1], *second[4:])
                    return (*items[:i], first, *rest), (second, *items[i + 1 :])
    return None
