"""Where each rank stands by its stack: inside a collective, a send, the start, the end, or in the program itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .calls import (
    COLLECTIVE_FUNCTIONS,
    CREATING_FUNCTIONS,
    JOINING_FUNCTIONS,
    LEAVING_FUNCTIONS,
    PAIR_FUNCTIONS,
    RECEIVE_FUNCTIONS,
    SEND_FUNCTIONS,
    canonical,
)
from .evidence.frames import is_own
from .sites import is_user, user_frames
from .waits_graph import Wait
from .waits_votes import OPERATION, Side, Split, decided

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .model import Case, Fact

COLLECTIVE, SEND, RECEIVE, PAIRS, JOINING, LEAVING, BACKWARD, LOADER, PROGRAM, UNKNOWN, HANDLE = (
    "collective", "send", "receive", "pairs", "joining", "leaving", "backward", "loader", "program", "unknown",
    "handle",
)  # fmt: skip
"""HANDLE: in wait() of an asynchronous call, of which a stack shows the line of the program only."""

CREATING = CREATING_FUNCTIONS
"""Places of COLLECTIVE in which a group is made: all members must come to it, as to any other."""

CALLS = (COLLECTIVE, SEND, RECEIVE, PAIRS, HANDLE)
OUTSIDE = (PROGRAM, LOADER, SEND, RECEIVE, PAIRS, LEAVING)

_DISTRIBUTED = re.compile(r"torch/(?:distributed|nn/parallel)/|(?:deepspeed/comm|horovod)/")
_LOADER = re.compile(r"torch/utils/data/(?:dataloader|_utils/)")
_BACKWARD = re.compile(r"torch/(?:autograd/|_tensor\.py)")


@dataclass(slots=True)
class Place:
    """`what`: one of the words above; `function`: of torch; `frames`: the program's own, innermost first."""

    rank: int
    what: str
    function: str
    frames: list[list[Any]]
    fact: Fact

    @property
    def site(self) -> tuple[str, int] | None:
        return (str(self.frames[0][0]), int(self.frames[0][1])) if self.frames else None

    @property
    def name(self) -> str:
        """The program's function in which the rank stands."""
        return str(self.frames[0][2]) if self.frames else ""


def places(case: Case) -> dict[int, Place]:
    """The place of every rank with a stack: of its main thread, in the last stack that was taken."""
    out: dict[int, Place] = {}
    for fact in case.of("stack"):
        if fact.rank is None:
            continue
        frames = fact.values.get("main") or []
        if frames and not _at_exit(frames):
            out[fact.rank] = place(fact.rank, frames, fact)
    if _older_than_the_end(case, out):
        out = {}
    if not out:  # the traceback of a timeout shows where the rank had waited; that of a lost connection may be later
        for fact in case.of("exception"):
            frames = fact.values.get("frames") or []
            if fact.rank is not None and frames and "Timed out waiting" in str(fact.values.get("message")):
                at = out.setdefault(fact.rank, place(fact.rank, frames, fact))
                at.what = HANDLE if at.what == PROGRAM else at.what
    # torch raises a time-out where the rank waited: a line of the program itself is the wait() of a handle
    for fact in case.of("lost", "exception"):
        at = out.get(fact.rank) if fact.rank is not None else None
        frames = fact.values.get("frames") or []
        if (
            at is not None
            and at.what == PROGRAM
            and frames
            and (fact.values.get("how") in ("timeout", "closed", "reset") or _waited_in_vain(fact))
        ):
            raised = place(at.rank, frames, fact)
            if raised.what == PROGRAM and raised.site == at.site:
                at.what = HANDLE
    waits_at = {at.site for at in out.values() if at.what == HANDLE and at.site}
    for fact in case.of("exception"):  # a lost connection is seen later than it broke: at the same line it is this call
        if fact.rank is not None and fact.rank not in out and fact.values.get("victim") and waits_at:
            at = place(fact.rank, fact.values.get("frames") or [], fact)
            if at.what == PROGRAM and at.site in waits_at:
                out[fact.rank] = at
    for at in out.values():
        if at.what == PROGRAM and at.site in waits_at:
            at.what = HANDLE
    return out


def _waited_in_vain(fact: Fact) -> bool:
    message = str(fact.values.get("message") or "")
    return (
        bool(fact.values.get("victim"))
        and re.search(r"Timed out waiting|losed by peer|Read error", message) is not None
    )


def _at_exit(frames: list[list[Any]]) -> bool:
    """Whether the main thread has left the program and runs what a recorder registered for the end."""
    return bool(own := user_frames(frames)) and not any(is_own(frame) for frame in own)


def _older_than_the_end(case: Case, found: dict[int, Place]) -> bool:
    """Whether the stacks were taken before the job stood still: ranks that waited in vain did so at other lines."""
    same: dict[int, bool] = {}
    for fact in case.of("exception", "lost"):
        at = found.get(fact.rank) if fact.rank is not None else None
        frames = user_frames(fact.values.get("frames") or [], 1)
        words = f"{fact.values.get('how', '')} {fact.values.get('message', '')}"
        if at is None or not frames or not re.search(r"timeout|Timed out waiting", words):
            continue
        last = (str(frames[0][0]), int(frames[0][1]))
        agrees = any((str(f[0]), int(f[1])) == last for f in at.frames)
        same[at.rank] = same.get(at.rank, False) or agrees
    return sum(not ok for ok in same.values()) > sum(same.values())


def place(rank: int, frames: list[list[Any]], fact: Fact) -> Place:
    own = user_frames(frames, 6)
    what, function = UNKNOWN, ""
    for frame in frames:
        path, name = str(frame[0]).replace("\\", "/"), str(frame[2])
        if is_user(path):
            what = PROGRAM if what == UNKNOWN else what
            break
        if _LOADER.search(path):
            what = LOADER
            break
        if _DISTRIBUTED.search(path):
            for names, word in (
                (COLLECTIVE_FUNCTIONS | CREATING_FUNCTIONS, COLLECTIVE),
                (SEND_FUNCTIONS, SEND), (RECEIVE_FUNCTIONS, RECEIVE),
                (PAIR_FUNCTIONS, PAIRS), (JOINING_FUNCTIONS, JOINING), (LEAVING_FUNCTIONS, LEAVING),
            ):  # fmt: skip
                if name in names:
                    what, function = word, name  # the outermost: all_gather_object calls all_gather
        elif _BACKWARD.search(path) and name in ("backward", "_engine_run_backward") and what == UNKNOWN:
            what = BACKWARD
    return Place(rank, what, function, own, fact)


def stack_wait(found: dict[int, Place]) -> Wait | None:
    """At least two ranks in one collective, and others in the program itself or in the loader."""
    inside: dict[str, list[int]] = {}
    for rank, at in sorted(found.items()):
        if at.what == COLLECTIVE:
            inside.setdefault(canonical(at.function), []).append(rank)
    outside = sorted(r for r, at in found.items() if at.what in OUTSIDE)
    if not inside or not outside:
        return None
    op, waiters = max(inside.items(), key=lambda kv: len(kv[1]))
    if len(waiters) < 2 or len(outside) >= len(waiters) + len(outside) // 2 + 1:
        return None
    first = found[waiters[0]]
    return Wait(
        "", None, op, waiters, outside, [found[r].fact for r in waiters[:4]], "stack",
        [found[r].fact for r in outside[:4]], tuple((str(p), int(n), str(f)) for p, n, f in first.frames),
    )  # fmt: skip


def odd_waiters(found: dict[int, Place], waits: list[Wait], roots: list[int]) -> Split | None:
    """Ranks in a call that most ranks do not make: those do not work elsewhere, they wait in calls of their own."""
    waiters = sorted({r for w in waits for r in w.waiters} - set(roots))
    # ranks that left no dump and stand where the waited-for ones do
    sites = {found[r].site for r in roots if r in found}
    known = {r for w in waits for r in (*w.waiters, *w.absent)}
    roots = sorted(
        {*roots, *(r for r, at in found.items() if r not in known and at.what == HANDLE and at.site in sites)}
    )
    if not waiters or len(waiters) >= len(roots) or any(r not in found or found[r].what != HANDLE for r in roots):
        return None
    wait = waits[0]
    frames = tuple((str(p), int(n), str(f)) for p, n, f in found[roots[0]].frames)
    sides = [Side((wait.op or "collective", "", "", wait.frames), waiters, wait.facts[0] if wait.facts else None),
             Side(("wait() of an asynchronous call", "", "", frames), list(roots), found[roots[0]].fact)]  # fmt: skip
    return decided(Split(wait.group, None, OPERATION, sides, "stack"))


def stack_split(found: dict[int, Place]) -> Split | None:
    """Every rank is in a collective, and not all in the same one."""
    sides: dict[str, Side] = {}
    for rank, at in sorted(found.items()):
        within = at.what == BACKWARD and at.fact.kind == "exception"  # it had waited there in vain
        if at.what != COLLECTIVE and not within:
            return None
        op = canonical(at.function) if not within else "a collective within backward()"
        frames = tuple((str(p), int(n), str(f)) for p, n, f in at.frames)
        sides.setdefault(op, Side((op, "", "", frames), [], at.fact)).ranks.append(rank)
    if len(sides) < 2:
        return None
    return decided(Split("", None, OPERATION, list(sides.values()), "stack"))


def more_votes(split: Split, found: dict[int, Place], case: Case) -> None:
    """Ranks of whose calls no dump tells: their stack, or the traceback of a victim, may show which one they made."""
    if split.what != OPERATION:
        return
    voted = set(split.ranks)
    sides = {side.row[0]: side for side in split.sides}
    reducing = [op for op in sides if op.startswith(("all_reduce", "reduce_scatter"))]
    others = dict(found)
    for fact in case.of("exception"):
        if fact.rank is not None and fact.rank not in others and fact.values.get("victim"):
            others[fact.rank] = place(fact.rank, fact.values.get("frames") or [], fact)
    for rank, at in sorted(others.items()):
        if rank in voted:
            continue
        op = canonical(at.function) if at.what == COLLECTIVE else ""
        if at.what == BACKWARD and len(reducing) == 1:
            op = reducing[0]
        if split.by == "stack" and op in sides:
            lines = [(path, line) for path, line, _ in sides[op].row[3][:1]]
            if lines != [at.site]:  # a lost connection is seen later than it broke: at the same line it is this call
                continue
        if op in sides:
            sides[op].ranks = sorted([*sides[op].ranks, rank])
            voted.add(rank)
    decided(split)


def unseen_split(
    group: str, seq: int, op: str, ranks: list[int], facts: list[Fact], found: dict[int, Place]
) -> Split | None:
    """Ranks without a dump whose stacks show another collective than all dumps do."""
    first = facts[0].values.get("frames") or [] if facts else []
    frames = tuple((str(p), int(n), str(f)) for p, n, f in first)
    sides = {op: Side((op, "", "", frames), list(ranks), facts[0] if facts else None)}
    for rank, at in sorted(found.items()):
        if at.what == COLLECTIVE:
            called = canonical(at.function)
            own = tuple((str(p), int(n), str(f)) for p, n, f in at.frames)
            sides.setdefault(called, Side((called, "", "", own), [], at.fact)).ranks.append(rank)
    return decided(Split(group, seq, OPERATION, list(sides.values()))) if op and len(sides) > 1 else None
