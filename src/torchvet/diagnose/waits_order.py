"""Calls of several groups in another order: two ranks that share two groups and stand in different ones first.

Rank a is in call s of group g and comes to call t of group h only behind it; rank b is in t of h and has not made s of
g, or makes it behind. Neither can end. Which of them is out of order is a matter of votes: ranks that have groups of
the same roles (other tensor-parallel pairs, say) made both calls in one of the two orders. Where b's own calls go on as
they always did and only s is not among them, it left s out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Fact
    from .waits_groups import GroupState, Progress, Row

BEFORE, NEVER = -1, 1 << 62
NEAR = 2  # calls by which groups of one role may differ and still be at the same place of the program


@dataclass(slots=True)
class Conflict:
    """`first` are in call `number` of `group`, `second` in call `other_number` of `other`; `odd`: who is out of order
    by votes (empty: cannot be told); `left_out`: those left the first call out."""

    group: str
    number: int
    op: str
    other: str
    other_number: int
    other_op: str
    first: list[int]
    second: list[int]
    facts: list[Fact] = field(default_factory=list)
    roles: tuple[str, str] = ("", "")
    odd: list[int] = field(default_factory=list)
    left_out: bool = False
    site: tuple[str, int] | None = None

    @property
    def ranks(self) -> list[int]:
        return self.odd or sorted({*self.first, *self.second})


class Orders:
    """The order of calls of every rank with a dump."""

    def __init__(self, groups: list[GroupState], dumps: dict[int, Fact], heads: dict[int, Fact]) -> None:
        self.groups = groups
        self.of: dict[int, list[GroupState]] = {}
        for group in groups:
            for rank, progress in group.ranks.items():
                if progress.by == "recorder":
                    self.of.setdefault(rank, []).append(group)
        self.tails: dict[int, list[tuple[str, int]]] = {}
        for rank, dump in dumps.items():
            names = dump.values.get("groups") or []
            tail = dump.values.get("tail") or []
            self.tails[rank] = [(str(names[at]), int(seq)) for at, seq in tail if at < len(names)]
        self.heads = {r: f for r, f in heads.items() if isinstance(f.values.get("record"), int)}
        """rank -> its oldest unfinished call, of all groups: what its device, or its host, stands in."""

    def head(self, rank: int) -> tuple[GroupState, int] | None:
        """(group, number) when the oldest unfinished call of a rank is a collective."""
        fact = self.heads.get(rank)
        if fact is None and self.tails.get(rank):  # gloo: marked as finished when its time ran out
            name, seq = self.tails[rank][-1]
            last = next((g for g in self.of.get(rank, ()) if g.name == name and g.ranks[rank].open == seq), None)
            return (last, seq) if last is not None else None
        if fact is None or fact.values.get("p2p") or not isinstance(fact.values.get("seq"), int):
            return None
        group = next((g for g in self.of.get(rank, ()) if g.ranks[rank].calls.get(fact.values["seq"]) is fact), None)
        return (group, fact.values["seq"]) if group is not None else None

    def at(self, rank: int, group: GroupState, seq: int) -> int | None:
        """Place of a call in the order of a rank: BEFORE all that is recorded, NEVER made, None = not known."""
        progress = group.ranks.get(rank)
        if progress is None or progress.enqueued is None:
            return None
        if progress.enqueued < seq:
            return NEVER
        found = [n for n, call in enumerate(self.tails.get(rank, ())) if call == (group.name, seq)]
        return found[0] if found else BEFORE


def conflicts(groups: list[GroupState], dumps: dict[int, Fact], standing_in: dict[int, Fact]) -> list[Conflict]:
    orders = Orders(groups, dumps, standing_in)
    heads = {rank: head for rank in orders.of if (head := orders.head(rank)) is not None}
    standing: dict[tuple[int, int], list[int]] = {}
    for rank, (group, seq) in sorted(heads.items()):
        standing.setdefault((id(group), seq), []).append(rank)
    out: list[Conflict] = []
    seen: set[frozenset[tuple[int, int]]] = set()
    for here, first in standing.items():  # each group is walked once for each of its calls: linear in its members
        g, s = heads[first[0]]
        for b in g.members:
            if b not in heads or heads[b][0] is g:
                continue
            h, t = heads[b]
            there = (id(h), t)
            if frozenset((here, there)) in seen or not _behind(orders, b, g, s, h, t):
                continue
            seen.add(frozenset((here, there)))
            a = next((r for r in first if r in h.ranks and _behind(orders, r, h, t, g, s)), None)
            if a is None:
                continue
            row, other = g.ranks[a].row(s), h.ranks[b].row(t)
            one = Conflict(
                g.label, s, row[0] if row else "", h.label, t, other[0] if other else "",
                [r for r in first if r in h.ranks], [r for r in standing[there] if r in g.ranks],
                [orders.heads.get(a) or g.ranks[a].fact, orders.heads.get(b) or h.ranks[b].fact], (_role(g), _role(h)),
            )  # fmt: skip
            out.append(_decided(orders, one, g, h))
    return _merged(out)


def _role(group: GroupState) -> str:
    return group.name if group.description in ("", "undefined") else group.description


def _behind(orders: Orders, rank: int, group: GroupState, seq: int, own: GroupState, number: int) -> bool:
    """Whether a rank makes call `seq` of `group` behind its call `number` of `own`, or has not made it."""
    progress = group.ranks.get(rank)
    if progress is None or (progress.completed is not None and progress.completed >= seq):
        return False
    later, first = orders.at(rank, group, seq), orders.at(rank, own, number)
    return later is not None and first is not None and later > first


def _decided(orders: Orders, one: Conflict, g: GroupState, h: GroupState) -> Conflict:
    """Who is out of order, by the order of both calls on every rank that has groups of these roles."""
    votes: tuple[list[int], list[int]] = ([], [])
    for rank in orders.of:
        mine, other = _of_role(orders, rank, g, one.number), _of_role(orders, rank, h, one.other_number)
        if mine is None or other is None:
            continue
        here, there = orders.at(rank, mine, one.number), orders.at(rank, other, one.other_number)
        if here is not None and there is not None and here != there:
            votes[here > there].append(rank)
    fewer, more = sorted(votes, key=len)
    if len(fewer) < len(more) and set(fewer) & {*one.first, *one.second}:
        one.odd = sorted(fewer)
        if fewer is votes[0]:  # said from the side that keeps the order
            one.group, one.other = one.other, one.group
            one.number, one.other_number = one.other_number, one.number
            one.op, one.other_op = one.other_op, one.op
            one.first, one.second = one.second, one.first
            one.facts.reverse()
            g, h = h, g
        one.left_out = all(
            _left_out(orders, rank, mine, other, one)
            for rank in one.odd
            if (mine := _of_role(orders, rank, g, one.number))
            and (other := _of_role(orders, rank, h, one.other_number))
        )
    for rank, group, seq in ((one.first[0], g, one.number),) if one.first else ():
        row = group.ranks[rank].row(seq) if rank in group.ranks else None
        if row is not None and row[3]:
            one.site = (row[3][0][0], row[3][0][1])
    return one


def _of_role(orders: Orders, rank: int, group: GroupState, seq: int) -> GroupState | None:
    """The group of a rank that does for it what `group` does for its members, and is at the same place."""
    if rank in group.ranks:
        return group
    generic = not group.description or group.description == "undefined"
    if generic:
        return None
    found = [g for g in orders.of.get(rank, ()) if g.description == group.description]
    if len(found) != 1 or len(found[0].members) != len(group.members):
        return None
    completed = found[0].ranks[rank].completed
    return found[0] if completed is not None and abs(completed - seq) <= NEAR else None


def _left_out(orders: Orders, rank: int, g: GroupState, h: GroupState, one: Conflict) -> bool:
    """Whether a rank goes on as ever and only left the call out: its next call comes from the line that it always came
    from, which is not the line of the call that lacks; or it has made more calls since than ever before."""
    mine, other = g.ranks[rank], h.ranks[rank]
    if orders.at(rank, g, one.number) != NEVER:
        return False
    now, before = other.row(one.other_number), other.row(one.other_number - 1)
    lacking = _last_row(mine)
    if now and before and lacking and now[3] and now[3] == before[3] and lacking[3] and lacking[3] != now[3]:
        return True
    places = [n for n, (name, _) in enumerate(orders.tails.get(rank, ())) if name == g.name]
    gaps = [b - a for a, b in pairwise(places)]
    since = len(orders.tails[rank]) - 1 - places[-1] if places else 0
    return len(gaps) > 1 and since > max(gaps)


def _last_row(progress: Progress) -> Row | None:
    return progress.row(progress.enqueued) if progress.enqueued else None


def _alike(one: Conflict, other: Conflict) -> bool:
    return bool(set(one.ranks) & set(other.ranks)) or set(one.roles) == set(other.roles)


def _merged(found: list[Conflict]) -> list[Conflict]:
    """One for each set of ranks: a difference of order shows between many pairs of ranks and groups. Those with a
    decision go first, the closest calls of the program before others."""
    out: list[Conflict] = []
    for one in sorted(found, key=lambda c: (not c.odd, len(c.ranks), c.ranks)):
        same = next((k for k in out if k.odd == one.odd and (k.odd or _alike(k, one))), None)
        if same is None:
            if not (out and not one.odd and any(k.odd for k in out)):
                out.append(one)
            continue
        if not same.odd:
            turned = same.roles[0] != one.roles[0] and same.roles[0] == one.roles[1]
            same.first = sorted({*same.first, *(one.second if turned else one.first)})
            same.second = sorted({*same.second, *(one.first if turned else one.second)})
        same.left_out = same.left_out or one.left_out
    return out
