"""The wait-for graph: a rank waits where others never called the number of its oldest unfinished call in a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from .calls import SYNCHRONISING, canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Fact
    from .waits_groups import GroupState, Progress

ASYNCHRONOUS_ATTEMPTS = 8  # calls that a rank can have behind the one that failed


@dataclass(slots=True)
class Wait:
    """`waiters` are in call number `seq` of a group, `absent` have not called it. `facts`: of the waiters."""

    group: str
    seq: int | None
    op: str
    waiters: list[int]
    absent: list[int]
    facts: list[Fact] = field(default_factory=list)
    by: str = "recorder"  # "recorder", "log", "stack", "text"
    absent_facts: list[Fact] = field(default_factory=list)
    frames: tuple[tuple[str, int, str], ...] = ()


@dataclass(slots=True)
class Stuck:
    """A synchronising call that is finished on some members and not on this rank: its device does not get on."""

    rank: int
    group: str
    seq: int
    op: str
    finished: list[int]
    fact: Fact


def waits_of(state: GroupState) -> list[Wait]:
    """The waits within one group, lowest number first. A rank of which nothing is known is never absent."""
    if state.uncounted:
        return []
    known = {r: p for r, p in state.ranks.items() if p.enqueued is not None}
    if not known:
        return []
    by_seq: dict[int, list[int]] = {}
    lowest = min(p.enqueued for p in known.values() if p.enqueued is not None)
    for rank, progress in known.items():
        assert progress.enqueued is not None
        seq = progress.open
        if seq is not None and seq <= lowest < progress.enqueued and progress.backend == "gloo":
            seq = lowest + 1  # its oldest call was joined by all; of those behind it one was not
        if seq is None and progress.enqueued > lowest and progress.backend == "gloo":
            # after an exception gloo says that the call is finished: nobody finishes one that a member never called
            after = _next_above(known, progress.enqueued)
            if after is not None and progress.enqueued - after < ASYNCHRONOUS_ATTEMPTS:
                row = progress.row(after)
                if row is not None and row[0] in SYNCHRONISING:
                    seq = after
        if seq is not None:
            by_seq.setdefault(seq, []).append(rank)
    out = []
    for seq in sorted(by_seq):
        absent = [r for r in state.members if r in known and (known[r].enqueued or 0) < seq]
        if not absent:
            continue
        waiters = sorted(by_seq[seq])
        first = known[waiters[0]]
        row = next((row for r in waiters if (row := known[r].row(seq))), None)
        call = first.calls.get(seq)
        op = row[0] if row else canonical(str(call.values.get("op", ""))) if call else ""
        facts = [known[r].calls.get(seq, known[r].fact) for r in waiters[:4]]
        frames = row[3] if row else ()
        out.append(
            Wait(state.label, seq, op, waiters, absent, facts, first.by, [known[r].fact for r in absent[:4]], frames)
        )
    return out


def _next_above(known: dict[int, Progress], enqueued: int) -> int | None:
    """First number that some other rank has not called, at most `enqueued`."""
    below = [p.enqueued for p in known.values() if p.enqueued is not None and p.enqueued < enqueued]
    return max(below) + 1 if below else None


def stuck_of(state: GroupState) -> list[Stuck]:
    """Rule (b): only for calls that nobody finishes alone, and only where completion is seen on the device."""
    if state.uncounted:
        return []
    out = []
    if state.backend == "gloo":  # no completion events: a socket that was closed "completes" a call
        return []
    done = {r: p.completed for r, p in state.ranks.items() if p.completed is not None and p.by == "recorder"}
    if not done:
        return []
    top = max(done.values())
    for rank, progress in sorted(state.ranks.items()):
        seq = progress.open
        if seq is None or seq > top or rank not in done:
            continue
        row = progress.row(seq)
        if row is None or row[0] not in SYNCHRONISING:
            continue
        finished = sorted(r for r, last in done.items() if last >= seq and r != rank)
        out.append(Stuck(rank, state.label, seq, row[0], finished, progress.calls.get(seq, progress.fact)))
    return out


def roots_and_cycles(waits: list[Wait]) -> tuple[list[int], list[list[int]]]:
    """(ranks that are waited for and do not wait, sets of ranks that wait for each other)."""
    waiting = {r for w in waits for r in w.waiters}
    wanted = {r for w in waits for r in w.absent}
    # nodes: ranks, and one node for each wait, so that n waiters and m absent ranks cost n + m edges
    edges: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for number, wait in enumerate(waits):
        for rank in wait.waiters:
            edges.setdefault(("rank", rank), []).append(("wait", number))
        edges["wait", number] = [("rank", r) for r in wait.absent]
    cycles = [
        sorted(n for kind, n in part if kind == "rank")
        for part in _components(edges)
        if sum(kind == "rank" for kind, _ in part) > 1
    ]
    return sorted(wanted - waiting), sorted(cycles)


def _components(edges: dict[tuple[str, int], list[tuple[str, int]]]) -> list[list[tuple[str, int]]]:
    """Strongly connected components with more than one node (Tarjan, without recursion)."""
    index: dict[tuple[str, int], int] = {}
    low: dict[tuple[str, int], int] = {}
    stack: list[tuple[str, int]] = []
    on: set[tuple[str, int]] = set()
    out = []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges.get(start, ())))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, children = work[-1]
            for child in children:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on.add(child)
                    work.append((child, iter(edges.get(child, ()))))
                    break
                if child in on:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while True:
                        member = stack.pop()
                        on.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    if len(part) > 1:
                        out.append(part)
    return out
