"""How far every rank is in every process group, ready to be drawn: one lane for all ranks that agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import rank_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Diagnosis
    from ..waits_groups import GroupState, Progress

COLUMNS = 48
"""Calls of a group that are shown, the last ones."""
BEFORE = 12
"""Calls shown before the first that differs."""
MOST_LANES, MOST_GROUPS = 40, 8
FINISHED, OPEN = "finished", "open"


@dataclass(slots=True)
class Lane:
    """`runs`: (first number, last number, op, state) of calls that follow each other and are alike."""

    role: str
    runs: list[tuple[int, int, str, str]]
    ranks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Chart:
    """One process group: calls `first` to `last`; `hidden`: lanes that are left out."""

    group: str
    first: int
    last: int
    lanes: list[Lane]
    ops: list[str]
    hidden: int = 0


def charts(diagnosis: Diagnosis) -> list[Chart]:
    """Groups in which some rank waits or is stuck first, then those in which ranks differ."""
    waits = diagnosis.case.waits
    troubled = {w.group for w in waits.waits} | {s.group for s in waits.stuck}
    roles = {n: row.role for row in rank_map.rows(diagnosis) for n in row.ranks}
    found = []
    for state in waits.groups:
        known = {n: p for n, p in state.ranks.items() if p.enqueued is not None}
        ends = {(p.enqueued, p.completed, _last(p)) for p in known.values()}
        if len(known) > 1 and (state.label in troubled or len(ends) > 1):
            found.append((state.label not in troubled, state.label, _chart(state, known, roles)))
    found.sort(key=lambda row: row[:2])
    return [chart for _, _, chart in found[:MOST_GROUPS]]


def _chart(state: GroupState, known: dict[int, Progress], roles: dict[int, str]) -> Chart:
    last = max(p.enqueued or 0 for p in known.values())
    differs = min(min(p.enqueued or 0, p.completed if p.completed is not None else p.enqueued or 0)
                  for p in known.values())  # fmt: skip
    first = max(1, last - COLUMNS + 1, differs - BEFORE)
    lanes: dict[tuple[object, ...], Lane] = {}
    ops: dict[str, None] = {}
    for number, progress in sorted(known.items()):
        runs = _runs(progress, first)
        role = roles.get(number, rank_map.OTHER)
        for run in runs:
            ops[run[2]] = None
        lanes.setdefault((role, *runs), Lane(role, runs)).ranks.append(number)
    order = (rank_map.ROOT, rank_map.WAITS, rank_map.GONE, rank_map.OTHER)
    rows = sorted(lanes.values(), key=lambda r: (order.index(r.role), -len(r.ranks), r.ranks[0]))
    return Chart(state.label, first, last, rows[:MOST_LANES], list(ops), max(0, len(rows) - MOST_LANES))


def _last(progress: Progress) -> str:
    """The last call of a rank: ranks that are at the same number may be in different calls."""
    row = progress.row(progress.enqueued or 0)
    return row[0] if row is not None else ""


def _runs(progress: Progress, first: int) -> list[tuple[int, int, str, str]]:
    runs: list[tuple[int, int, str, str]] = []
    enqueued = progress.enqueued or 0
    completed = progress.completed if progress.completed is not None else enqueued
    if progress.backend == "gloo" and completed == enqueued:
        completed = enqueued - 1  # gloo says that a call is finished when it gave up, too
    for seq in range(first, enqueued + 1):
        row = progress.row(seq)
        op, state = row[0] if row is not None else "", FINISHED if seq <= completed else OPEN
        if runs and runs[-1][2:] == (op, state):
            runs[-1] = (runs[-1][0], seq, op, state)
        else:
            runs.append((seq, seq, op, state))
    return runs
