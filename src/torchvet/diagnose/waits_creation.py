"""Ranks that wait for each other in new_group: every rank must call it for every group, in one order.

torch names a group by the number of calls of new_group before it, and members meet in the store under that name: ranks
that have called it once more, once less or in another order wait under different names. The message of the store tells
the name ("keys: /default_pg/0//2//cpu//0/1"), a stack only the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .waits_graph import Wait
from .waits_stacks import COLLECTIVE, CREATING, Place, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact

# distributed_c10d.py: PrefixStore(f"{group_name}/", store), PrefixStore(f"{device}/", ...); gloo adds its own rows
_KEYS = re.compile(r"keys: \S*?/(\d+)//(?:cpu|cuda|xpu|hpu|npu|mps)/\S*?(\d+)(?:,|$|\s)")
_NEVER = re.compile(r"timed? ?out|wait timeout", re.IGNORECASE)


@dataclass(slots=True)
class Creation:
    """Ranks that stand in new_group. `names`: rank -> number of the group that it makes, where that is told;
    `awaited`: rank -> number, within the group, of whom it waits for; `odd`: the minority, empty = cannot be told."""

    sites: dict[int, tuple[str, int] | None]
    facts: dict[int, Fact]
    names: dict[int, int] = field(default_factory=dict)
    awaited: dict[int, int] = field(default_factory=dict)
    odd: list[int] = field(default_factory=list)

    @property
    def ranks(self) -> list[int]:
        return sorted(self.facts)


def creation(case: Case, places: dict[int, Place]) -> Creation | None:
    """The ranks that wait in new_group; None: nobody does."""
    out = Creation({}, {})
    for rank, at in places.items():
        if _creates(at):
            out.sites[rank], out.facts[rank] = at.site, at.fact
    for fact in case.of("exception"):
        message = str(fact.values.get("message") or "")
        if fact.rank is None or not _NEVER.search(message):
            continue
        found = _KEYS.search(message)
        at = place(fact.rank, fact.values.get("frames") or [], fact)
        if not _creates(at) or (fact.rank in places and not _creates(places[fact.rank])):
            continue
        out.sites.setdefault(fact.rank, at.site)
        out.facts.setdefault(fact.rank, fact)
        if found:
            out.names.setdefault(fact.rank, int(found[1]))
            out.awaited.setdefault(fact.rank, int(found[2]))
    if not out.facts:
        return None
    counted = list(out.names.values())
    most = max(set(counted), key=counted.count) if counted else 0
    if len(set(counted)) > 1 and 2 * counted.count(most) > len(counted) and len(counted) == len(out.facts):
        out.odd = sorted(r for r, n in out.names.items() if n != most)
    return out


def _creates(at: Place) -> bool:
    return at.what == COLLECTIVE and at.function in CREATING


def differs(case: Case, found: Creation) -> bool:
    """Whether the ranks that wait do not make the same group, though nobody else is missing."""
    if len(set(found.names.values())) > 1:
        return True
    others = [r for r in case.ranks if r not in found.facts]
    if others or len(found.facts) < 2:
        return False
    # all ranks stand there: under one name they would have met, unless one was not yet there when the others gave up
    return not found.names or (bool(found.awaited) and set(found.awaited.values()) <= set(range(len(found.facts))))


def late(case: Case, found: Creation) -> Wait | None:
    """All that wait make one group and wait for the same member, who is a rank of which something is known."""
    if len(set(found.names.values())) != 1 or len(set(found.awaited.values())) != 1 or len(found.names) < 2:
        return None
    rank = next(iter(found.awaited.values()))
    first = found.ranks[0]
    # numbers are those of the group: with rank 0 among the waiters and no gap below they are most likely the rank's own
    if (
        rank in found.facts
        or rank not in case.ranks
        or not case.ranks[rank].has
        or found.ranks[: rank or 1] != list(range(rank or 1))
    ):
        return None
    facts = [found.facts[r] for r in found.ranks[:4]]
    site = found.sites[first]
    frames = ((site[0], site[1], ""),) if site else ()
    return Wait("", None, "new_group", found.ranks, [rank], facts, "log", frames=frames)
