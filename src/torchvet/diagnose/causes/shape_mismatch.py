"""Members of a group make the same collective with tensors of different sizes or types."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ..said import claim_of_launcher, number, side_link, sides, stack_links, sure
from ..waits_votes import DTYPES, SIZES
from ._receiver import odd_by_rest, receiver
from ._split_site import site_of
from .collective_mismatch import first_splits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact
    from ..waits_votes import Split

CAUSE = Cause(
    kind="shape-mismatch",
    name="shape-mismatch",
    summary=Text(
        "ranks make one collective with tensors of different sizes or types",
        "各 rank 在同一集合通信中使用了大小或类型不同的张量",
    ),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    splits = first_splits(case, (SIZES, DTYPES))
    arrived = case.of("size")
    for split in splits:
        yield _hypothesis(case, split, arrived)
    if not splits and arrived and not case.waits.splits:
        yield _only_texts(case, arrived)


def _arrived(case: Case, fact: Fact) -> Link:
    text = Text(
        "rank {rank} got a message of {got} bytes where it expected {want}",
        "rank {rank} 收到 {got} 字节的消息，而它期望 {want} 字节",
        rank="?" if (rank := receiver(case, fact)) is None else rank,
        got=fact.values.get("got"),
        want=fact.values.get("want"),
    )
    return Link(fact, text, MEDIUM)


def _hypothesis(case: Case, split: Split, arrived: list[Fact]) -> Hypothesis:
    waits = case.waits
    ranks = split.minority or split.ranks
    links = [side_link(split, side) for side in sorted(split.sides, key=lambda s: len(s.ranks))[:3]]
    links += [_arrived(case, f) for f in arrived[:1]] + stack_links(waits, ranks[:2])
    said = sides(split)
    if split.seq is not None:
        said = Text("call {n} of group {group}: {sides}", "组 {group} 的第 {n} 次调用：{sides}", n=number(split.seq),
                    group=split.group or "world", sides=said)  # fmt: skip
    if not split.minority:
        said = Text("{head}; which side is wrong cannot be told", "{head}；无法判断哪一方有误", head=said)
    confidence = sure(links, CONFIRMED if split.minority else PROBABLE)
    if split.by == "text" and split.minority:
        confidence = CONFIRMED  # each rank says it by itself
    sub = "size" if split.what == SIZES else "dtype"
    out = Hypothesis("shape-mismatch", sub, said, ranks, confidence, site_of(case, split), links)
    out.contradicts = claim_of_launcher(waits, ranks)
    out.rule = "mismatched-shapes"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall", "native-crash") for r in split.ranks]
    return out


def _only_texts(case: Case, arrived: list[Fact]) -> Hypothesis:
    """A message of another size came to a rank: that some peer sent it is certain, which one is not."""
    from ._split_site import raised_at

    fact = arrived[0]
    rank = receiver(case, fact)
    links = [Link(f, _arrived(case, f).reason, STRONG) for f in arrived[:2]]
    said = Text(
        "a peer of rank {rank} sent {got} bytes where {want} were expected; which one is not known",
        "rank {rank} 的某个对端发送了 {got} 字节，而期望 {want} 字节；不知是哪一个",
        rank="?" if rank is None else rank,
        got=fact.values.get("got"),
        want=fact.values.get("want"),
    )
    out = Hypothesis("shape-mismatch", "size", said, [], PROBABLE, None, links)
    at = case.waits.places.get(rank) if rank is not None else None
    out.site = raised_at(case, [f.rank for f in arrived if f.rank is not None]) or (at.site if at else None)
    rest = odd_by_rest(case, rank) if rank is not None else None
    if rank is not None and rest is not None:
        what, dump = rest
        out.ranks = [rank]
        out.summary = Text(
            "rank {rank} made another call, or with another size: all others agree in {call}",
            "rank {rank} 调用不同或大小不同：其他 rank 一致为 {call}",
            rank=rank, call=what,
        )  # fmt: skip
        out.supports.append(
            Link(dump, Text("recorders of all others: {call}", "其他 rank 的记录器：{call}", call=what), STRONG)
        )
    out.rule = "mismatched-shapes"
    out.explains = [("native-crash", f.rank) for f in arrived] + [("rank-absent", f.rank) for f in arrived]
    out.missing.append(Text("flight recorder dumps of all ranks: they hold the sizes of every call",
                            "所有 rank 的 flight recorder 转储：其中有每次调用的大小"))  # fmt: skip
    return out
