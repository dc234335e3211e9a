"""Ranks that make a call more than all the others, which have done their work and left."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import EXITED, absence
from ..model import PROBABLE, STRONG, Hypothesis, Link
from ..said import call, claim_of_launcher, plural, stack_links, sure, waiting, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case
    from ..waits_graph import Wait


def extra_call(case: Case) -> Wait | None:
    """The wait of a few ranks for most ranks, which all ended well, and not after fewer steps."""
    for wait in case.waits.all:
        ranks = {*wait.waiters, *wait.absent}
        if len(wait.waiters) >= len(wait.absent) or not ranks >= set(case.ranks):
            continue
        ends = [absence(case.waits, r) for r in wait.absent]
        if any(end.how != EXITED or end.code for end in ends):
            continue
        left, stayed = _steps(case, wait.absent), _steps(case, wait.waiters)
        if not left or not stayed or min(left) >= max(stayed):
            return wait
    return None


def _steps(case: Case, ranks: list[int]) -> list[int]:
    found = [case.ranks[r].step for r in ranks]
    return [step for step in found if step is not None] if None not in found else []


def extra(case: Case) -> Iterator[Hypothesis]:
    wait = extra_call(case)
    if wait is None:
        return
    ranks = wait.waiters
    said = Text(
        "{who} {make} {call}, which the others never make: {others} had ended well before",
        "{who} 发起了 {call}，其他 rank 从不发起：{others} 此前已正常结束",
        who=who(ranks), make=plural(ranks, "makes", "make"), call=call(wait.op, wait.seq, wait.group),
        others=who(wait.absent),
    )  # fmt: skip
    links = [waiting(wait), *stack_links(case.waits, ranks)]
    for rank in wait.absent[:2]:
        for fact in case.of("output", rank=rank)[:1] if case.ranks[rank].step is not None else ():
            words = Text("last step of rank {r}: {step}", "rank {r} 的最后一步：{step}", r=rank,
                         step=case.ranks[rank].step)  # fmt: skip
            links.append(Link(fact, words, STRONG))
    out = Hypothesis("collective-mismatch", "extra call", said, ranks, sure(links, PROBABLE), None, links)
    if wait.frames:
        out.site = (wait.frames[0][0], wait.frames[0][1])
    out.contradicts = claim_of_launcher(case.waits, ranks)
    out.rule = "rank-guarded-collective" if ranks == [0] else "collective-order"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall") for r in case.ranks]
    out.explains += [("rank-absent", None), ("uneven-inputs", None)]
    yield out
