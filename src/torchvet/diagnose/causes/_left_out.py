"""A rank left out a call of one of its groups: by the order in which the ranks take the groups."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, STRONG, Hypothesis, Link
from ..said import call, claim_of_launcher, number, place, stack_links, sure, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case
    from ..waits_order import Conflict
    from ..waits_shift import Shift
    from ..waits_votes import Split


def standing(order: Conflict) -> tuple[Text, Text, list[Link]]:
    """The two calls of a conflict, and the dumps of ranks that stand in them."""
    here = call(order.op, order.number, order.group)
    there = call(order.other_op, order.other_number, order.other)
    links = [
        Link(
            fact,
            Text("recorder: rank {r} stands in {call}", "记录器：rank {r} 停在 {call}", r=fact.rank, call=what),
            STRONG,
        )
        for fact, what in zip(order.facts, (here, there), strict=False)
    ]
    return here, there, links


def left_out(case: Case, order: Conflict) -> Hypothesis:
    """A rank left out a call of one of its groups and is in the next one of another."""
    waits = case.waits
    here, there, links = standing(order)
    links += stack_links(waits, [*order.odd, *order.first])
    said = Text(
        "{who} left out {here} and went on to {there}; {first} {wait} in the one, all others in the other",
        "{who} 少做了 {here}，直接进入 {there}；{first} 在前者中等待，其他 rank 在后者中等待",
        who=who(order.odd), here=here, there=there, first=who(order.first),
        wait="waits" if len(order.first) == 1 else "wait",
    )  # fmt: skip
    out = Hypothesis("uneven-inputs", "collective left out", said, order.odd, sure(links, CONFIRMED), order.site, links)
    out.contradicts = claim_of_launcher(waits, order.odd)
    out.rule = "local-skip"
    everyone = {*order.odd, *order.first, *order.second}
    kinds = ("collective-mismatch", "shape-mismatch", "rank-absent", "host-stall", "group-order-cycle")
    out.explains = [(kind, r) for kind in kinds for r in everyone]
    return out


def at_the_place(out: Hypothesis, split: Split, parted: Shift) -> None:
    """Say where the calls of a rank part from those of its peers: there, not where it all stopped, is the fault."""
    op, _, _, frames = parted.row
    where = f" ({place(frames[0][0], frames[0][1])})" if frames else ""
    if frames:
        out.site = (frames[0][0], frames[0][1])
    text = Text(
        "recorder: up to call {n} rank {rank} and its peers make the same calls; from there on ({fits} calls) it makes "
        "what they make {count} later: it left out {op}{where}",
        "记录器：第 {n} 次调用之前 rank {rank} 与其他 rank 相同；此后（{fits} 次）提前 {count} 次：少做了 {op}{where}",
        n=number(parted.at), rank=parted.rank, fits=number(parted.fits), count=parted.count, op=op, where=where,
    )  # fmt: skip
    out.supports = [
        Link(split.sides[-1].fact, text, STRONG),
        *(l for l in out.supports if "came after" not in l.reason.en),
    ]
    out.summary = Text("{said}; they part at call {n}{where}", "{said}；自第 {n} 次调用{where}起分开", said=out.summary,
                       n=number(parted.at), where=where)  # fmt: skip
