"""How far every rank is in every process group: one dump per rank; logs where dumps lack."""

from __future__ import annotations

import base64
import re
import sys
from array import array
from dataclasses import dataclass, field

from .calls import MERGED, SIZES, SYNCHRONISING, canonical
from .members import members as ranks_of
from .sites import user_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .model import Case, Fact

GLOO_ATTEMPTS = 16  # calls that a rank may have behind the one that timed out

Row = tuple[str, str, str, tuple[tuple[str, int, str], ...]]
"""op, sizes, dtypes, frames."""


@dataclass(slots=True)
class Progress:
    """One rank in one group. `enqueued`, `completed`: last call, None = not known; `calls`: the unfinished ones."""

    rank: int
    fact: Fact
    enqueued: int | None = None
    completed: int | None = None
    first: int | None = None
    start: int = 0
    history: bytes = b""
    rows: list[Row] = field(default_factory=list)
    calls: dict[int, Fact] = field(default_factory=dict)
    backend: str = ""
    whole: bool = False  # the ring has every call since the start
    by: str = "recorder"

    @property
    def open(self) -> int | None:
        """Number of the oldest unfinished call."""
        if self.enqueued is None or self.completed is None or self.completed >= self.enqueued:
            return None
        return self.completed + 1

    def row(self, seq: int) -> Row | None:
        """What the rank called with this number; None: not recorded (older than the ring, or never called)."""
        at = 2 * (seq - self.start)
        if 0 <= at < len(self.history):
            number = self.history[at] | self.history[at + 1] << 8
            if number < len(self.rows):
                return self.rows[number]
        call = self.calls.get(seq)
        if call is not None:
            v = call.values
            frames = tuple((str(p), int(n), str(f)) for p, n, f in v.get("frames") or ())
            op = canonical(str(v.get("op", "")))
            return op, str(v.get("sizes") or "") or _numel(op, v), str(v.get("dtypes") or ""), frames
        return None

    def numbers(self) -> range:
        """Numbers of the calls that may be recorded."""
        return range(self.start, self.start + len(self.history) // 2)


def _numel(op: str, values: dict[str, Any]) -> str:
    """Sizes as the watchdog has them: elements of what every member must agree on."""
    which = SIZES.get(op)
    count = values.get("numel_out" if which == "output" else "numel_in") if which else None
    return f"{count:,} elements" if isinstance(count, int) else ""


@dataclass(slots=True)
class GroupState:
    """One process group, as its members tell. `members` empty: not known."""

    name: str
    description: str
    members: tuple[int, ...]
    ranks: dict[int, Progress] = field(default_factory=dict)
    p2p: bool = False
    uncounted: bool = False  # batches of sends make the numbers of its ranks differ: they cannot be compared
    guessed: bool = False  # gloo does not tell its members: these are the ranks that have used it
    alone: bool = False  # known by lines of a watchdog only, and some member has none

    @property
    def label(self) -> str:
        """For people: "world" for the group of all ranks, else the description or name."""
        if self.name == "0" or self.description == "default_pg" or not self.name:
            return "world"
        generic = not self.description or self.description == "undefined"
        return self.name if generic else f"{self.description} ({self.name})" if self.name else self.description

    @property
    def backend(self) -> str:
        return next((p.backend for p in self.ranks.values() if p.backend), "")


def chosen_dumps(case: Case) -> dict[int, Fact]:
    """The dump of each rank to go by: those that were written while calls were outstanding, of one folder together.

    A dump that was written at an exception says that the failed call is finished (gloo: `retired` and
    `last_completed_collective` advance on a timeout), and a rank may have gone on meanwhile.
    """
    folders: dict[str, list[Fact]] = {}
    telling = {fact.source for fact in case.of("progress")}
    for fact in case.of("recorder"):
        if fact.rank is not None and fact.source in telling:  # others were written before there was a group
            folders.setdefault(_folder(fact.source), []).append(fact)

    def worth(facts: list[Fact]) -> tuple[int, int, float]:
        live = {f.rank for f in facts if f.values.get("outstanding")}
        return (len(live), len({f.rank for f in facts}), -max(f.values.get("latest") or 0 for f in facts))

    chosen: dict[int, Fact] = {}
    for folder in sorted(folders, key=lambda k: worth(folders[k]), reverse=True):
        best: dict[int, Fact] = {}
        for fact in folders[folder]:
            assert fact.rank is not None
            old = best.get(fact.rank)
            if old is None or _better(fact, old):
                best[fact.rank] = fact
        for rank, fact in best.items():
            chosen.setdefault(rank, fact)
    return chosen


def _folder(source: str) -> str:
    """The name of the folder alone: fr_live of every node are one set. Where each rank has a folder of its own, a set
    is what the files are called: those of a stall apart from those of the end."""
    path, _, base = source.replace("!", "/").rpartition("/")
    folder = path.rpartition("/")[2]
    return _NUMBER.sub("", folder) + "/" + _NUMBER.sub("", base) if _OF_RANK.fullmatch(folder) else folder


_OF_RANK = re.compile(r"rank_?\d+")
_NUMBER = re.compile(r"_?\d+(?:\.\w+)?$")


def _better(new: Fact, old: Fact) -> bool:
    """Among dumps of one rank in one folder: not cut, calls outstanding, more entries, with stacks."""

    def key(fact: Fact) -> tuple[bool, bool, int, bool]:
        v = fact.values
        return (not v.get("cut"), bool(v.get("outstanding")), int(v.get("entries") or 0), bool(v.get("frames")))

    return key(new) > key(old)


def group_states(case: Case) -> list[GroupState]:
    dumps = chosen_dumps(case)
    sources = {fact.source: fact for fact in dumps.values()}
    rows: dict[str, list[Row]] = {}
    interned: dict[str, Row] = {}
    states: dict[tuple[str, str], GroupState] = {}
    for fact in case.of("progress"):
        if fact.values.get("by") != "recorder" or fact.source not in sources or fact.rank is None:
            continue
        dump = sources[fact.source]
        if fact.source not in rows:
            rows[fact.source] = _rows(dump, interned)
        v = fact.values
        state = _state(states, str(v.get("group")), str(v.get("description") or ""), str(v.get("members") or ""))
        history = base64.b64decode(v["history"]) if v.get("history") else b""
        if sys.byteorder == "big" and history:
            numbers = array("H")
            numbers.frombytes(history)
            numbers.byteswap()
            history = numbers.tobytes()
        state.ranks[fact.rank] = Progress(
            fact.rank, fact, v.get("enqueued"), v.get("completed"), v.get("first"), int(v.get("start") or 0), history,
            rows[fact.source], {}, str(v.get("backend") or ""), bool(dump.values.get("whole")),
        )  # fmt: skip
        state.p2p = state.p2p or bool(v.get("p2p"))
    for fact in case.of("call"):
        if fact.source in sources and fact.rank is not None and not fact.values.get("p2p"):
            v = fact.values
            state = _state(states, str(v.get("group")), str(v.get("description") or ""), str(v.get("members") or ""))
            progress = state.ranks.get(fact.rank)
            if progress is not None and isinstance(v.get("seq"), int):
                progress.calls[v["seq"]] = fact
    for state in states.values():
        _settle(state, case)
        _without_stale(state)
        state.uncounted = _batches_differ(state)
    _reopen_failed(case, states, dumps)
    _strangers(states, dumps)
    _from_logs(case, states)
    return sorted(states.values(), key=lambda s: (s.label != "world", s.name))


def _rows(dump: Fact, interned: dict[str, Row]) -> list[Row]:
    """The rows of a dump; equal rows of all dumps are one object."""
    out = []
    for op, sizes, dtypes, frames in dump.values.get("rows") or ():
        key = f"{op}|{sizes}|{dtypes}|{frames}"
        row = interned.get(key)
        if row is None:
            row = (str(op), str(sizes), str(dtypes), tuple((str(p), int(n), str(f)) for p, n, f in frames))
            interned[key] = row
        out.append(row)
    return out


def _state(states: dict[tuple[str, str], GroupState], name: str, description: str, members: str) -> GroupState:
    key = (name, members)
    state = states.get(key)
    if state is None:
        state = states[key] = GroupState(name, description, ranks_of(members))
    state.description = state.description or description
    return state


def _settle(state: GroupState, case: Case) -> None:
    """Members of a group whose dumps do not tell them (gloo): all ranks for the default group, else who uses it."""
    if not state.members:
        if state.label == "world":
            count = case.world or max((p.fact.values.get("world") or 0 for p in state.ranks.values()), default=0)
            state.members = tuple(range(max(count, max(state.ranks, default=-1) + 1)))
        else:
            state.members = tuple(sorted(state.ranks))
            state.guessed = True
    if state.p2p:  # a rank without entries of its own tells a counter of sends
        for progress in state.ranks.values():
            if not progress.fact.values.get("p2p") and not progress.history:
                progress.enqueued = progress.completed = None


def _without_stale(state: GroupState) -> None:
    """Leave out dumps that are older than the standstill: peers have finished calls that need every member, and those
    ranks had not made them by then. gloo counts a call that timed out as finished: there only many such calls tell."""
    margin = 0 if state.backend != "gloo" else GLOO_ATTEMPTS
    needed = 0
    for progress in state.ranks.values():
        if progress.completed and progress.completed > needed + margin:
            last = next((n for n in range(progress.completed, max(progress.completed - 8, 0), -1)
                         if (row := progress.row(n)) is not None and row[0] in SYNCHRONISING), 0)  # fmt: skip
            needed = max(needed, last - margin)
    for rank in [r for r, p in state.ranks.items() if p.enqueued is not None and p.enqueued < needed]:
        del state.ranks[rank]


def _reopen_failed(case: Case, states: dict[tuple[str, str], GroupState], dumps: dict[int, Fact]) -> None:
    """gloo marks a call that timed out as finished. A rank whose traceback ends at the line of its last call waited in
    it to the end; so did one that failed by itself and wrote its dump when the time of that call had just run out."""
    raised: dict[int, list[int]] = {}
    for fact in case.of("lost", "exception"):
        if fact.rank in dumps and (fact.kind == "lost" or fact.values.get("victim")):
            lines = [int(f[1]) for f in user_frames(fact.values.get("frames") or [], 1)]
            raised.setdefault(fact.rank or 0, []).extend(lines)
    watched = {f.rank for f in case.of("beat")}
    latest: dict[tuple[int, str], int] = {}
    for fact in case.of("progress"):
        if (
            fact.values.get("by") == "recorder"
            and fact.rank is not None
            and isinstance(fact.values.get("enqueued"), int)
        ):
            key = (fact.rank, str(fact.values.get("group")))
            latest[key] = max(latest.get(key, 0), fact.values["enqueued"])
    for rank, dump in dumps.items():
        v, lines, known = dump.values, raised.get(rank, []), case.ranks.get(rank)
        ran_out = known is not None and known.code not in (None, 0) and not known.closed and at_its_timeout(dump)
        if not lines and (not ran_out or rank in watched):  # `torchvet run` would have seen it raise
            continue
        if v.get("backend") != "gloo" or not v.get("tail"):
            continue
        at, seq = v["tail"][-1]
        name = (v.get("groups") or [])[at]
        state = next((s for s in states.values() if s.name == name and rank in s.ranks), None)
        progress = state.ranks[rank] if state is not None else None
        if progress is None or progress.open is not None or progress.enqueued != seq:
            continue
        if latest.get((rank, name), seq) > seq:
            continue  # another dump holds later calls: what it raised at its end is not of this one
        row = progress.row(seq)
        if ran_out or (row is not None and row[3] and row[3][0][1] in lines):
            progress.completed = seq - 1
            dump.values["late"] = True  # written when the call had failed


def _strangers(states: dict[tuple[str, str], GroupState], dumps: dict[int, Fact]) -> None:
    """Ranks that never used a group whose members are not told, though its users wait in it for somebody: they are that
    somebody, when they wait for those users elsewhere and have no group of that description of their own."""
    for state in states.values():
        seqs = {p.open for p in state.ranks.values()}
        named = state.description not in ("", "undefined")
        alike = [s for s in states.values() if s.description == state.description]
        if (
            not state.guessed
            or not named
            or len(alike) > 1
            or len(seqs) != 1
            or None in seqs
            or state.backend != "gloo"
        ):
            continue
        for rank, dump in dumps.items():
            waits = any(
                s is not state and (p := s.ranks.get(rank)) is not None and p.open is not None
                and all(s.ranks[u].enqueued is not None and (s.ranks[u].enqueued or 0) < p.open
                        for u in state.members if u in s.ranks)
                and set(state.members) <= set(s.ranks)
                for s in states.values()
            )  # fmt: skip
            if rank not in state.ranks and waits and dump.values.get("whole"):
                state.ranks[rank] = Progress(rank, dump, 0, 0, backend="gloo", whole=True)
        state.members = tuple(sorted(state.ranks))


def at_its_timeout(dump: Fact) -> bool:
    """Whether a dump was written when the time of the last call of its rank had just run out."""
    v = dump.values
    limit, age = (v.get("timeout_ms") or 0) / 1e3, (v.get("written") or 0) - (v.get("latest") or 0) / 1e9
    return limit > 0 and limit <= age < 1.5 * limit


def set_of(dump: Fact) -> str:
    """What the dumps of one moment have in common: see `_folder`."""
    return _folder(dump.source)


def _batches_differ(state: GroupState) -> bool:
    """A batch of sends takes a number of the group, on the ranks that make it only: where they differ, calls of one
    number are not one call."""
    batches: dict[int, set[int]] = {}
    for rank, progress in state.ranks.items():
        made = {n for n, c in progress.calls.items() if c.values.get("parts")}
        if any(row[0] in MERGED and row[1] for row in progress.rows):
            made |= {n for n in progress.numbers() if (row := progress.row(n)) and row[0] in MERGED and row[1]}
        batches[rank] = made
    if not any(batches.values()):
        return False
    known = [p for p in state.ranks.values() if p.enqueued is not None]
    first = max((p.start for p in known if p.history), default=0)
    last = min((p.enqueued or 0 for p in known), default=0)
    sets = {frozenset(n for n in batches[p.rank] if first <= n <= last) for p in known if p.history}
    return len(sets) > 1 or last < first


def _from_logs(case: Case, states: dict[tuple[str, str], GroupState]) -> None:
    """Watchdog lines, for ranks without a dump: what they called and did not finish, and their own counters."""
    told = _groups_of_lines(case)
    numbered: dict[int, dict[int, int]] = {}
    for fact in _lines(case):
        v = fact.values
        rank = fact.rank
        if rank is None:
            continue
        name, description = str(v.get("group") or ""), str(v.get("description") or "")
        if not name and not description and fact.kind == "watchdog":
            if (rank, v.get("seq")) in told:
                name, description = told[rank, v.get("seq")]
            elif any(r == rank for r, _ in told):
                continue  # a line of a group that is not known
        state = _named(states, name, description)
        if state is None:
            state = states[name, "log"] = GroupState(name, description, ())
        progress = state.ranks.get(rank)
        if progress is not None and progress.by == "recorder":
            continue
        if progress is None:
            progress = state.ranks[rank] = Progress(rank, fact, backend="nccl", by="log")
        if isinstance(v.get("group_rank"), int):
            numbered.setdefault(id(state), {})[rank] = v["group_rank"]
        seq = v.get("seq")
        if fact.kind == "watchdog" and isinstance(seq, int):
            progress.calls.setdefault(seq, fact)
            if progress.completed is None or progress.completed >= seq:
                progress.completed = seq - 1
            progress.enqueued = max(progress.enqueued or 0, seq)
        enqueued, completed = v.get("enqueued"), v.get("completed")
        if isinstance(enqueued, int) and 0 <= enqueued < 1 << 31:
            progress.enqueued = max(progress.enqueued or 0, enqueued)
        if isinstance(completed, int) and 0 <= completed < 1 << 31 and progress.completed is None:
            progress.completed = completed
    for state in states.values():
        if not state.members and (state.label == "world"):
            state.members = tuple(range(max(case.world or 0, max(state.ranks, default=-1) + 1)))
        elif not state.members:
            own = numbered.get(id(state), {})
            everyone = case.world or 0
            if all(r == n for r, n in own.items()) and 2 * len(own) > everyone > 2:
                state.members = tuple(range(everyone))  # most ranks have their own number in it: the group of all
            else:
                state.members = tuple(sorted(state.ranks))
            state.alone = len(state.members) == 1 or max(own.values(), default=0) >= len(state.members)


def _groups_of_lines(case: Case) -> dict[tuple[int, object], tuple[str, str]]:
    """(rank, number of a call) -> group. From torch 2.3 on the first line of a watchdog names no group, the next do."""
    out: dict[tuple[int, object], tuple[str, str]] = {}
    for fact in case.of("watchdog", "progress"):
        v = fact.values
        if v.get("by") == "recorder" or fact.rank is None or not (v.get("group") or v.get("description")):
            continue
        seq = v.get("seq", v.get("work"))
        if isinstance(seq, int):
            out.setdefault((fact.rank, seq), (str(v.get("group") or ""), str(v.get("description") or "")))
    return out


def _lines(case: Case) -> Iterator[Fact]:
    yield from case.of("watchdog")
    for fact in case.of("progress", "dump-signal"):
        if fact.values.get("by") != "recorder":
            yield fact


def _named(states: dict[tuple[str, str], GroupState], name: str, description: str) -> GroupState | None:
    """The group that a log line means: by name; by description when that is clear."""
    same = [s for s in states.values() if s.name == name and name]
    if len(same) == 1:
        return same[0]
    if same:
        return None
    if not name and not description:
        found = [s for s in states.values() if s.label == "world"]
    else:
        # each tensor-parallel group of a job has the same description, and a name of its own
        found = [s for s in states.values() if description and s.description == description and not (name and s.name)]
    return found[0] if len(found) == 1 else None
