"""gloo aborts the rank that gets a message of another size (pair.cc): what it and its peers were calling."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import PROBABLE, STRONG, Hypothesis, Link
from ..said import place, who
from ..sites import user_frames
from ..waits_stacks import BACKWARD, COLLECTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact
    from ..waits_stacks import Place

Site = tuple[str, int]
_ABORTED = (-6, 134)


def receiver(case: Case, fact: Fact) -> int | None:
    """The rank that got the message: who prints it, or the only one that ended by SIGABRT."""
    if fact.rank is not None:
        return fact.rank
    ended = {n for n, r in case.ranks.items() if r.code in _ABORTED and not r.closed}
    ended |= {f.rank for f in case.of("crash") if f.rank is not None and f.values.get("what") == "Aborted"}
    return ended.pop() if len(ended) == 1 else None


def met_elsewhere(case: Case) -> Iterator[Hypothesis]:
    """The receiver and its peers stood at different lines of the program: two calls met that do not belong together."""
    arrived = case.of("size")
    if not arrived or case.waits.splits:
        return
    rank = receiver(case, arrived[0])
    at = case.waits.places.get(rank) if rank is not None else None
    if rank is None or at is None or at.site is None or at.what not in (COLLECTIVE, BACKWARD):
        return
    others = {r: row for r in case.ranks if r != rank and (row := _stood(case, r)) is not None}
    if not others or any(site == at.site for site, _ in others.values()) or not _of_the_end(case, rank, at, others):
        return
    mine, theirs = _made(case, rank), {s for r in others for s in _made(case, r)}
    sites = {site for site, _ in others.values()}
    odd = [rank]
    chosen = at.site
    if at.site in theirs and len(sites) == 1 and not sites & mine:
        odd, chosen = sorted(others), next(iter(sites))
    alone = bool(theirs or mine) and (at.site not in theirs if odd == [rank] else True)
    ranks = odd if alone or len(others) > 1 else sorted({rank, *others})
    said = Text(
        "{who} in {call} at {here}, {peers} at {there}: calls met that do not belong together",
        "{who} 在 {here} 的 {call}，{peers} 在 {there}：不相干的调用相遇",
        who=who([rank]), call=at.function or "backward", here=_short(at.site), peers=who(others),
        there=", ".join(_short(s) for s in sorted(sites)[:3]),
    )  # fmt: skip
    if ranks != odd:
        said = Text("{head}; which side is wrong cannot be told", "{head}；无法判断哪一方有误", head=said)
    got = arrived[0].values
    links = [
        Link(
            arrived[0],
            Text("a message of {got} bytes came where {want} were expected", "期望 {want} 字节，却收到 {got} 字节",
                 got=got.get("got"), want=got.get("want")),
            STRONG,
        ),
        Link(at.fact, Text("stack of rank {r}: {where} in {name}", "rank {r} 的调用栈：{where}，函数 {name}", r=rank,
                           where=_short(at.site), name=at.name), STRONG),
    ]  # fmt: skip
    for r, (site, fact) in sorted(others.items())[:2]:
        text = Text("rank {r} was at {where} then", "rank {r} 当时在 {where}", r=r, where=_short(site))
        links.append(Link(fact, text, STRONG))
    out = Hypothesis("collective-mismatch", "operation", said, ranks, PROBABLE, chosen, links)
    leaders = odd == [0] or (0 in others and len(others) == 1 and odd == [rank])
    out.rule = "rank-guarded-collective" if leaders else "collective-order"
    out.explains = [(k, r) for k in ("rank-absent", "host-stall", "native-crash", "shape-mismatch") for r in case.ranks]
    out.explains.append(("shape-mismatch", None))
    out.missing.append(Text("flight recorder dump of rank {r}", "rank {r} 的 flight recorder 转储", r=rank))
    yield out


def _of_the_end(case: Case, rank: int, at: Place, others: dict[int, tuple[Site, Fact]]) -> bool:
    """Whether the stack shows the call that failed: the abort itself printed it, or stacks of peers fit their ends."""
    if any(f.source == at.fact.source and f.values.get("what") == "Aborted" for f in case.of("crash")):
        return True
    both = [(p.site, site) for r, (site, _) in others.items() if (p := case.waits.places.get(r)) is not None]
    return bool(both) and all(a == b for a, b in both)


def odd_by_rest(case: Case, rank: int) -> tuple[str, Fact] | None:
    """(the call, a dump) when the recorders of all other ranks agree in their last call: the receiver made another.

    Where some of them left no dump, the size of the message must be a part of that call, and the expected one none.
    """
    group = next((g for g in case.waits.groups if g.label == "world"), None)
    rest = [r for r in case.ranks if r != rank]
    known = [r for r in rest if group is not None and r in group.ranks]
    if group is None or len(known) < 2:
        return None
    complete, rest = len(known) == len(rest), known
    found = {r: group.ranks[r] for r in rest}
    ends = {p.enqueued for p in found.values()}
    last = next(iter(ends)) if len(ends) == 1 else None
    rows = {(row[0], row[1], row[2]) if (row := p.row(last)) else None for p in found.values()} if last else {None}
    agreed = next(iter(rows))
    if last is None or len(rows) != 1 or agreed is None or not agreed[1]:
        return None
    if not complete and not any(_part_of(f, agreed[1], agreed[2]) for f in case.of("size", rank=rank)):
        return None
    return f"{agreed[0]} of {agreed[1]} {agreed[2]}", found[rest[0]].fact


def _part_of(fact: Fact, sizes: str, dtype: str) -> bool:
    """Whether the message that came is a part of a call of these sizes, and the one that was expected is not."""
    got, want = fact.values.get("got") or 0, fact.values.get("want") or 0
    whole = BYTES.get(dtype, 0)
    for number in re.findall(r"\d+", sizes):
        whole *= int(number)
    return bool(whole and got and want) and whole % got == 0 and whole % want != 0


BYTES = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8, "Short": 2, "Char": 1, "Byte": 1}
"""Bytes of one element, by the recorder's names of types."""


def _short(site: Site) -> str:
    return place(site[0].rpartition("/")[2], site[1])


def _stood(case: Case, rank: int) -> tuple[Site, Fact] | None:
    """Where a peer was when the connection broke: by its exception, else by its stack within a collective."""
    for fact in case.of("exception", rank=rank):
        frames = user_frames(fact.values.get("frames") or [])
        if fact.values.get("victim") and frames:
            return (str(frames[0][0]), int(frames[0][1])), fact
    at = case.waits.places.get(rank)
    if at is not None and at.site is not None and at.what in (COLLECTIVE, BACKWARD):
        return at.site, at.fact
    return None


def _made(case: Case, rank: int) -> set[Site]:
    """The lines of the calls that the recorder of a rank holds."""
    rows = [p.rows for g in case.waits.groups for r, p in g.ranks.items() if r == rank]
    return {(str(row[3][0][0]), int(row[3][0][1])) for part in rows for row in part if row[3]}
