"""Region trees to nodes: continuations are shared, not copied."""

from __future__ import annotations

import time

from torchvet.check.flow.ranks_values import LEADER, OTHER, UNKNOWN, const, op
from torchvet.check.flow.traces import Op, Table, Trace, Walker, prune
from torchvet.check.flow.traces_compare import Comparison
from torchvet.check.flow.traces_questions import conditions, contains, keys_in
from torchvet.check.program.model import Module

MODULE = Module("m.py", (), frozenset())
RANK = ("rank", "world", True, ("m.py", 0, "rank"))
IS_ZERO = op("==", RANK, const(0))


def line(n):
    return n << 44


def call(name, n, group="world"):
    return ("op", Op(name, name, group, MODULE, line(n)))


def branch(guard, then, other=(), n=1):
    return ("if", guard, tuple(then), tuple(other), line(n), line(n) + 1)


def leave(how="return", n=1):
    return ("exit", how, line(n))


def trace(*items):
    t = Trace(None, MODULE)
    t.finish(tuple(items))
    return t


def compare(t):
    table = Table()
    a = Walker(table, LEADER, lambda o: True).trace(t)
    b = Walker(table, OTHER, lambda o: True).trace(t)
    comparison = Comparison(table)
    return [(d.kind, d.node.data[0].name if d.node.kind == "op" else d.node.kind, d.side) for d in comparison.run(a, b)]


def test_thirty_early_returns_are_thirty_nodes():
    items = []
    for n in range(30):
        items += [branch(("sym", n), [leave()], n=n + 1), call(f"op{n}", n + 100)]
    t = trace(*items)
    table = Table()
    started = time.process_time()
    Walker(table, LEADER, lambda o: True).trace(t)
    assert len(table) < 80
    assert time.process_time() - started < 0.5


def test_sequences_of_choices_do_not_multiply():
    """Two ways at forty places: a copy of what follows would be a million million nodes."""
    items = [branch(IS_ZERO, [call("barrier", 1)])]
    for n in range(40):
        items.append(branch(("sym", n), [call(f"a{n}", n)], [call(f"b{n}", n)], n=n + 2))
    t = trace(*items)
    started = time.process_time()
    assert compare(t) == [("missing", "barrier", 0)]
    assert time.process_time() - started < 2


def test_what_nobody_can_notice_is_left_out():
    quiet = trace(branch(("sym", 1), []), ("loop", 1, UNKNOWN, (leave("continue"),), (), line(1)))
    assert quiet.items == ()
    assert prune((branch(IS_ZERO, []),)) == ()


def test_equal():
    assert compare(trace(call("barrier", 1), branch(("sym", 1), [call("gather", 2)]))) == []
    paired = trace(branch(op("not", IS_ZERO), [call("barrier", 1)], n=1), branch(IS_ZERO, [call("barrier", 2)], n=2))
    assert compare(paired) == []
    both = trace(branch(IS_ZERO, [call("broadcast", 1)], [call("broadcast", 2)]), call("barrier", 3))
    assert compare(both) == []


def test_missing():
    assert compare(trace(branch(IS_ZERO, [call("barrier", 1)]), call("gather", 2))) == [("missing", "barrier", 0)]
    early = trace(branch(op("not", IS_ZERO), [leave()]), call("barrier", 2))
    assert compare(early) == [("missing", "barrier", 0)]
    doubled = trace(branch(IS_ZERO, [call("barrier", 1)]), call("barrier", 2))
    assert compare(doubled) == [("missing", "barrier", 0)]


def test_a_collective_between_the_halves_of_a_pair():
    wrong = trace(
        branch(op("not", IS_ZERO), [call("barrier", 1)], n=1),
        call("gather", 2),
        branch(IS_ZERO, [call("barrier", 3)], n=3),
    )
    assert compare(wrong) != []


def test_order():
    swapped = trace(
        branch(IS_ZERO, [call("broadcast", 1), call("reduce", 2)], [call("reduce", 3), call("broadcast", 4)]),
    )
    assert [d[0] for d in compare(swapped)] != []


def test_leaving_a_loop():
    body = (call("reduce", 1), branch(IS_ZERO, [leave("break", 2)], n=2))
    assert [d[0] for d in compare(trace(("loop", 1, UNKNOWN, body, (), line(1))))] == ["leaves"]
    quiet = (branch(IS_ZERO, [leave("break", 2)], n=2),)
    assert compare(trace(("loop", 1, UNKNOWN, quiet, (), line(1)), call("barrier", 9))) == []


def test_raising_and_quitting():
    assert compare(trace(branch(IS_ZERO, [leave("raise")]), call("barrier", 2))) == []
    assert [d[0] for d in compare(trace(branch(IS_ZERO, [leave("quit")]), call("barrier", 2)))] == ["quits"]


def test_correlated_choices():
    """`if distributed and not zero: barrier()` ... `if distributed and zero: barrier()`"""
    d = ("sym", "distributed")
    pair = trace(
        branch(op("and", d, op("not", IS_ZERO)), [call("barrier", 1)], n=1),
        branch(op("and", d, IS_ZERO), [call("barrier", 2)], n=2),
    )
    assert compare(pair) == []


def test_questions_about_blocks():
    inner = trace(branch(("sym", 1), [call("gather", 1)]), call("barrier", 2))
    gather, barrier = inner.items[0][2][0][1], inner.items[1][1]
    outer = (("call", inner, line(9), "inner"),)
    assert contains(outer, gather) and contains(outer, barrier)
    assert conditions(outer, barrier) == 0
    assert conditions(outer, gather) == 1
    assert keys_in(outer) == {"gather": False, "barrier": True}


def test_a_shared_callee_is_walked_once():
    """Twenty-five levels that call the next one twice."""
    t = trace(call("barrier", 1))
    for n in range(25):
        t = trace(("call", t, line(n), "f"), ("call", t, line(n) + 1, "f"))
    started = time.process_time()
    assert keys_in(t.items) == {"barrier": True}
    assert contains(t.items, Op("x", "x", "world", MODULE, 1)) is False
    assert compare(t) == []
    assert time.process_time() - started < 1


def test_a_function_that_calls_itself_is_not_inlined_in_itself():
    """`[gather(x) for x in xs]` and `{k: gather(v)}` in `gather`: inlined, each level would double the nodes."""
    gather = Trace(None, MODULE)
    again = [("loop", n, UNKNOWN, (("call", gather, line(n), "gather"),), (), line(n)) for n in (2, 3)]
    gather.finish((branch(("sym", 1), again), call("all_gather", 4)))
    t = trace(branch(IS_ZERO, [call("barrier", 1)]), ("call", gather, line(9), "gather"))
    table = Table()
    Walker(table, LEADER, lambda o: True).trace(t)
    assert len(table) < 20
    assert set(compare(t)) == {("missing", "barrier", 0)}


def test_what_no_rank_decides_is_built_once_for_all_ranks():
    steps = trace(*[call(f"op{n}", n) for n in range(50)])
    t = trace(branch(IS_ZERO, [call("barrier", 1)]), ("call", steps, line(9), "steps"), call("barrier", 10))
    table = Table()
    for place in (LEADER, OTHER):
        seen = []
        Walker(table, place, lambda o, seen=seen: seen.append(o.name) or True).trace(t)
        assert ("op7" in seen) is (place is LEADER)
