"""Sends and receives without their other half (NCCL dumps; gloo records none)."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact

OPPOSITE = {"send": "recv", "recv": "send"}


@dataclass(slots=True)
class Pair:
    """`rank` is in an unfinished send to, or receive from, `peer`, and the peer has no such call open."""

    rank: int
    peer: int
    op: str
    group: str
    seq: int | None
    fact: Fact


def pairs_of(case: Case) -> list[Pair]:
    """The oldest open call of each rank that is a send or receive and whose peer's dump shows no counterpart."""
    from .waits_groups import chosen_dumps

    dumps = {f.source: r for r, f in chosen_dumps(case).items()}
    opened: dict[int, list[Fact]] = {}
    for fact in case.of("call"):
        if fact.source in dumps and fact.rank is not None:
            opened.setdefault(fact.rank, []).append(fact)
    known = set(dumps.values())
    counterparts = {
        (f.rank, f.values.get("peer"), f.values.get("op"))
        for calls in opened.values()
        for f in calls
        if f.values.get("p2p")
    }
    out = []
    for rank, calls in sorted(opened.items()):
        oldest = min(calls, key=lambda f: f.values.get("record") or 0)
        v = oldest.values
        peer, op = v.get("peer"), str(v.get("op"))
        if not v.get("p2p") or not isinstance(peer, int) or peer not in known or op not in OPPOSITE:
            continue
        if (peer, rank, OPPOSITE[op]) not in counterparts:
            label = str(v.get("description") or v.get("group") or "")
            out.append(Pair(rank, peer, op, label, v.get("seq"), oldest))
    return out
