"""Values as abstract ranks see them."""

from __future__ import annotations

import pytest

from torchvet.check.flow.ranks_values import (
    LAST,
    LEADER,
    NODE_LEADER,
    OTHER,
    REDUCED,
    UNKNOWN,
    at,
    const,
    leader_test,
    op,
    truth,
    varies,
)

RANK = ("rank", "world", True, ("m.py", 0, "get_rank"))
LOCAL = ("rank", "local", True, ("m.py", 0, "LOCAL_RANK"))
U = ("sym", "u")


def on(guard, *places):
    return [truth(at(guard, p)) for p in places]


def test_rank_zero():
    assert on(op("==", RANK, const(0)), LEADER, OTHER, LAST) == [True, False, False]
    assert on(leader_test("local", True, None), LEADER, OTHER, NODE_LEADER) == [True, False, True]


@pytest.mark.parametrize("number", [-1])
def test_minus_one_is_no_rank(number):
    """`local_rank != -1` asks whether the run is distributed."""
    assert on(op("!=", LOCAL, const(number)), LEADER, OTHER, LAST) == [True, True, True]
    assert on(op(">", LOCAL, const(number)), LEADER, OTHER) == [True, True]
    assert on(op(">=", RANK, const(0)), LEADER, OTHER) == [True, True]


def test_membership_and_texts():
    assert on(op("in", RANK, ("list", (const(-1), const(0)))), LEADER, OTHER) == [True, False]
    assert on(op("==", RANK, const("0")), LEADER, OTHER) == [True, False], 'os.environ["RANK"] == "0"'


def test_last_rank():
    assert on(op("==", RANK, op("-", ("size", "world"), const(1))), LEADER, OTHER, LAST) == [False, False, True]


def test_an_unknown_source_is_one_rank():
    assert on(op("==", RANK, U), LEADER, OTHER, LAST) == [True, False, False]
    assert on(op("!=", U, RANK), LEADER, OTHER) == [False, True]


def test_a_uniform_part_stays():
    guard = op("and", U, op("==", RANK, const(0)))
    assert at(guard, LEADER) == U
    assert truth(at(guard, OTHER)) is False
    either = op("or", U, op("==", RANK, const(0)))
    assert truth(at(either, LEADER)) is True
    assert at(either, OTHER) == U


def test_what_was_written_under_a_guard():
    stop = op("sel", op("==", RANK, const(0)), U, const(False))
    assert at(stop, LEADER) == U
    assert truth(at(stop, OTHER)) is False


def test_a_broadcast_gives_what_the_leader_had():
    stop = ("leader", op("sel", op("==", RANK, const(0)), U, const(False)))
    assert at(stop, LEADER) == at(stop, OTHER) == U
    assert not varies(stop)


def test_distributed_or_not():
    rank = op("sel", U, RANK, const(0))
    guard = op("==", rank, const(0))
    assert on(guard, LEADER) == [True]
    left = at(guard, OTHER)
    assert left == ("op", "sel", U, const(False), const(True))


def test_too_large_is_unknown():
    v = U
    for n in range(60):
        v = op("and", v, ("sym", n))
    assert v == UNKNOWN or not varies(v)
    big = RANK
    for n in range(60):
        big = op("+", big, ("sym", n))
    assert not varies(big)


def test_reduced_is_uniform():
    assert not varies(REDUCED)
