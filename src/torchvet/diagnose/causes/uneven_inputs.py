"""A rank made fewer collectives than its peers: it left out a step, or had fewer of them."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ..said import claim_of_launcher, number, side_link, sides, stack_links, sure
from ..waits_votes import OPERATION, SIZES
from ._fewer import fewer
from ._join import exhausted
from ._left_out import at_the_place, left_out
from .collective_mismatch import first_splits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact
    from ..waits_votes import Split

CAUSE = Cause(
    kind="uneven-inputs",
    name="uneven-inputs",
    summary=Text("a rank made fewer collectives than its peers", "某个 rank 的集合通信次数少于其他 rank"),
)
MOST_HOLES = 5


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    for split in first_splits(case, (OPERATION, SIZES)):
        for rank in split.minority:
            parted = case.waits.shift(split, rank)
            missing = parted.count if parted else case.waits.left_out(split, rank)
            lines = steps_left_out(case, rank, [r for r in split.ranks if r not in split.minority])
            skipped = [f for f in case.of("nan", rank=rank) if f.values.get("skipped")]
            if missing or lines or skipped:
                out = _hypothesis(case, split, rank, missing, lines, skipped)
                if parted is not None:
                    at_the_place(out, split, parted)
                yield out
    for order in case.waits.orders:
        if order.left_out and order.odd:
            yield left_out(case, order)
    yield from exhausted(case)
    yield from fewer(case)


def steps_left_out(case: Case, rank: int, others: list[int]) -> list[Fact]:
    """The output of a rank that printed fewer steps than it came along, where the others printed all of theirs:
    [its, one of the others]."""
    mine = _printed(case, rank)
    rows = [f for r in others if (f := _printed(case, r))]
    if mine is None or not rows:
        return []
    usual = {_holes(f) for f in rows}
    if len(usual) != 1 or next(iter(usual)) not in (0, 1) or not 0 < _holes(mine) - next(iter(usual)) <= MOST_HOLES:
        return []
    return [mine, rows[0]]


def _holes(fact: Fact) -> int:
    """Numbers of steps up to the last one that were not printed: 0 for steps from 0, 1 for steps from 1."""
    return int(fact.values["step"]) + 1 - int(fact.values["steps"])


def _printed(case: Case, rank: int) -> Fact | None:
    facts = [f for f in case.of("output", rank=rank) if f.values.get("steps") and isinstance(f.values.get("step"), int)]
    return max(facts, key=lambda f: int(f.values["steps"]), default=None)


def _hypothesis(
    case: Case, split: Split, rank: int, missing: int, lines: list[Fact], skipped: list[Fact]
) -> Hypothesis:
    waits = case.waits
    links = [side_link(split, side) for side in sorted(split.sides, key=lambda s: len(s.ranks))[:3]]
    count = missing or len(skipped)
    if lines:
        count = missing or _holes(lines[0]) - _holes(lines[1])
        text = Text(
            "log of rank {rank}: {mine} lines of steps up to step {step}, rank {other}: {theirs} up to step {last}",
            "rank {rank} 的日志：到第 {step} 步共 {mine} 行，rank {other}：到第 {last} 步共 {theirs} 行",
            rank=rank, mine=lines[0].values["steps"], step=lines[0].values["step"], other=lines[1].rank,
            theirs=lines[1].values["steps"], last=lines[1].values["step"],
        )  # fmt: skip
        links.append(Link(lines[0], text, STRONG))
    if missing:
        text = Text("recorder: what rank {rank} calls now came after {n} more calls before",
                    "记录器：rank {rank} 当前的调用此前总在多 {n} 次调用之后出现", rank=rank, n=missing)  # fmt: skip
        links.append(Link(split.sides[-1].fact, text, MEDIUM))
    for fact in skipped[:1]:
        text = Text('log of rank {rank}: "{words}"', "rank {rank} 的日志：“{words}”", rank=rank, words=fact.text[:120])
        links.append(Link(fact, text, MEDIUM))
    links += stack_links(waits, [rank])
    left = Text("one collective", "一次集合通信") if count == 1 else Text("{n} collectives", "{n} 次集合通信", n=count)
    said = Text(
        "rank {rank} left out {left} and is ahead of its peers; at call {n} of group {group}: {sides}",
        "rank {rank} 少做了 {left}，因而领先于其他 rank；在组 {group} 的第 {n} 次调用：{sides}",
        rank=rank, left=left, n=number(split.seq), group=split.group or "world", sides=sides(split),
    )  # fmt: skip
    majority = split.sides[0]
    # without lines of the log, or places of the calls, only the sizes say that it is a later call
    most = CONFIRMED if lines or skipped or majority.row[3] else PROBABLE
    site = (str(majority.row[3][0][0]), int(majority.row[3][0][1])) if majority.row[3] else None
    out = Hypothesis("uneven-inputs", "collective left out", said, [rank], sure(links, most), site, links)
    out.contradicts = claim_of_launcher(waits, [rank])
    out.rule = "local-skip"
    kinds = ("collective-mismatch", "shape-mismatch", "rank-absent", "host-stall", "native-crash")
    out.explains = [(kind, r) for kind in kinds for r in split.ranks]
    return out
