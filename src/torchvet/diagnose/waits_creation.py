"""Ranks that wait for each other in new_group: every rank must call it for every group, in one order.

torch names a group by the number of calls of new_group before it, and members meet in the store under that name: ranks
that have called it once more, once less or in another order wait under different names. The message of the store tells
the name ("keys: /default_pg/0//2//cpu//0/1"), a stack only the line. Names alone accuse nobody: who is no member of a
group goes on to the next one at once. Only when all ranks stand there has nobody still to come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .absence import own_exception, said_nothing
from .calls import doing_of
from .waits_graph import Wait
from .waits_stacks import COLLECTIVE, CREATING, OUTSIDE, Place, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact
    from .waits_groups import GroupState

# distributed_c10d.py: PrefixStore(f"{group_name}/", store), PrefixStore(f"{device}/", ...); gloo adds its own rows
_KEYS = re.compile(r"keys: \S*?/(\d+)//(?:cpu|cuda|xpu|hpu|npu|mps)/\S*?(\d+)(?:,|$|\s)")
_NEVER = re.compile(r"timed? ?out|wait timeout", re.IGNORECASE)


@dataclass(slots=True)
class Creation:
    """Ranks that stand in new_group. `names`: rank -> number of the group that it makes, where that is told;
    `awaited`: rank -> number, within the group, of whom it waits for."""

    sites: dict[int, tuple[str, int] | None]
    facts: dict[int, Fact]
    names: dict[int, int] = field(default_factory=dict)
    awaited: dict[int, int] = field(default_factory=dict)

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
    return out if out.facts else None


def _creates(at: Place) -> bool:
    return at.what == COLLECTIVE and at.function in CREATING


def others(case: Case, found: Creation) -> list[int]:
    """Ranks of the job that are not known to stand there."""
    return [r for r in range(min(case.world or 0, 65536)) if r not in found.facts]


def elsewhere(case: Case, found: Creation, places: dict[int, Place]) -> Wait | None:
    """Ranks that stand in new_group wait for those that something shows at other work, or at an end of their own."""
    absent = [r for r in others(case, found) if r in case.ranks and _away(case, r, places)]
    if not absent or len(found.facts) < 2:
        return None
    first = found.ranks[0]
    facts = [found.facts[r] for r in found.ranks[:4]]
    site = found.sites[first]
    frames = ((site[0], site[1], ""),) if site else ()
    by = "stack" if found.facts[first].kind == "stack" else "log"
    return Wait("", None, "new_group", found.ranks, absent, facts, by, frames=frames)


def _away(case: Case, rank: int, places: dict[int, Place]) -> bool:
    known = case.ranks[rank]
    if rank in places:
        return places[rank].what in OUTSIDE
    ended = known.code is not None and not known.closed and (known.code <= 0 or said_nothing(case, rank, known.code))
    return ended or bool(doing_of(known.last)) or own_exception(case, rank) is not None


@dataclass(slots=True)
class Renamed:
    """Members of one group that know it under different names. `odd`: the minority; empty = cannot be told."""

    members: tuple[int, ...]
    names: dict[int, list[str]]
    facts: dict[int, Fact]
    odd: list[int] = field(default_factory=list)


def renamed(groups: list[GroupState]) -> Renamed | None:
    """By dumps that tell the members of groups (NCCL): all members must have a group under the same name. Where one has
    made as many groups of these members as another and under other names, they made them in another order."""
    of: dict[tuple[int, ...], dict[int, dict[str, Fact]]] = {}
    for group in groups:
        if group.guessed or group.label == "world" or len(group.members) < 2:
            continue
        for rank, progress in group.ranks.items():
            if progress.by == "recorder" and rank in group.members:
                of.setdefault(group.members, {}).setdefault(rank, {})[group.name] = progress.fact
    for members, by in sorted(of.items()):
        names = {rank: sorted(rows) for rank, rows in by.items()}
        if len(names) < 2 or len({len(n) for n in names.values()}) > 1 or len({tuple(n) for n in names.values()}) < 2:
            continue
        votes = [tuple(n) for n in names.values()]
        most = max(set(votes), key=votes.count)
        odd = sorted(r for r, n in names.items() if tuple(n) != most) if 2 * votes.count(most) > len(votes) else []
        return Renamed(members, names, {r: next(iter(rows.values())) for r, rows in by.items()}, odd)
    return None
