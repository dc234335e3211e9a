"""Ranks wait for each other through two or more process groups: they take the groups in different order."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import Cause, Hypothesis
from ..ranks import failed
from ..said import call, claim_of_launcher, stack_links, sure, waiting, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case
    from ..waits_graph import Wait

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
    for ranks in case.waits.cycles:
        members = set(ranks)
        inside = [w for w in case.waits.all if members & set(w.waiters) and members & set(w.absent)]
        if len({w.group for w in inside}) < 2:
            continue
        yield _hypothesis(case, ranks, inside)


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
    out = Hypothesis("group-order-cycle", "", said, ranks, sure(links), site, links)
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
