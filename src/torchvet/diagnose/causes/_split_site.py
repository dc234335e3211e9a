"""The line of the call that is out of place where members of a group part."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case
    from ..waits_votes import Split


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
    return raised_at(case, chosen.ranks)


def _before(case: Case, split: Split, op: str) -> int:
    """How often the members made this call before."""
    group = next((g for g in case.waits.groups if g.label == split.group), None)
    if group is None or split.seq is None or not group.ranks:
        return 0
    one = max(group.ranks.values(), key=lambda p: len(p.history))
    return sum(1 for n in one.numbers() if n < split.seq and (row := one.row(n)) is not None and row[0] == op)


def raised_at(case: Case, ranks: list[int]) -> tuple[str, int] | None:
    """Where the exception of one of the ranks says that the call was made."""
    from ..sites import user_frames

    for rank in ranks:
        for fact in case.of("mismatch", "size", "lost", "exception", rank=rank):
            frames = user_frames(fact.values.get("frames") or [])
            if frames:
                return str(frames[0][0]), int(frames[0][1])
    return None
