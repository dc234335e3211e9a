"""Ranks wait for each other through two or more process groups: they take the groups in different order."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import Cause, Hypothesis
from ..ranks import failed
from ..said import call, claim_of_launcher, stack_links, sure, waiting, who
from ._left_out import standing
from ._order import at_most, lacking, left_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case
    from ..waits_graph import Wait
    from ..waits_order import Conflict

CAUSE = Cause(
    kind="group-order-cycle",
    name="group-order-cycle",
    summary=Text(
        "ranks take the collectives of several groups in different order", "各 rank 以不同顺序调用多个组的集合通信"
    ),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    for order in case.waits.orders:
        if not (order.left_out and order.odd):
            yield _by_order(case, order)
    for ranks in case.waits.cycles:
        members = set(ranks)
        inside = [w for w in case.waits.all if members & set(w.waiters) and members & set(w.absent)]
        if len({w.group for w in inside}) < 2:
            continue
        yield _hypothesis(case, ranks, inside)


def _by_order(case: Case, order: Conflict) -> Hypothesis:
    """Two calls of two groups that some ranks make in one order and others in the other."""
    waits = case.waits
    here, there, links = standing(order)
    links += stack_links(waits, order.ranks)
    if order.odd:
        said = Text(
            "{who} came to {there} before {here}, all others the other way round: each side waits for the other",
            "{who} 先到 {there} 后到 {here}，其他 rank 顺序相反：双方互相等待",
            who=who(order.odd), there=there, here=here,
        )  # fmt: skip
    else:
        said = Text(
            "circular wait through the order of groups: {a} in {here}, {b} in {there}; each waits for the other",
            "组的调用顺序造成循环等待：{a} 在 {here}，{b} 在 {there}；互相等待",
            a=who(order.first), here=here, b=who(order.second), there=there,
        )  # fmt: skip
    if not order.odd:
        said = left_open(case, said)
    out = Hypothesis(
        "group-order-cycle", "", said, order.ranks, sure(links, at_most(case, order.odd)), order.site, links
    )
    out.missing = lacking(case) if not order.odd else []
    out.contradicts = claim_of_launcher(waits, order.ranks)
    out.rule = "collective-order"
    everyone = {*order.ranks, *order.first, *order.second}
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall") for r in everyone]
    return out


def _hypothesis(case: Case, ranks: list[int], inside: list[Wait]) -> Hypothesis:
    waits = case.waits
    inside.sort(key=lambda w: -len(w.waiters))
    links = [waiting(w) for w in inside[:4]] + stack_links(waits, ranks)
    parts: Text | None = None
    for wait in _one_of_each(inside):
        part = Text(
            "{who} in {call}", "{who} 在 {call}", who=who(wait.waiters), call=call(wait.op, wait.seq, wait.group)
        )
        parts = part if parts is None else Text("{a}, {b}", "{a}，{b}", a=parts, b=part)
    said = Text(
        "circular wait through the order of groups: {parts}; each waits for the other",
        "组的调用顺序造成循环等待：{parts}；互相等待",
        parts=parts or Text(""),
    )
    site = None
    for wait in inside:
        if wait.frames:
            # the place where both branches meet: the innermost frame that the calls of two groups share
            others = [w for w in inside if w.group != wait.group and w.frames]
            shared = [f for f in wait.frames if any(f in o.frames for o in others)]
            frame = shared[0] if shared else wait.frames[0]
            site = (str(frame[0]), int(frame[1]))
            break
    said = left_open(case, said)
    out = Hypothesis("group-order-cycle", "", said, ranks, sure(links, at_most(case, [])), site, links)
    out.missing = lacking(case)
    out.contradicts = claim_of_launcher(waits, ranks)
    out.rule = "collective-order"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall") for r in ranks]
    return out


def _one_of_each(inside: list[Wait]) -> list[Wait]:
    """One wait for each group, at most three, with different ranks."""
    out: list[Wait] = []
    for wait in inside:
        if len(out) < 3 and all(w.group != wait.group for w in out):
            out.append(wait)
    return out
