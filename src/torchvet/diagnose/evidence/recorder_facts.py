"""From a decoded dump to facts: normalised, checked field by field, and small (some kB for 2,000 entries).

Facts (kind: values), beside what `evidence/__init__.py` says of `progress` and `call`:

    recorder    version, backend, entries, world, whole (nothing was dropped from the ring), active (only unfinished
                calls were written), cut (the file ends too early), outstanding (number of unfinished calls), latest
                (time of the last call, ns), written (time of the file), frames (stacks were recorded), rows, groups
                and tail (the last collectives of all groups in the order of the calls: [index in groups, number]),
                timeout_ms (of the last call)
    progress    + by "recorder", outstanding, p2p (number of its point-to-point calls), start and history: numbers of
                rows, base64 of little-endian 16 bits, for the calls start, start+1, ... (65535 = not recorded)
    call        + record, row, timeout_ms, parts (of a batch: [send or recv, rank])

`members` is the text of `ranges`. `rows` are [op, sizes, dtypes, frames]: calls of the same kind from the same place
share one. `enqueued`, `completed`: number of the last collective called and finished; None = not known.
"""

from __future__ import annotations

import base64
import re
from array import array
from functools import lru_cache

from ..calls import MERGED, SIZES, canonical
from ..members import ranges
from ..model import Fact
from ..sites import user_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HISTORY = 512  # calls of one group that are kept
OLDEST = 4  # unfinished calls of one group that become facts
TAIL = 64  # calls of all groups whose order is kept
MAX_MEMBERS = 2_000_000
ABSENT = 65535

_PEER = re.compile(r"(\d+)\s*(->|<-)\s*(\d+)")


class Group:
    """One process group in one dump."""

    def __init__(self, name: str, description: str) -> None:
        self.name = name
        self.description = description
        self.members: tuple[int, ...] = ()
        self.status: tuple[int | None, int | None, int | None] | None = None
        self.calls: dict[int, int] = {}  # number of the call -> row
        self.first: int | None = None
        self.last: int | None = None
        self.open: list[dict[str, Any]] = []
        self.retired = 0  # last call that is finished by its own entry
        self.p2p = 0
        self.batches: dict[int, Batch] = {}  # number of the call -> what was merged into it


class Batch:
    """Calls that were made as one (batch_isend_irecv, coalescing). NCCL notes each of them, and never that it ended:
    only the entry of the whole does (ProcessGroupNCCL::endCoalescing)."""

    def __init__(self, done: bool, frames: list[list[Any]]) -> None:
        self.done = done
        self.frames = frames
        self.parts: list[tuple[str, int]] = []
        self.call: dict[str, Any] | None = None


def facts_of(dump: dict[str, Any], source: str, *, cut: bool, written: float, history: int = HISTORY) -> Iterator[Fact]:
    version = _text(dump.get("version"))
    entries = [e for e in dump.get("entries", []) if isinstance(e, dict)]
    if cut:
        entries = entries[:-1]  # the last one may lack fields
    groups: dict[str, Group] = {}
    names: dict[int, str] = {}  # process-local id of a group -> its name
    rows: list[list[Any]] = []
    known: dict[Any, int] = {}
    ops: dict[str, str] = {}
    backend, latest, frames = "", 0, False
    low, high, count = -1, -1, 0  # numbers of records, to know whether the ring dropped any
    config = _config(dump.get("pg_config"))
    status = _status(dump.get("pg_status"))
    tail: list[tuple[str, int]] = []
    repeated = _repeated(entries)
    for entry in reversed(entries):  # newest first: the history keeps the last calls
        get = entry.get
        profiling: Any = get("profiling_name")
        op = ops.get(profiling) if type(profiling) is str else ""
        if op is None:
            if len(ops) > 4096:
                ops.clear()
            op = ops[profiling] = canonical(_text(profiling))
            backend = backend or (profiling.partition(":")[0] if ":" in profiling[:20] else "")
        pair: Any = get("process_group")
        if type(pair) in (tuple, list) and len(pair) >= 2 and type(pair[0]) is str is type(pair[1]):
            name, description = pair[0][:200], pair[1][:200]
        else:
            name, description = _text(get("pg_name", get("pg_id"))) if pair is None else "", ""
        if not name:
            continue  # calls that DETAIL makes on its own: no group of the program
        pg = get("pg_id")
        if type(pg) is int and pg not in names:
            names[pg] = name
        group = groups.get(name)
        if group is None:
            group = groups[name] = Group(name, description)
        if not latest:
            latest = _number(get("time_created_ns")) or 0
        record = get("record_id")
        if type(record) is int:
            count += 1
            low, high = (record if low < 0 or record < low else low), (record if record > high else high)
        seq: Any = get("collective_seq_id")
        if type(seq) is not int or not 0 <= seq < 1 << 62:
            seq = _number(get("collective_seq_id", get("seq_id")))
        p2p = get("is_p2p") is True or (op in ("send", "recv") and "is_p2p" not in entry)
        done = bool(get("retired")) or get("state") == "completed"
        batch = group.batches.get(seq) if seq is not None and op not in MERGED else None
        inside = batch is not None
        if batch is not None:
            done = batch.done
            if p2p:
                batch.parts.append((op, peer if (peer := _peer(_text(profiling))) is not None else -1))
        elif p2p and (name, get("p2p_seq_id")) in repeated:
            inside = done = True  # the entry of the whole is not here: it has ended and was left out
        if seq is not None:
            if group.last is None or seq > group.last:
                group.last = seq
            if not p2p:
                if group.first is None or seq < group.first:
                    group.first = seq
                if done and seq > group.retired:
                    group.retired = seq
        if p2p:
            group.p2p += not inside
            if inside:
                continue
        elif seq is not None and len(tail) < TAIL and (not tail or tail[-1] != (name, seq)):
            tail.append((name, seq))
        keep = not p2p and seq is not None and len(group.calls) < history and not (op in MERGED and seq in group.calls)
        if done and not keep:
            continue
        at = get("frames")
        frames = frames or bool(at)
        given, taken = _flat(get("input_sizes")), _flat(get("output_sizes"))
        key = (profiling if op else "", given, taken, _dtypes(entry), _chain(at))
        row = known.get(key, ABSENT)
        if row == ABSENT and len(rows) < ABSENT:
            made = [op, _sizes(op, given, taken), key[3], user_frames(_frames(at), 6)]
            row = known.setdefault(repr(made), len(rows))  # frames of a copied pickle are not shared
            if row == len(rows):
                rows.append(made)
            if len(known) < 4 * ABSENT:
                known[key] = row
        if keep:
            group.calls[seq] = row
        if op in MERGED and seq is not None:
            merged = group.batches[seq] = Batch(done, user_frames(_frames(at), 6))
        if not done and not inside:
            call = _call(entry, op, seq, row, p2p)
            call["peer"] = _peer(_text(profiling)) if p2p else None
            call["root"] = _acts_as_root(op, given, taken)
            group.open.append(call)
            if op in MERGED and seq is not None:
                merged.call = call
    for name, (description, members) in config.items():
        if name or not groups:
            group = groups.setdefault(name, Group(name, description))
            group.members = members
            group.description = group.description or description
    groups.pop("", None)
    for group in groups.values():
        _give_parts(group, rows)
    given = _give_status(groups, names, status, cut)
    whole = low == 0 and count == high + 1 and not cut
    outstanding = sum(len(g.open) for g in groups.values())
    active = bool(entries) and not any(g.retired for g in groups.values()) and not whole
    world = _world(groups, config)
    told = _number(dump.get("rank", dump.get("global_rank")))
    rank = told if told is not None else _rank(source, groups, config)
    yield Fact(
        "recorder",
        source,
        rank=rank,
        values={
            "version": version, "backend": backend, "entries": len(entries), "world": world, "whole": whole,
            "active": active or not entries, "cut": cut, "outstanding": outstanding, "latest": latest,
            "written": written, "frames": frames, "rows": rows, "groups": list(groups),
            "tail": _numbered(tail, list(groups)),
            "timeout_ms": _number(entries[-1].get("timeout_ms")) if entries else None,
        },
    )  # fmt: skip
    silent = not entries and not cut and isinstance(dump.get("pg_status"), dict) and given
    for group in groups.values():
        never = whole or (silent and group.status is None)
        yield from _group_facts(group, source, rank, world, version, backend, never, cut, rows)


def _repeated(entries: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """(group, number) of sends and receives within a batch: they share a number, those made alone have one each."""
    seen: set[tuple[str, int]] = set()
    out: set[tuple[str, int]] = set()
    for entry in entries:
        if entry.get("is_p2p") is True:
            pair, number = entry.get("process_group"), entry.get("p2p_seq_id")
            if type(pair) in (tuple, list) and pair and type(pair[0]) is str and type(number) is int:
                key = (pair[0][:200], number)
                (out if key in seen or number == 0 else seen).add(key)
    return out


def _give_parts(group: Group, rows: list[list[Any]]) -> None:
    """What a batch of sends and receives consists of, where the row of a call has its sizes."""
    known: dict[str, int] = {}
    for seq, batch in group.batches.items():
        parts = [
            [op, group.members[peer] if 0 <= peer < len(group.members) else peer] for op, peer in sorted(batch.parts)
        ]
        if batch.call is not None:
            batch.call["parts"] = parts
        if not parts or seq not in group.calls:
            continue
        made = ["coalesced", " ".join(f"{op}:{peer}" for op, peer in parts), "", batch.frames]
        row = known.setdefault(repr(made), len(rows))
        if row == len(rows) and row < ABSENT:
            rows.append(made)
        group.calls[seq] = row


def _numbered(tail: list[tuple[str, int]], names: list[str]) -> list[list[int]]:
    """Oldest first."""
    at = {name: n for n, name in enumerate(names)}
    return [[at[name], seq] for name, seq in reversed(tail) if name in at]


def _group_facts(
    group: Group, source: str, rank: int | None, world: int | None, version: str, backend: str, never: bool, cut: bool,
    rows: list[list[Any]],
) -> Iterator[Fact]:  # fmt: skip
    enqueued, completed, started = group.status or (None, None, None)
    collective = [c for c in group.open if not c["p2p"]]
    if group.p2p:  # one counter of the status serves both kinds of calls: the entries tell them apart
        enqueued = None if cut else group.last
        completed = None
    elif backend == "gloo" and group.last is not None and not cut:
        enqueued = group.last  # monitored_barrier counts in the status without an entry
    elif group.last is not None and not cut:
        enqueued = max(enqueued or 0, group.last)
    if enqueued is None and group.first is None and never and not cut:
        enqueued = completed = 0
    if collective and not cut:
        oldest = min(c["seq"] for c in collective if c["seq"] is not None) if any(
            c["seq"] is not None for c in collective
        ) else None  # fmt: skip
        if oldest is not None and (completed is None or completed >= oldest):
            completed = oldest - 1
    elif backend == "gloo" and not cut and completed is not None and group.retired == enqueued:
        completed = enqueued  # gloo's threads count late and out of order: the entry itself says that it is over
    elif completed is None and enqueued is not None and (group.first is not None or group.p2p) and not cut:
        completed = enqueued
    if enqueued is not None and completed is not None and completed > enqueued:
        completed = enqueued
    members = ranges(group.members)
    values: dict[str, Any] = {
        "group": group.name, "description": group.description, "members": members, "world": world,
        "first": group.first, "enqueued": enqueued, "completed": completed, "started": started, "version": version,
        "backend": backend, "by": "recorder", "outstanding": len(group.open), "p2p": group.p2p, "cut": cut,
    }  # fmt: skip
    if group.calls:
        start, end = min(group.calls), max(group.calls)
        if end - start < 4 * max(HISTORY, len(group.calls)):
            numbers = array("H", [group.calls.get(n, ABSENT) for n in range(start, end + 1)])
            values["start"] = start
            values["history"] = base64.b64encode(numbers.tobytes()).decode("ascii")
    yield Fact("progress", source, rank=rank, values=values)
    opened = sorted(group.open, key=lambda c: (c["record"] is None, c["record"], c["seq"]))
    for call in opened[:OLDEST]:
        row = rows[call["row"]] if call["row"] < len(rows) else ["", "", "", []]
        peer = call["peer"]
        if peer is not None:
            peer = group.members[peer] if peer < len(group.members) else None
        yield Fact(
            "call",
            source,
            line=(call["record"] or 0) + 1,
            rank=rank,
            values={
                "group": group.name, "description": group.description, "members": members,
                "seq": call["seq"], "op": call["op"], "sizes": row[1], "dtypes": row[2], "state": call["state"],
                "p2p": call["p2p"], "peer": peer, "frames": row[3], "created": call["created"],
                "record": call["record"], "timeout_ms": call["timeout_ms"], "parts": call.get("parts") or [],
                **({"root": call["root"]} if call["root"] is not None else {}),
            },
        )  # fmt: skip


def _call(entry: dict[str, Any], op: str, seq: int | None, row: int, p2p: bool) -> dict[str, Any]:
    return {
        "seq": _number(entry.get("p2p_seq_id")) if p2p else seq,
        "op": op,
        "row": row,
        "p2p": p2p,
        "state": _text(entry.get("state")),
        "record": _number(entry.get("record_id")),
        "created": _number(entry.get("time_created_ns")),
        "timeout_ms": _number(entry.get("timeout_ms")),
    }


def _acts_as_root(op: str, given: str, taken: str) -> bool | None:
    """Whether a rank gathers or scatters as the root: only the root gives the list that is scattered, or takes the one
    that is gathered. None: the call does not tell."""
    if op == "gather" and given not in ("", "[]"):
        return taken not in ("", "[]")
    if op == "scatter" and taken not in ("", "[]"):
        return given not in ("", "[]")
    return None


def _peer(profiling: str) -> int | None:
    """The other side, as rank in the group: "nccl:send 1->2", "nccl:recv 3<-0"."""
    found = _PEER.search(profiling)
    return int(found[3]) if found else None


def _give_status(
    groups: dict[str, Group], names: dict[int, str], status: dict[int, tuple[int | None, ...]], cut: bool
) -> bool:
    """`pg_status` goes by process-local numbers, `pg_config` by names: entries tell which is which. Where none does,
    both are in the order in which the groups were made (the names of `new_group` are a counter). Returns whether every
    number was given to a group."""
    by_name = {name: number for number, name in names.items()}
    numbered = sorted((g for g in groups if g.isdigit()), key=int)
    if len(numbered) == len(groups) == len(status):
        guess = dict(zip(numbered, sorted(status)))
        if all(guess.get(name) == number for name, number in by_name.items()):
            by_name = guess
    elif len(numbered) == len(groups) and status and max(status) < len(numbered) and not cut:
        # some were never used: no status; what is left of a cut dump may lack groups, too
        guess = dict(zip(numbered, range(len(numbered))))
        if all(guess.get(name) == number for name, number in by_name.items()):
            by_name = guess
    free = [name for name in groups if name not in by_name]
    left = [number for number in status if number not in by_name.values()]
    if len(free) == len(left) == 1:
        by_name[free[0]] = left[0]
    for name, number in by_name.items():
        if name in groups and number in status:
            values = status[number]
            groups[name].status = (values[0], values[1], values[2])
    return all(number in by_name.values() for number in status)


def _status(value: Any) -> dict[int, tuple[int | None, ...]]:
    out: dict[int, tuple[int | None, ...]] = {}
    if isinstance(value, dict):
        for key, row in list(value.items())[:10_000]:
            number = _number(key)
            if number is not None and isinstance(row, dict):
                out[number] = tuple(
                    _counter(row.get(f"last_{what}_collective")) for what in ("enqueued", "completed", "started")
                )
    return out


def _counter(value: Any) -> int | None:
    """-1 is "never"; an unsigned -1 was printed by some versions."""
    number = _number(value)
    if number is None or number > 1 << 40:
        return None
    return max(number, 0)


def _config(value: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    out: dict[str, tuple[str, tuple[int, ...]]] = {}
    if isinstance(value, dict):
        for key, row in list(value.items())[:10_000]:
            if isinstance(row, dict):
                name = _text(row.get("name", key))
                out[name] = (_text(row.get("desc", row.get("description"))), _members(row.get("ranks")))
    return out


def _members(value: Any) -> tuple[int, ...]:
    """A text "[0, 1, 2]", or a list."""
    if isinstance(value, str) and len(value) < 20 * MAX_MEMBERS:
        return _listed(value)
    if isinstance(value, list):
        return tuple(n for n in value[:MAX_MEMBERS] if isinstance(n, int))
    return ()


@lru_cache(64)
def _listed(text: str) -> tuple[int, ...]:
    """The group of all ranks is in every dump: read once, ten thousand dumps of ten thousand ranks stay linear."""
    return tuple(map(int, re.findall(r"\d{1,9}", text)))


def _world(groups: dict[str, Group], config: dict[str, tuple[str, tuple[int, ...]]]) -> int | None:
    """Size of the job: the group of all ranks. gloo writes its members under an empty name, or not at all."""
    for _, (description, members) in config.items():
        if members and (description == "default_pg" or not description) and members[0] == 0:
            return max(members) + 1
    return None


def _rank(source: str, groups: dict[str, Group], config: dict[str, tuple[str, tuple[int, ...]]]) -> int | None:
    """By the name of the file, unless the groups say that this rank is none of theirs; else by the groups."""
    from .recorder import rank_of_name

    named = rank_of_name(source)
    known = sorted((m for _, m in config.values() if m), key=len)
    if not known or (named is not None and all(named in m for m in known)):
        return named
    own = set(known[0]).intersection(*known[1:])
    return next(iter(own)) if len(own) == 1 else None if own else named


def _flat(value: Any) -> str:
    """Sizes as text; "" for what are no sizes: a list of lists of numbers, or of numbers."""
    if type(value) is not list or len(value) > 4096:
        return ""
    for part in value:
        if type(part) is list:
            if len(part) > 64:
                return ""
            for number in part:
                if type(number) is not int:
                    return ""
        elif type(part) is not int:
            return ""
    return str(value)[:400]


def _sizes(op: str, given: str, taken: str) -> str:
    """What members must agree on, as text; "" when sizes may differ."""
    which = SIZES.get(op)
    if which == "both":
        return given if given == taken or not taken else f"{given} to {taken}"
    return given if which == "input" else taken if which == "output" else ""


def _dtypes(entry: dict[str, Any]) -> str:
    value = entry.get("input_dtypes") or entry.get("output_dtypes")
    if not isinstance(value, (list, tuple)):
        return ""
    if len(value) == 1:
        return _text(value[0])
    return ", ".join(dict.fromkeys(_text(v) for v in value[:64]))


def _chain(value: Any) -> tuple[int, ...]:
    # frames are shared objects in a pickle: their identity is enough, and cheap
    return tuple(map(id, value[:64])) if isinstance(value, list) else ()


def _frames(value: Any) -> list[list[Any]]:
    out = []
    for frame in value[:64] if isinstance(value, list) else ():
        if isinstance(frame, dict):
            out.append([_text(frame.get("filename"), 400), _number(frame.get("line")) or 0, _text(frame.get("name"))])
    return out


def _text(value: Any, most: int = 200) -> str:
    if isinstance(value, str):
        return value[:most]
    return str(value) if isinstance(value, int) and -(10**18) < value < 10**18 else ""


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else None
    if isinstance(value, str) and len(value) < 21 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return None
