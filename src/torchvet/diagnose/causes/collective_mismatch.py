"""Members of a group make different collectives under the same number."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, PROBABLE, Cause, Hypothesis
from ..ranks import failed
from ..said import claim_of_launcher, number, side_link, sides, stack_links, sure
from ..waits_votes import OPERATION
from ._creation import groups_made_apart
from ._extra import extra
from ._receiver import met_elsewhere
from ._roots import roots

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
    for split in first_splits(case, (OPERATION,)):
        yield _hypothesis(case, split)
    if not case.waits.splits:
        yield from roots(case)
        yield from groups_made_apart(case)
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


def site_of(case: Case, split: Split) -> tuple[str, int] | None:
    """The line of the call that is out of place: of two calls the one that was made less often before."""
    suspects = [s for s in split.sides if set(s.ranks) & set(split.minority)] or split.sides
    others = [s for s in split.sides if s not in suspects]
    chosen = suspects[0]
    if others and split.seq is not None:
        often = {id(s): _before(case, split, s.row[0]) for s in (chosen, others[0])}
        if often[id(others[0])] < often[id(chosen)]:
            chosen = others[0]
    if chosen.row[3]:
        return str(chosen.row[3][0][0]), int(chosen.row[3][0][1])
    for rank in chosen.ranks:
        at = case.waits.places.get(rank)
        if at is not None and at.site is not None:
            return at.site
    return _raised(case, chosen.ranks)


def _before(case: Case, split: Split, op: str) -> int:
    """How often the members made this call before."""
    group = next((g for g in case.waits.groups if g.label == split.group), None)
    if group is None or split.seq is None or not group.ranks:
        return 0
    one = max(group.ranks.values(), key=lambda p: len(p.history))
    return sum(1 for n in one.numbers() if n < split.seq and (row := one.row(n)) is not None and row[0] == op)


def _raised(case: Case, ranks: list[int]) -> tuple[str, int] | None:
    """Where the exception of one of the ranks says that the call was made."""
    from ..sites import user_frames

    for rank in ranks:
        for fact in case.of("mismatch", "size", "lost", "exception", rank=rank):
            frames = user_frames(fact.values.get("frames") or [])
            if frames:
                return str(frames[0][0]), int(frames[0][1])
    return None
