"""Where members of a group made different calls under one number: the first such place, and who is in the minority."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from .calls import MERGED, canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .model import Case, Fact
    from .waits_groups import GroupState, Progress, Row

OPERATION, SIZES, DTYPES = "operation", "sizes", "dtypes"
SISTERS = 64  # calls before a difference in which another group must agree to be asked
NEAR = 3  # a difference of sizes that so many calls have outlived is not what stopped them


@dataclass(slots=True)
class Side:
    """`ranks` that made one call. `row`: op, sizes, dtypes, frames of one of them."""

    row: Row
    ranks: list[int]
    fact: Fact | None = None

    @property
    def said(self) -> str:
        """ "all_reduce of [[8]] Float"."""
        op, sizes, dtypes, _ = self.row
        return f"{op} of {sizes} {dtypes}".strip() if sizes and sizes != "[]" else op


@dataclass(slots=True)
class Split:
    """`sides`: largest first. `minority`: ranks outside a majority; empty when no side is one ("cannot tell")."""

    group: str
    seq: int | None
    what: str
    sides: list[Side]
    by: str = "recorder"
    minority: list[int] = field(default_factory=list)

    @property
    def ranks(self) -> list[int]:
        return sorted(r for side in self.sides for r in side.ranks)


def splits_of(state: GroupState) -> Split | None:
    """The first number under which members called different things; None: they agree as far as is known."""
    if state.uncounted:
        return None
    known = {r: p for r, p in state.ranks.items() if p.history or p.calls}
    if len(known) < 2 or state.name == "":
        return None
    numbers: dict[tuple[str, str, str], int] = {}
    tables: dict[int, list[int]] = {}
    counts: dict[int, dict[int, int]] = {}
    _same_units(known)
    for progress in known.values():
        for seq, signature in _signatures(progress, numbers, tables):
            row = counts.setdefault(seq, {})
            row[signature] = row.get(signature, 0) + 1
    signatures = {number: signature for signature, number in numbers.items()}
    for seq in sorted(counts):
        if len(counts[seq]) < 2:
            continue
        seen = [signatures[n] for n in counts[seq]]
        what = _difference(seen)
        if what is None or (what != OPERATION and not _near(known, seq)):
            continue
        return _split(state, known, seq, what)
    return None


def _same_units(known: dict[int, Progress]) -> None:
    """A watchdog tells the number of elements, a recorder the shapes: where both speak, both tell elements."""
    if len({p.by for p in known.values()}) < 2:
        return
    made: dict[int, list[Row]] = {}
    for progress in known.values():
        if progress.by == "recorder":
            rows = progress.rows
            if id(rows) not in made:
                made[id(rows)] = [(op, _elements(sizes), "", frames) for op, sizes, _, frames in rows]
            progress.rows = made[id(rows)]


def _elements(sizes: str) -> str:
    """ "[[4, 1024]]" is "4,096 elements"; of "[[8]] to [[32]]" the first."""
    count = 0
    for shape in re.findall(r"\[([\d, ]*)\]", sizes.partition(" to ")[0]):
        count += prod(int(n) for n in shape.split(",") if n.strip()) if shape.strip() else 1
    return f"{count:,} elements" if count else ""


def _signatures(
    progress: Progress, numbers: dict[tuple[str, str, str], int], tables: dict[int, list[int]]
) -> list[tuple[int, int]]:
    """(number of the call, its signature) of all that is recorded of a rank."""
    table = tables.get(id(progress.rows))
    if table is None:
        table = [numbers.setdefault(_voted(row), len(numbers)) for row in progress.rows]
        tables[id(progress.rows)] = table
    size = len(table)
    history = array("H")
    history.frombytes(progress.history)
    out = [(progress.start + n, table[at]) for n, at in enumerate(history) if at < size and progress.rows[at][0]]
    if not progress.history:
        for seq, call in progress.calls.items():
            row = progress.row(seq)
            if row is not None and row[0] and row[0] not in ("send", "recv") and not call.values.get("p2p"):
                out.append((seq, numbers.setdefault(_voted(row), len(numbers))))
    return out


def _voted(row: Row) -> tuple[str, str, str]:
    return row[0], row[1], row[2]


def _said(row: Row, what: str) -> str:
    return row[0] if what == OPERATION else row[1] if what == SIZES else row[2]


def _difference(seen: list[tuple[str, str, str]]) -> str | None:
    seen = [s for s in seen if s[0] not in MERGED]
    if len({s[0] for s in seen}) > 1:
        return OPERATION
    if len({s[1] for s in seen if s[1]}) > 1:
        return SIZES
    if len({s[2] for s in seen if s[2]}) > 1:
        return DTYPES
    return None


def _near(known: dict[int, Progress], seq: int) -> bool:
    """Whether a call is among the last of some rank, finished or not; a watchdog tells of no other."""
    if any(p.by == "log" and seq in p.calls for p in known.values()):
        return True
    return any(p.enqueued is not None and p.enqueued - NEAR < seq <= p.enqueued for p in known.values())


def _split(state: GroupState, known: dict[int, Progress], seq: int, what: str) -> Split:
    sides: dict[str, Side] = {}
    for rank, progress in sorted(known.items()):
        row = progress.row(seq)
        said = _said(row, what) if row is not None else ""
        if row is None or not said or row[0] in MERGED:
            continue
        side = sides.get(said)
        if side is None:
            sides[said] = Side(row, [rank], progress.calls.get(seq, progress.fact))
        else:
            side.ranks.append(rank)
    by = "recorder" if any(p.by == "recorder" for p in known.values()) else "log"
    split = decided(Split(state.label, seq, what, list(sides.values()), by))
    if what != OPERATION and not split.minority:
        usual = [side for side in split.sides if _usual(known, seq, side.row, what)]
        if len(usual) == 1:  # all made calls of this size before, nobody made one of the other
            split.minority = sorted(r for side in split.sides if side is not usual[0] for r in side.ranks)
    return split


def by_sisters(split: Split, groups: list[GroupState]) -> None:
    """An open split, decided by groups that do the same for other ranks (other pairs of tensor parallelism, say): the
    call that they make under this number is the right one, when it is that of one side only."""
    own = next((g for g in groups if g.label == split.group), None)
    if split.minority or own is None or split.seq is None or own.description in ("", "undefined"):
        return
    sisters = [
        g for g in groups
        if g is not own and g.description == own.description and len(g.members) == len(own.members)
        and not set(g.members) & set(own.members)
    ]  # fmt: skip
    rows = [
        row for g in sisters if _same_program(own, g, split.seq)
        for p in g.ranks.values() if (row := p.row(split.seq)) is not None
    ]  # fmt: skip
    backed = [side for side in split.sides if any(_voted(row) == _voted(side.row) for row in rows)]
    if len(backed) == 1:
        split.minority = sorted(r for side in split.sides if side is not backed[0] for r in side.ranks)
        split.sides.sort(key=lambda side: side is not backed[0])


def _same_program(one: GroupState, other: GroupState, seq: int) -> bool:
    """Whether two groups made the same calls before a number: stages of a pipeline have groups of one description that
    make calls of their own."""
    for mine in one.ranks.values():
        for theirs in other.ranks.values():
            both = [
                (a, b)
                for n in range(max(mine.start, theirs.start, seq - SISTERS), seq)
                if (a := mine.row(n)) is not None and (b := theirs.row(n)) is not None
            ]
            if len(both) > 1:
                return all(_voted(a) == _voted(b) for a, b in both)
    return False


def _usual(known: dict[int, Progress], seq: int, row: Row, what: str) -> bool:
    """Whether every rank has made this call with these sizes or types before."""
    return all(
        any(
            (old := progress.row(n)) is not None and old[0] == row[0] and _said(old, what) == _said(row, what)
            for n in progress.numbers()
            if n < seq
        )
        for progress in known.values()
    )


def decided(split: Split) -> Split:
    """With the sides in order, and the minority named where more than half agree."""
    split.sides.sort(key=lambda s: (-len(s.ranks), s.ranks))
    votes = sum(len(s.ranks) for s in split.sides)
    split.minority = []
    if 2 * len(split.sides[0].ranks) > votes:
        split.minority = sorted(r for side in split.sides[1:] for r in side.ranks)
    return split


def fingerprints(case: Case) -> Split | None:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL prints: each rank names its own call and that of one other.

    Its own word counts: what another rank reads of a barrier are the bytes of some other call.
    """
    calls: dict[int, tuple[Any, Row, Fact]] = {}
    for which in ("a", "b"):
        for fact in case.of("mismatch"):
            side = fact.values.get(which)
            if not isinstance(side, dict) or not isinstance(side.get("rank"), int):
                continue
            shape = side.get("shape")
            foreign = which == "b" and side.get("seq") == 0 and (fact.values["a"].get("seq") or 0) > 1
            op = "another call" if foreign else canonical(str(side.get("op") or ""))
            row: Row = (op, str(shape or ""), str(side.get("dtypes") or ""), ())
            calls.setdefault(side["rank"], (None if foreign else side.get("seq"), row, fact))
    if len(calls) < 2:
        return None
    what = _difference([_voted(row) for _, row, _ in calls.values()])
    if what is None:
        return None
    sides: dict[str, Side] = {}
    for rank, (_, row, fact) in sorted(calls.items()):
        sides.setdefault(_said(row, what), Side(row, [], fact)).ranks.append(rank)
    seq = min((s for s, _, _ in calls.values() if isinstance(s, int)), default=None)
    return decided(Split("world", seq, what, list(sides.values()), "text"))


def left_out(state: GroupState, split: Split, rank: int) -> int:
    """How many calls a rank left out before a split, by the pattern of calls before: 0 = nothing says so.

    What the rank calls now was called before, always after the same number of other calls, and now after fewer.
    """
    progress = state.ranks.get(rank)
    if progress is None or split.seq is None:
        return 0
    mine = progress.row(split.seq)
    if mine is None:
        return 0
    places = [
        n
        for n in progress.numbers()
        if n < split.seq and (row := progress.row(n)) and _voted(row) == _voted(mine) and row[3] == mine[3]
    ]
    gaps = {b - a for a, b in pairwise(places)}
    if len(gaps) != 1:
        return 0
    return max(0, next(iter(gaps)) - (split.seq - places[-1]))
