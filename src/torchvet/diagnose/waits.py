"""Who waits for whom: the progress of every rank in every process group, from whatever tells it.

`waits`     within one group: ranks in a call that others never made
`roots`     ranks that are waited for and do not wait themselves: the reason is there
`cycles`    ranks that wait for each other through two or more groups
`stuck`     ranks on which a call is unfinished that their peers have finished: the device, not the host
`splits`    members of a group that made different calls under one number
`joined`    calls that every member made and nobody finished
`orders`    ranks that share two groups and take them in different order
`creation`  ranks that stand in new_group
`torn`      ranks whose log breaks off within a traceback
`late`      sets of dumps of which some were written when their last calls had failed
`watched`   ranks that `torchvet run` watched
`places`    where each rank stands by its stack
"""

from __future__ import annotations

from dataclasses import dataclass

from .absence import torn
from .calls import SYNCHRONISING, doing_of
from .ranks import failed
from .waits_creation import Creation, creation
from .waits_creation import elsewhere as away
from .waits_graph import Stuck, Wait, roots_and_cycles, stuck_of, waits_of
from .waits_groups import at_its_timeout, chosen_dumps, group_states, set_of
from .waits_order import Conflict, conflicts
from .waits_pairs import Pair, blamed, elsewhere, pairs_of, standing
from .waits_shift import Shift, shift_of
from .waits_stacks import (
    CALLS,
    LOADER,
    OUTSIDE,
    PROGRAM,
    Place,
    more_votes,
    odd_waiters,
    places,
    stack_split,
    stack_wait,
    unseen_split,
)
from .waits_texts import told
from .waits_votes import Split, by_sisters, fingerprints, left_out, splits_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact


YOUNG_S = 2.0
OLD_S = 30.0  # calls that are unfinished for so long are not at work


def _ages(dumps: dict[int, Fact]) -> list[float]:
    """Seconds between the last call and the writing of each dump, by the time of the files. Copies may change that:
    to later times, never to the moment of the last call."""
    return [
        fact.values["written"] - fact.values["latest"] / 1e9
        for fact in dumps.values()
        if fact.values.get("written") and fact.values.get("latest")
    ]


def _of_a_running_job(dumps: dict[int, Fact]) -> bool:
    """Whether the dumps were written while calls were being made: then what is unfinished is at work, not stuck."""
    ages = _ages(dumps)
    return bool(ages) and sum(-1.0 <= age < YOUNG_S for age in ages) * 2 > len(ages)


@dataclass(slots=True)
class Joined:
    group: str
    seq: int
    op: str
    ranks: list[int]
    unseen: list[int]  # members of which nothing is known
    facts: list[Fact]


class Waits:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.torn: set[int] = torn(case)
        self.groups = group_states(case)
        self.places: dict[int, Place] = places(case)
        self.waits: list[Wait] = [w for g in self.groups for w in waits_of(g)]
        self.told: list[Wait] = told(case, self.groups)
        self.creation: Creation | None = creation(case, self.places)
        if self.creation is not None and not self.told and (wait := away(case, self.creation, self.places)):
            self.told = [wait]
        self.stuck: list[Stuck] = [s for g in self.groups for s in stuck_of(g)]
        self.dumps: dict[int, Fact] = chosen_dumps(case)
        self.late = {set_of(dump) for dump in self.dumps.values() if dump.values.get("late")}
        self.watched = {f.rank for f in case.of("beat")}
        self.heads: dict[int, Fact] = standing(case, self.dumps)
        self.pairs: list[Pair] = pairs_of(case, self.groups, self.dumps, self.heads)
        self.running = failed(case) is None and _of_a_running_job(self.dumps)
        if self.running:
            self.waits, self.stuck, self.pairs = [], [], []
        self.splits: list[Split] = [s for g in self.groups if (s := splits_of(g))]
        detail = fingerprints(case)
        if detail is not None and not any(s.by == "recorder" for s in self.splits):
            self.splits = [detail]
        seen = {r for r, at in self.places.items() if at.what in (PROGRAM, LOADER)}
        seen |= {r for r, k in case.ranks.items() if r not in self.places and doing_of(k.last)}
        known = self.waits + self.told + elsewhere(self.pairs, self.heads, self.dumps, seen)
        if not known and not self.splits and not self.stuck:
            by_stack = stack_wait(self.places)
            if by_stack is not None:
                known = [by_stack]
            elif (split := stack_split(self.places)) is not None:
                self.splits = [split]
        for split in self.splits:
            if split.by in ("recorder", "stack"):
                more_votes(split, self.places, case)
            by_sisters(split, self.groups)
        if not known and not self.splits and not self.stuck:
            known = self._by_stacks_of_unseen()
        self.all: list[Wait] = known
        self.roots, self.cycles = roots_and_cycles(known)
        if self.roots and not self.splits and (odd := odd_waiters(self.places, self.all, self.roots)) is not None:
            self.splits = [odd]
        self.orders: list[Conflict] = []
        if not self.running and not self.splits and not self.stuck:
            self.orders = conflicts(self.groups, self.dumps, self.heads)
        for order in self.orders:  # two ranks within each other's way say more than a ring of waits through others
            self.cycles = [c for c in self.cycles if not set(c) & {*order.first, *order.second}]

    def _by_stacks_of_unseen(self) -> list[Wait]:
        """All dumps show one call; the stack of a rank without a dump may show that it is in another, or in none."""
        for joined in self.joined():
            found = {r: self.places[r] for r in joined.unseen if r in self.places}
            split = unseen_split(joined.group, joined.seq, joined.op, joined.ranks, joined.facts, found)
            if split is not None:
                self.splits.append(split)
                return []
            # a host waits for its device at some line of the program, as those whose dumps show the call do
            same = {self.places[r].site for r in joined.ranks if r in self.places}
            outside = sorted(r for r, at in found.items() if at.what in OUTSIDE and at.site not in same)
            if outside and len(joined.ranks) > 1:
                told_by = [found[r].fact for r in outside[:4]]
                return [
                    Wait(joined.group, joined.seq, joined.op, joined.ranks, outside, joined.facts, "recorder", told_by)
                ]
        return []

    def waiting_for(self, rank: int) -> list[Wait]:
        """The waits that lack this rank, those with most waiters first."""
        return sorted((w for w in self.all if rank in w.absent), key=lambda w: -len(w.waiters))

    def waits_for_each(self, ranks: list[int], most: int = 4) -> list[Wait]:
        """For each of some ranks the wait with most waiters that lacks it; one wait may lack several."""
        out: list[Wait] = []
        for rank in ranks:
            found = self.waiting_for(rank)[: 1 if len(ranks) > 1 else 2]
            out += [w for w in found if all(w is not k for k in out)]
            if len(out) >= most:
                break
        return out

    def waiters(self) -> list[int]:
        return sorted({r for w in self.all for r in w.waiters})

    def busy(self, rank: int) -> bool:
        """Whether the rank itself is in an unfinished call: then it waits too, for somebody who left no trace."""
        if (
            not self.running
            and (head := self.heads.get(rank)) is not None
            and (head.values["p2p"] or head.values["parts"])
        ):
            return True
        if any((p := g.ranks.get(rank)) is not None and p.open is not None for g in self.groups):
            return True
        # gloo marks a call that timed out as finished: without a stack or a log nobody knows whether this one did
        dump, known = self.dumps.get(rank), self.case.ranks.get(rank)
        silent = rank not in self.places and (known is None or "log" not in known.has or rank in self.torn)
        # `torchvet run` notes every exception: a rank that it watched and that raised none did not wait in vain
        silent = silent and rank not in self.watched
        if not silent or dump is None or dump.values.get("backend") != "gloo":
            return False
        if rank in self.torn:
            return True
        return at_its_timeout(dump) or set_of(dump) in self.late

    @property
    def stood(self) -> bool:
        """Whether anything says that the job stood still: ranks that waited too long, or old unfinished calls."""
        if self.case.of("watchdog", "lost", "dump-signal", "absent", "heartbeat"):
            return True
        ages = _ages(self.dumps)
        return not self.running and bool(ages) and sum(age > OLD_S for age in ages) * 2 > len(ages)

    @property
    def told_apart(self) -> bool:
        """Whether anything known says who does not come: ranks that wait themselves are not meant."""
        roots = [r for r in self.roots if not self.busy(r)]
        return bool(roots or self.cycles or self.splits or self.stuck or self.orders or blamed(self.pairs))

    def stuck_ranks(self) -> list[int]:
        return sorted({s.rank for s in self.stuck})

    def shift(self, split: Split, rank: int) -> Shift | None:
        """Where a rank parted from its peers before a split, by laying their calls side by side."""
        if split.by != "recorder":
            return None
        return next((s for g in self.groups if g.label == split.group and (s := shift_of(g, split, rank))), None)

    def left_out(self, split: Split, rank: int) -> int:
        """Calls that a rank left out before a split, by the pattern before; 0 = nothing says so."""
        return max((left_out(g, split, rank) for g in self.groups if g.label == split.group), default=0)

    def joined(self) -> list[Joined]:
        """Calls that all known members have made and not finished."""
        out: list[Joined] = []
        for group in self.groups if not self.running else ():
            opened = {r: p for r, p in group.ranks.items() if p.open is not None}
            if not opened or len(group.members) < 2:
                continue
            seqs = {p.open for p in opened.values() if p.open is not None}
            seq, low = max(seqs), min(seqs)
            first = next((row for p in opened.values() if (row := p.row(low))), None)
            if low < seq and first and first[0] not in SYNCHRONISING and len(opened) == len(group.ranks):
                # of a call with a root some get their share and go on; all of them wait, for somebody else
                unseen = [r for r in group.members if r not in group.ranks]
                facts = [p.calls.get(low, p.fact) for p in opened.values() if p.open == low][:4]
                if unseen:
                    out.append(Joined(group.label, low, first[0], sorted(opened), unseen, facts))
                continue
            everyone = [r for r, p in group.ranks.items() if p.enqueued is not None and p.enqueued >= seq]
            finished = [r for r, p in group.ranks.items() if p.completed is not None and p.completed >= seq]
            if len(everyone) < len(group.ranks) or finished:
                continue
            row = next((row for p in opened.values() if (row := p.row(seq))), None)
            unseen = [r for r in group.members if r not in group.ranks]
            # the stack of a rank without a dump may show it in a call: then it waits as well
            unseen = [r for r in unseen if r not in self.places or self.places[r].what not in CALLS]
            facts = [p.calls.get(seq, p.fact) for p in list(opened.values())[:4]]
            out.append(Joined(group.label, seq, row[0] if row else "", sorted(everyone), unseen, facts))
        return out
