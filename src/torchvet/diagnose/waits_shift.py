"""Where a rank left the common order: the calls of two ranks of a group, laid side by side.

Up to some number both make the same calls from the same lines; from there on the one makes what the other makes k
numbers later. Then it left out k calls there. Sizes need not differ: a call that is left out pairs with a later one,
and nothing stops before the ranks come to different operations.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .waits_groups import GroupState, Progress, Row
    from .waits_votes import Split

MOST = 8  # calls that a rank may have left out at one place
FEWEST = 6  # calls behind that place that must fit


@dataclass(slots=True)
class Shift:
    """`rank` left out `count` calls at number `at`; `row`: the first, as a peer made it; `fits`: calls since then."""

    rank: int
    at: int
    count: int
    row: Row
    fits: int


def shift_of(group: GroupState, split: Split, rank: int) -> Shift | None:
    """None: the calls do not part, or in a way that no calls left out explain, or before what is recorded."""
    mine = group.ranks.get(rank)
    if mine is None or split.seq is None or not mine.history:
        return None
    others = [group.ranks[r] for r in split.ranks if r != rank and r not in split.minority and group.ranks[r].history]
    if not others:
        return None
    theirs = max(others, key=lambda p: len(p.history))
    low = max(mine.start, theirs.start)
    at = next((n for n in range(low, split.seq) if _differ(mine, theirs, n)), None)
    if at is None or at == low:
        return None
    for count in range(1, MOST + 1):
        fits = _fitting(mine, theirs, at, count, split.seq)
        if fits >= FEWEST and _fitting(theirs, mine, at, count, split.seq) < 0:
            row = theirs.row(at)
            return Shift(rank, at, count, row, fits) if row is not None else None
    return None


def _differ(a: Progress, b: Progress, number: int) -> bool:
    one, other = a.row(number), b.row(number)
    return one is not None and other is not None and one != other


def _fitting(ahead: Progress, behind: Progress, start: int, count: int, last: int) -> int:
    """How many calls of `ahead` from a number on are those of `behind` so many numbers later; -1: one is not."""
    fits = 0
    for number in range(start, last - count + 1):
        one, other = ahead.row(number), behind.row(number + count)
        if one is None or other is None:
            continue
        if one != other:
            return -1
        fits += 1
    return fits
