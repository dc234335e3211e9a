"""Members of a group make different collectives under the same number."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, PROBABLE, Cause, Hypothesis
from ..ranks import failed
from ..said import claim_of_launcher, number, side_link, sides, stack_links, sure
from ..waits_roots import ROOTED
from ..waits_votes import OPERATION
from ._creation import groups_made_apart, groups_renamed
from ._extra import extra
from ._receiver import met_elsewhere
from ._roots import roots
from ._split_site import site_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case
    from ..waits_votes import Split

CAUSE = Cause(
    kind="collective-mismatch",
    name="collective-mismatch",
    summary=Text(
        "ranks of one group make different collectives at the same time", "同一组的 rank 同时调用了不同的集合通信"
    ),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    splits = first_splits(case, (OPERATION,))
    # of a call with a root some go on to the next one while others still stand in it
    if all(split.by == "stack" and any(side.row[0] in ROOTED for side in split.sides) for split in case.waits.splits):
        apart = list(roots(case))
        yield from apart
        splits = [] if apart else splits
    for split in splits:
        yield _hypothesis(case, split)
    if not case.waits.splits:
        yield from groups_made_apart(case)
    yield from groups_renamed(case)
    yield from met_elsewhere(case)
    yield from extra(case)


def first_splits(case: Case, kinds: tuple[str, ...]) -> list[Split]:
    """Splits of these kinds whose ranks are not in an earlier one: one difference makes others in other groups."""
    seen: set[int] = set()
    out = []
    for split in case.waits.splits:
        if split.what in kinds and not set(split.minority or split.ranks) & seen:
            seen |= set(split.minority or split.ranks)
            out.append(split)
    return out


def _hypothesis(case: Case, split: Split) -> Hypothesis:
    waits = case.waits
    ranks = split.minority or split.ranks
    links = [side_link(split, side) for side in sorted(split.sides, key=lambda s: len(s.ranks))[:3]]
    links += stack_links(waits, [*ranks[:2], *[r for r in split.ranks if r not in ranks][:1]])
    head = sides(split)
    if split.seq is not None:
        head = Text("call {n} of group {group}: {sides}", "组 {group} 的第 {n} 次调用：{sides}", n=number(split.seq),
                    group=split.group or "world", sides=head)  # fmt: skip
    if not split.minority:
        head = Text("{head}; which side is wrong cannot be told", "{head}；无法判断哪一方有误", head=head)
    confidence = sure(links, CONFIRMED if split.minority else PROBABLE)
    if split.by == "text" and split.minority:
        confidence = CONFIRMED  # each rank says it by itself: as many witnesses as ranks
    out = Hypothesis("collective-mismatch", "operation", head, ranks, confidence, site_of(case, split), links)
    out.contradicts = claim_of_launcher(waits, ranks)
    leaders = ranks == [0] or (0 not in ranks and len(ranks) == len(split.ranks) - 1)
    out.rule = "rank-guarded-collective" if leaders else "collective-order"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall", "native-crash") for r in split.ranks]
    if not split.minority:
        out.missing.append(
            Text("calls of more ranks: two opinions make no majority", "更多 rank 的调用：两种说法不成多数")
        )
    return out
