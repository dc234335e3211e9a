"""Sends and receives without their other half: by the lines of the program, by the dumps."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import MEDIUM, POSSIBLE, PROBABLE, STRONG, Hypothesis, Link
from ..said import claim_of_launcher, stack_links, sure, who
from ..waits_pairs import blamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case


LACKS, LATER = Text("has no such call", "没有对应调用"), Text("comes to its half later", "稍后才发起另一半")


def by_source(case: Case, ranks: list[int], peers: list[tuple[int, int]]) -> Hypothesis:
    """The lines of the program name the peers: a ring of ranks that wait for each other, or one that owes its half."""
    waits = case.waits
    links = stack_links(waits, [*ranks, *[r for r, _ in peers if r not in ranks]][:4])
    at = waits.places[ranks[0]]
    ring = len(ranks) > 1
    said = Text("{who} stand in {op}() one for the other: no half is met", "{who} 互相停在 {op}() 中：没有对应的另一半",
                who=who(ranks), op=at.function)  # fmt: skip
    if not ring:
        others = [r for r, _ in peers if r not in ranks]
        said = Text("{others} wait for {who}, directly or through others, and {who} makes another call",
                    "{others} 直接或间接地等待 {who}，而 {who} 发起了别的调用",
                    others=who(others), who=who(ranks))  # fmt: skip
    for rank, peer in peers[:4]:
        text = Text("rank {a} is in {op} with rank {b}, by its line of the program",
                    "按程序该行，rank {a} 与 rank {b} 处于 {op}",
                    a=rank, b=peer, op=waits.places[rank].function)  # fmt: skip
        links.append(Link(waits.places[rank].fact, text, STRONG))
    out = Hypothesis(
        "p2p-partner-missing", "ring" if ring else "partner", said, ranks, sure(links, PROBABLE), at.site, links
    )
    out.contradicts = claim_of_launcher(waits, ranks)
    out.rule = "unmatched-send"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall") for r in {*ranks, *(r for r, _ in peers)}]
    return out


def by_dumps(case: Case) -> Hypothesis:
    """Open sends and receives whose peers wait for nobody: those peers owe the other half."""
    waits = case.waits
    ranks = blamed(waits.pairs)
    owing = not set(ranks) & {p.rank for p in waits.pairs}
    pairs = [p for p in waits.pairs if p.peer in ranks] or [p for p in waits.pairs if p.rank in ranks]
    passed = not owing and all(p.passed for p in pairs)
    links = []
    for pair in pairs[:4]:
        arrow = "→" if pair.op == "send" else "←"
        text = Text("recorder: rank {a} in {op} {arrow} rank {b}, which {lacks}",
                    "记录器：rank {a} 处于 {op} {arrow} rank {b}，而后者{lacks}",
                    a=pair.rank, op=pair.op, arrow=arrow, b=pair.peer, lacks=LATER if pair.ring else LACKS)  # fmt: skip
        links.append(Link(pair.fact, text, STRONG if owing or passed or pair.mutual else MEDIUM))
    first = pairs[0]
    other = "recv" if first.op == "send" else "send"
    both = next((p for p in pairs if p.mutual), None)
    said = Text("rank {a} is in {op} with rank {b}, which makes no {other}",
                "rank {a} 与 rank {b} 处于 {op}，而后者没有 {other}",
                a=first.rank, op=first.op, b=first.peer, other=other)  # fmt: skip
    if first.tied and len(ranks) > 1:
        said = Text("{head}; which side is wrong cannot be told", "{head}；无法判断哪一方有误", head=said)
    elif first.ring:
        said = Text("{who} stand in {op} one after the other in a ring: each makes the other half only afterwards",
                    "{who} 依次处于 {op} 并形成环：各自都在之后才发起另一半", who=who(ranks), op=first.op)  # fmt: skip
    elif both is not None and not owing:
        said = Text("ranks {a} and {b} stand in {op} towards each other: no half is met",
                    "rank {a} 与 {b} 互相处于 {op}：没有对应的另一半",
                    a=min(both.rank, both.peer), b=max(both.rank, both.peer), op=both.op)  # fmt: skip
        if len(ranks) == 1:
            said = Text("rank {a} is in {op} with rank {b}, while {who} wait for another call of it",
                        "rank {a} 与 rank {b} 处于 {op}，而 {who} 等待它的另一次调用", a=ranks[0], op=both.op,
                        b=both.peer if both.rank == ranks[0] else both.rank,
                        who=who(p.rank for p in waits.pairs if p.peer == ranks[0]))  # fmt: skip
        first = next((p for p in waits.pairs if p.rank == ranks[0]), first)
    frames = first.fact.values.get("frames") or []
    site = (str(frames[0][0]), int(frames[0][1])) if frames else None
    most = POSSIBLE if first.ring else PROBABLE  # with handles both halves may be under way at once
    out = Hypothesis("p2p-partner-missing", first.op, said, ranks, sure(links, most), site, links)
    out.rule = "unmatched-send"
    out.explains = [
        (kind, r) for kind in ("rank-absent", "host-stall") for r in {*ranks, *(p.rank for p in waits.pairs)}
    ]
    return out
