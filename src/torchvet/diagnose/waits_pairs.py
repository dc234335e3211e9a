"""Sends and receives without their other half (NCCL dumps; gloo records none).

What a rank stands in is its oldest unfinished call. A send or receive there ends when the other rank comes to its half;
so does each part of a batch (batch_isend_irecv). Two ranks that stand in the same half towards each other never do.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact
    from .waits_groups import GroupState

OPPOSITE = {"send": "recv", "recv": "send"}


@dataclass(slots=True)
class Pair:
    """`rank` is in an unfinished send to, or receive from, `peer`, and the peer has no such call open; `mutual`: the
    peer stands in the same half towards `rank`."""

    rank: int
    peer: int
    op: str
    group: str
    seq: int | None
    fact: Fact
    mutual: bool = False


def pairs_of(case: Case, groups: list[GroupState]) -> list[Pair]:
    """The sends and receives in which ranks stand and whose other half the peer's dump does not show."""
    from .waits_groups import chosen_dumps

    dumps = {f.source: r for r, f in chosen_dumps(case).items()}
    opened: dict[int, list[Fact]] = {}
    for fact in case.of("call"):
        if fact.source in dumps and fact.rank is not None:
            opened.setdefault(fact.rank, []).append(fact)
    known = set(dumps.values())
    heads = {r: min(calls, key=lambda f: f.values.get("record") or 0) for r, calls in opened.items()}
    counterparts = {(r, peer, op) for r, calls in opened.items() for f in calls for op, peer in _halves(f)}
    out = []
    for rank, head in sorted(heads.items()):
        v = head.values
        label = str(v.get("description") or v.get("group") or "")
        for op, peer in _halves(head):
            if peer not in known:
                continue
            theirs = _halves(heads[peer]) if peer in heads else []
            mutual = not v.get("parts") and (op, rank) in theirs and (OPPOSITE[op], rank) not in theirs
            met = (peer, rank, OPPOSITE[op]) in counterparts or _in_batch(groups, head, peer, (OPPOSITE[op], rank))
            if mutual or not met:
                out.append(Pair(rank, peer, op, label, v.get("seq"), head, mutual))
    return out


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
    """Who lacks: ranks that others wait for and that stand in no such call themselves; else, of ranks that stand in the
    same half towards each other, the one at which more than one call is aimed in vain; else all of them."""
    standing = {p.rank for p in pairs}
    owing = sorted({p.peer for p in pairs} - standing)
    if owing:
        return owing
    mutual = sorted(p.rank for p in pairs if p.mutual)
    if not mutual:
        return sorted(standing)
    aimed = {r: {p.rank for p in pairs if p.peer == r} for r in mutual}
    most = max(len(by) for by in aimed.values())
    chosen = [r for r in mutual if len(aimed[r]) == most]
    return chosen if most > 1 and 2 * len(chosen) <= len(mutual) else mutual
