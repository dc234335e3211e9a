"""Sends and receives without their other half (NCCL dumps; gloo records none).

What a rank stands in is its oldest unfinished call. A send or receive there ends when the other rank comes to its half;
so does each part of a batch (batch_isend_irecv). Two ranks that stand in the same half towards each other never do.
"""

from __future__ import annotations

from dataclasses import dataclass

from .members import members
from .waits_graph import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from .model import Case, Fact
    from .waits_groups import GroupState

OPPOSITE = {"send": "recv", "recv": "send"}


@dataclass(slots=True)
class Pair:
    """`rank` is in an unfinished send to, or receive from, `peer`, and the peer has no such call open.

    mutual  the peer stands in the same half towards `rank`
    ring    it makes the other half only behind a call of its own
    held    it is held up itself, by others: no fault of its own
    passed  it stands with others in a collective of a group of both: it went past the half, if there is one
    tied    it stands there alone, as far as is known: one word against the other
    """

    rank: int
    peer: int
    op: str
    group: str
    seq: int | None
    fact: Fact
    mutual: bool = False
    ring: bool = False
    held: bool = False
    passed: bool = False
    tied: bool = False


def standing(case: Case, dumps: dict[int, Fact]) -> dict[int, Fact]:
    """rank -> its oldest unfinished call, by the dump to go by."""
    sources = {f.source for f in dumps.values()}
    out: dict[int, Fact] = {}
    for fact in case.of("call"):
        if fact.source in sources and fact.rank is not None:
            old = out.get(fact.rank)
            if old is None or (fact.values.get("record") or 0) < (old.values.get("record") or 0):
                out[fact.rank] = fact
    return out


def pairs_of(case: Case, groups: list[GroupState], dumps: dict[int, Fact], heads: dict[int, Fact]) -> list[Pair]:
    """The sends and receives in which ranks stand and whose other half the peer's dump does not show."""
    sources = {f.source for f in dumps.values()}
    opened = [f for f in case.of("call") if f.source in sources and f.rank is not None]
    counterparts = {(f.rank, peer, op) for f in opened for op, peer in _halves(f)}
    out = []
    for rank, head in sorted(heads.items()):
        v = head.values
        label = str(v.get("description") or v.get("group") or "")
        for op, peer in _halves(head):
            if peer not in dumps:
                continue
            there = heads.get(peer)
            theirs = _halves(there) if there is not None else []
            mutual = not v.get("parts") and (op, rank) in theirs and (OPPOSITE[op], rank) not in theirs
            met = (peer, rank, OPPOSITE[op]) in counterparts or _in_batch(groups, head, peer, (OPPOSITE[op], rank))
            if not mutual and met:
                continue
            pair = Pair(rank, peer, op, label, v.get("seq"), head, mutual)
            if there is not None and not mutual:
                inside = rank in members(str(there.values.get("members") or ""))
                pair.held = not inside or (bool(theirs) and all(p != rank for _, p in theirs))
                beside = inside and not theirs and not v.get("parts")
                pair.passed = beside and _others(heads, there, rank) > 1
                pair.tied = beside and not pair.passed
            out.append(pair)
    return out or _ring(heads)


def _others(heads: dict[int, Fact], call: Fact, rank: int) -> int:
    """Ranks beside one that stand in a call."""
    v = call.values
    return sum(
        r != rank and all(f.values.get(k) == v.get(k) for k in ("group", "members", "seq", "op"))
        for r, f in heads.items()
    )


def elsewhere(pairs: list[Pair], heads: dict[int, Fact], dumped: Container[int], seen: Container[int]) -> list[Wait]:
    """Waits for ranks that have no unfinished call at all and that are `seen` at other work: not come yet."""
    out: dict[tuple[str, int], Wait] = {}
    for pair in pairs:
        if pair.peer in heads or pair.peer not in dumped or pair.peer not in seen:
            continue
        frames = tuple((str(p), int(n), str(f)) for p, n, f in pair.fact.values.get("frames") or ())
        wait = out.setdefault(
            (pair.op, pair.peer), Wait(pair.group, pair.seq, pair.op, [], [pair.peer], [], frames=frames)
        )
        wait.waiters.append(pair.rank)
        wait.facts.append(pair.fact)
    return list(out.values())


def _ring(heads: dict[int, Fact]) -> list[Pair]:
    """Ranks of which each stands in a half whose other half the next one makes only behind its own."""
    to = {r: halves[0] for r, f in heads.items() if not f.values.get("parts") and (halves := _halves(f))}
    for start in sorted(to):
        path = [start]
        while path[-1] in to and (peer := to[path[-1]][1]) not in path:
            if to.get(peer) == (OPPOSITE[to[path[-1]][0]], path[-1]):
                break  # both halves are there
            path.append(peer)
        else:
            if path[-1] in to and to[path[-1]][1] == start and len(path) > 2:
                return [
                    Pair(r, to[r][1], to[r][0], "", heads[r].values.get("seq"), heads[r], ring=True)
                    for r in sorted(path)
                ]
    return []


def _halves(fact: Fact) -> list[tuple[str, int]]:
    """[(send or recv, peer)] of a call; nothing for a collective."""
    v = fact.values
    if v.get("parts"):
        rows = [(str(op), peer) for op, peer in v["parts"]]
    else:
        rows = [(str(v.get("op")), v.get("peer"))] if v.get("p2p") else []
    return [(op, peer) for op, peer in rows if isinstance(peer, int) and op in OPPOSITE]


def _in_batch(groups: list[GroupState], head: Fact, peer: int, half: tuple[str, int]) -> bool:
    """Whether the peer has, or had, that half in its batch of the same number; or has not come there yet."""
    v = head.values
    if not v.get("parts"):
        return False
    group = next(
        (g for g in groups if g.ranks.get(head.rank or 0) and head in g.ranks[head.rank or 0].calls.values()), None
    )
    progress = group.ranks.get(peer) if group is not None else None
    if progress is None or progress.enqueued is None or progress.enqueued < v["seq"]:
        return True
    row = progress.row(v["seq"])
    return row is None or row[0] != "coalesced" or f"{half[0]}:{half[1]}" in row[1].split(" ")


def blamed(pairs: list[Pair]) -> list[int]:
    """Who lacks: ranks that others wait for and that have not come; ranks that stand in a half while its other side is
    with most ranks in a collective; of ranks that stand in the same half towards each other, the one at which more than
    one call is aimed in vain; else all of them."""
    standing = {p.rank for p in pairs}
    if any(p.ring for p in pairs):
        return sorted(standing)
    free = [p for p in pairs if not p.held and not p.mutual]
    if free and all(p.tied for p in free):
        return sorted({r for p in free for r in (p.rank, p.peer)})
    owing = sorted({p.peer for p in free if not p.passed} - standing)
    if owing:
        return owing
    alone = sorted({p.rank for p in free if p.passed} - {p.peer for p in free})
    if alone:
        return alone
    mutual = sorted(p.rank for p in pairs if p.mutual)
    if not mutual:
        return sorted({p.rank for p in free})
    aimed = {r: {p.rank for p in pairs if p.peer == r} for r in mutual}
    most = max(len(by) for by in aimed.values())
    chosen = [r for r in mutual if len(aimed[r]) == most]
    return chosen if most > 1 and 2 * len(chosen) <= len(mutual) else mutual
