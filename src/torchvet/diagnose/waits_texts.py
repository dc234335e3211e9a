"""Waits that a message states in words: monitored_barrier, desync reports, and ranks whose watchdog is silent."""

from __future__ import annotations

import re

from .calls import COLLECTIVE_FUNCTIONS, canonical
from .sites import user_frames
from .waits_graph import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact
    from .waits_groups import GroupState


def told(case: Case, groups: list[GroupState]) -> list[Wait]:
    out = _absent(case)
    if not out:
        out = _behind(case)
    out += _communicator(case) + _store_barrier(case)
    more = _silent(case, groups) + _unnumbered(case)
    if not out and not more:
        more = _only_silent(case, groups)
    return out + more + ([] if out or groups else _timed_out(case)) + ([] if out or more else _apart(case, groups))


def _absent(case: Case) -> list[Wait]:
    """ "Rank 1 failed to pass monitoredBarrier": who did not come. What other ranks say of rank 0 is a consequence."""
    found: dict[tuple[str, int | None], Wait] = {}
    for fact in case.of("absent"):
        ranks = [r for r in fact.values.get("ranks") or [] if isinstance(r, int)]
        if not ranks or (fact.rank is not None and fact.rank in ranks):
            continue
        by = str(fact.values.get("by") or "")
        op = "monitored_barrier" if by == "monitored-barrier" else ""
        seq = fact.values.get("seq")
        wait = found.setdefault((by, seq), Wait(str(fact.values.get("group") or ""), seq, op, [], [], [], "text"))
        wait.absent = sorted({*wait.absent, *ranks})
        if fact.rank is not None and fact.rank not in wait.waiters:
            wait.waiters.append(fact.rank)
        wait.facts.append(fact)
    return list(found.values())


def _behind(case: Case) -> list[Wait]:
    """Desync reports: "joined #n", "finished #n, did not join #n+1". Its labels lump both sides, its numbers do not."""
    at: dict[int, tuple[int, Fact]] = {}
    for fact in case.of("behind"):
        v = fact.values
        for rank in v.get("ranks") or []:
            number = v.get("joined") if v.get("joined") is not None else v.get("seq")
            if isinstance(rank, int) and isinstance(number, int):
                old = at.get(rank)
                if old is None or number > old[0]:
                    at[rank] = (number, fact)
    if not at:
        return []
    top = max(n for n, _ in at.values())
    absent = sorted(r for r, (n, _) in at.items() if n < top)
    waiters = sorted(r for r, (n, _) in at.items() if n == top)
    if not absent or not waiters:
        return []
    return [Wait("", top, "", waiters, absent, [at[r][1] for r in waiters[:4]], "text", [at[r][1] for r in absent[:4]])]


COMMUNICATOR = "the start of the NCCL communicator"
_ASKED = re.compile(r"\[(\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(\d+)\]")


def _communicator(case: Case) -> list[Wait]:
    """The first call of a group waits for rank 0's id in the store: ranks that waited too long for it."""
    found: dict[int, Wait] = {}
    for fact in case.of("exception"):
        message = str(fact.values.get("message") or "")
        asked = _ASKED.search(message)
        if asked is None or fact.rank is None or "timeout" not in message.lower() or int(asked[1]) != fact.rank:
            continue  # numbers are those of the group: only in the group of all they are the rank's own
        source = int(asked[2])
        if source in case.ranks and source != fact.rank:
            wait = found.setdefault(source, Wait("", None, COMMUNICATOR, [], [source], by="log"))
            wait.waiters.append(fact.rank)
            wait.facts.append(fact)
    return [w for w in found.values() if w.absent[0] not in {r for k in found.values() for r in k.waiters}]


def _store_barrier(case: Case) -> list[Wait]:
    """The store counts who comes to the start of a group: the ranks that say so came, the rest did not."""
    facts: dict[int, Fact] = {}
    for fact in case.of("rendezvous"):
        rank = fact.rank if fact.rank is not None else fact.values.get("r")
        if fact.values.get("what") == "barrier" and isinstance(rank, int):
            facts.setdefault(rank, fact)
    if not facts:
        return []
    expected = max(int(f.values.get("expected") or 0) for f in facts.values())
    joined = max(int(f.values.get("joined") or 0) for f in facts.values())
    absent = [r for r in range(min(expected, 65536)) if r not in facts]
    if not absent or len(absent) != expected - joined:
        return []
    return [Wait("", None, "the start of the group", sorted(facts), absent, list(facts.values())[:4], "text")]


def _only_silent(case: Case, groups: list[GroupState]) -> list[Wait]:
    """In jobs of many groups each rank waits in one of its own. All but one say so: that one waits for nobody."""
    told_of = {f.rank for f in case.of("watchdog") if f.rank is not None}
    silent = [r for r in case.ranks if r not in told_of]
    if len(silent) != 1 or len(told_of) < 2 or "log" not in case.ranks[silent[0]].has:
        return []
    known = [g for g in groups if g.ranks and all(p.by == "log" for p in g.ranks.values())]
    if len(known) != len(groups) or any(silent[0] in g.ranks and g.ranks[silent[0]].open for g in groups):
        return []
    group = max(known, key=lambda g: len(g.ranks), default=None)
    first = next((p for p in group.ranks.values() if p.calls), None) if group is not None else None
    if group is None or first is None:
        return []
    seq = min(first.calls)
    waiters = sorted(r for r, p in group.ranks.items() if seq in p.calls)
    op = canonical(str(first.calls[seq].values.get("op", "")))
    return [Wait(group.label, seq, op, waiters, silent, [group.ranks[r].calls[seq] for r in waiters[:4]], "log")]


def _apart(case: Case, groups: list[GroupState]) -> list[Wait]:
    """Every rank says that it waited too long: some in the group of all, the others each in a smaller group whose other
    members say nothing of that group. Those are in the group of all, and so each side waits for the other."""
    world = next((g for g in groups if g.label == "world"), None)
    small = [g for g in groups if g is not world]
    if world is None or not small or any(p.by != "log" for g in groups for p in g.ranks.values()):
        return []
    inside = {r for g in small for r in g.ranks}
    waiting = {r: min(p.calls) for r, p in world.ranks.items() if p.calls}
    if not waiting or inside & set(waiting) or {*inside, *waiting} != set(case.ranks) or len(set(waiting.values())) > 1:
        return []
    if not all(g.alone for g in small):
        return []
    seq = next(iter(waiting.values()))
    rows = [(world, seq, sorted(waiting), sorted(inside))]
    rows += [(g, min(p.calls), [r], sorted(waiting)) for g in small for r, p in g.ranks.items() if p.calls]
    out = []
    for group, number, waiters, absent in rows:
        call = group.ranks[waiters[0]].calls[number]
        op = canonical(str(call.values.get("op", "")))
        out.append(Wait(group.label, number, op, waiters, absent, [call], "log"))
    return out


def _unnumbered(case: Case) -> list[Wait]:
    """Watchdogs before torch 1.11 print no number: ranks that waited in one operation, ranks whose log is silent."""
    facts = [f for f in case.of("watchdog") if f.rank is not None and not isinstance(f.values.get("seq"), int)]
    if not facts or any(isinstance(f.values.get("seq"), int) for f in case.of("watchdog")):
        return []
    by: dict[str, dict[int, Fact]] = {}
    for fact in facts:
        by.setdefault(canonical(str(fact.values.get("op", ""))), {}).setdefault(int(fact.rank or 0), fact)
    op, waiters = max(by.items(), key=lambda kv: len(kv[1]))
    silent = [r for r, known in case.ranks.items() if known.has and not any(f.rank == r for f in facts)]
    if not silent or len(waiters) < 2 or 2 * len(waiters) <= len(case.ranks):
        return []
    return [Wait("", None, op, sorted(waiters), silent, list(waiters.values())[:4], "log")]


def _timed_out(case: Case) -> list[Wait]:
    """gloo names no peer: ranks that timed out at one line of the program, and the one that printed something else.

    A rank that waits with them may be closed before its own timeout, so silence alone accuses nobody: the one rank must
    have told other work since its last step, or be behind.
    """
    rows: dict[tuple[str, int], dict[int, Fact]] = {}
    for fact in case.of("lost"):
        site = next(iter(user_frames(fact.values.get("frames") or [], 1)), None)
        if fact.rank is not None and fact.values.get("how") == "timeout" and site:
            rows.setdefault((str(site[0]), int(site[1])), {}).setdefault(fact.rank, fact)
    if len(rows) != 1:
        return []
    waiters = next(iter(rows.values()))
    told_of = {f.rank for f in case.of("lost", "watchdog", "exception", "absent", "mismatch", "size")}
    silent = [
        r for r, known in case.ranks.items() if "log" in known.has and r not in told_of and known.code in (None, -15)
    ]
    if len(waiters) < 2 or 2 * len(waiters) <= len(case.ranks):
        return []
    last = {case.ranks[r].last for r in waiters}
    steps = [s for r in waiters if (s := case.ranks[r].step) is not None]
    odd = [
        r for r in silent
        if (case.ranks[r].last and "step" not in case.ranks[r].last.lower()[:12] and case.ranks[r].last not in last)
        or (steps and case.ranks[r].step is not None and (case.ranks[r].step or 0) < min(steps))
    ]  # fmt: skip
    if len(odd) != 1:
        return []
    first = next(iter(waiters.values()))
    op = next((str(f[2]) for f in first.values.get("frames") or [] if f[2] in COLLECTIVE_FUNCTIONS), "")
    return [Wait("", None, canonical(op), sorted(waiters), odd, list(waiters.values())[:4], "log")]


def _whole_nodes(case: Case, waiters: list[int], silent: list[int]) -> bool:
    """The silent ranks have logs and are all those of some nodes, the waiting ones are on others: a node was lost."""
    nodes = {r: case.ranks[r].node for r in (*waiters, *silent) if r in case.ranks and "log" in case.ranks[r].has}
    theirs = {nodes.get(r, "") for r in silent}
    return "" not in theirs and not theirs & {nodes.get(r, "") for r in waiters}


def _unread(case: Case, rank: int) -> bool:
    """A rank that ended by itself and whose log is not here: what it said is not known."""
    known = case.ranks.get(rank)
    return known is not None and known.code not in (None, 0) and not known.closed and "log" not in known.has


def _silent(case: Case, groups: list[GroupState]) -> list[Wait]:
    """Every rank but few says that it waited too long in the same call; the silent ones have a log and say nothing.

    Absence is evidence only where the collection worked: a rank without a log of its own is left out.
    """
    out = []
    for group in groups:
        calls: dict[int, list[int]] = {}
        for rank, progress in group.ranks.items():
            if progress.by == "log" and progress.calls:
                calls.setdefault(min(progress.calls), []).append(rank)
        if not calls:
            continue
        for rank, progress in group.ranks.items():  # dumps of others show the same call
            if progress.by != "log" and progress.open in calls and progress.open in progress.calls:
                calls[progress.open].append(rank)
        seq, waiters = max(calls.items(), key=lambda kv: len(kv[1]))
        silent = [r for r in group.members if r not in group.ranks and not _unread(case, r)]
        silent = [r for r in silent if r not in case.ranks or case.ranks[r].has]
        seen = [r for r in silent if r in case.ranks]
        few = 2 * len(waiters) <= len(group.members) and not _whole_nodes(case, waiters, silent)
        if not seen or len(waiters) < 2 or few:
            continue
        call = group.ranks[waiters[0]].calls[seq]
        facts = [group.ranks[r].calls[seq] for r in sorted(waiters)[:4]]
        op = canonical(str(call.values.get("op", "")))
        out.append(Wait(group.label, seq, op, sorted(waiters), seen, facts, "log"))
    return out
