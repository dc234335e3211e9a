"""The folder that `torchvet run` keeps (src/torchvet/run/folder.py): what each rank and its wrapper wrote.

Recorder dumps, snapshots, traces and kernel lines in that folder have readers of their own; this one reads the rest.

Facts beside those of `evidence/__init__.py` (kind: values):

    beat            step, still (seconds without progress at the last beat; absent when it moved)      last sign of life
    graph-growth    path, line, function, live (autograd graphs alive at the last look), step          they only rose
    vanished        pid, step                                    the process ended without a last word
    run-signal      signal                                       the wrapper was told to end
"""

from __future__ import annotations

import json
import re

from torchvet.findings import Text

from ..files import Unreadable
from ..model import MEDIUM, STRONG, Fact
from .exits import loaded
from .reader import Reader
from .series import Series
from .tracebacks import is_victim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

LARGEST = 16 << 20
LONGEST_LINE = 1 << 20
_RANK = re.compile(r"(?:^|/)rank_(\d{1,7})/[^/]+$")
_QUIET = ("groups.json", "run.json", "dump-request", "trouble.txt")


def sniff(item: Item) -> float:
    base, head = item.base, item.head
    if base in READERS:
        return 0.97 if head[:1] == b"{" and any(mark in head for mark in MARKS[base]) else 0.0
    if base.startswith(("wrapper_", "launcher_")) and base.endswith((".jsonl", ".json")):
        return 0.97 if head.startswith((b'{"t":', b'{"t": ')) else 0.0
    if base in _QUIET:
        return 0.97 if _RANK.search(item.name) or b'"schema": 1' in head or head[:5] in (b'{"t":', b"") else 0.0
    if base in ("stacks.txt", "stacks_held.txt"):
        return 0.97 if _RANK.search(item.name.replace("!", "/")) else 0.0
    return 0.0


def read(item: Item) -> Iterator[Fact]:
    base = item.base
    if base in READERS:
        yield from READERS[base](item, _rank(item))
    elif base.startswith("wrapper_"):
        yield from _wrapper(item)
    elif base.startswith("launcher_"):
        yield from _launcher(item)
    elif base.startswith("stacks"):
        yield from _stacks(item)


def _rank(item: Item) -> int | None:
    found = _RANK.search(item.name.replace("!", "/"))
    return int(found[1]) if found else None


def _about(item: Item, rank: int | None) -> Iterator[Fact]:
    row = _object(item)
    rank = row["rank"] if isinstance(row.get("rank"), int) else rank
    environment = {str(k): str(v)[:500] for k, v in _dict(row.get("environment")).items()}
    if isinstance(row.get("world"), int):
        environment.setdefault("WORLD_SIZE", str(row["world"]))
    node = str(row.get("node") or "")
    text = " ".join(f"{k}={v}" for k, v in environment.items())[:300]
    yield Fact("env", item.name, 0, rank, text, values=environment)
    process: dict[str, Any] = {
        "pid": row.get("pid"),
        "node": node,
        "command": " ".join(map(str, row.get("argv") or ()))[:200],
    }
    if isinstance(row.get("local_rank"), int):
        process["local"] = row["local_rank"]
    yield Fact("process", item.name, 0, rank, process["command"], values=process)
    versions = {k: row[k] for k in ("torch", "cuda", "python", "hip") if row.get(k)}
    yield Fact("version", item.name, 0, rank, " ".join(f"{k} {v}" for k, v in versions.items()), values=versions)


def _beats(item: Item, rank: int | None) -> Iterator[Fact]:
    series: dict[str, Series] = {}
    last: dict[str, Any] = {}
    number = 0
    for number, row in _lines(item):
        step = row.get("step")
        moved = isinstance(step, int) and step > 0 and step != last.get("step")
        cuda = row.get("cuda")
        for name, value in (("rss", row.get("rss")), ("cuda", cuda[0] if isinstance(cuda, list) and cuda else None)):
            if moved and isinstance(step, int) and isinstance(value, (int, float)) and value > 0:
                series.setdefault(name, Series(name, "step", number)).add(step, float(value))
        last = row
    if not last:
        return
    when = last.get("t") if isinstance(last.get("t"), (int, float)) else None
    values: dict[str, Any] = {"step": last.get("step"), "by": "run"}
    if "still" in last:
        values["still"] = last["still"]
    yield Fact("beat", item.name, number, rank, json.dumps(last)[:300], when, values=values)
    if isinstance(last.get("step"), int) and last["step"] > 0:
        yield Fact("output", item.name, number, rank, time=when, values={"step": last["step"], "by": "run"})
    for one in series.values():
        if (found := one.values()) is not None:
            yield Fact("series", item.name, one.line, rank, f"{one.name} by step", values=found, quality=STRONG)


def _graphs(item: Item, rank: int | None) -> Iterator[Fact]:
    growing: dict[tuple[str, int], tuple[int, dict[str, Any], float | None]] = {}
    live: dict[tuple[str, int], int] = {}
    step = 0
    for number, row in _lines(item):
        if isinstance(row.get("live"), list):
            step = row["step"] if isinstance(row.get("step"), int) else step
            live = {
                (str(site[0]), site[1]): site[3]
                for site in row["live"]
                if isinstance(site, list) and len(site) == 4 and isinstance(site[3], int)
            }
        found = row.get("growing")
        if isinstance(found, dict) and isinstance(found.get("path"), str) and isinstance(found.get("line"), int):
            growing[found["path"], found["line"]] = (number, found, row.get("t"))
    for site, (number, found, when) in growing.items():
        said, at = found.get("live") or 0, found.get("step") or 0
        if step >= 4 * at > 0 and live.get(site, 0) < 1.25 * said:
            continue  # a window of kept losses: it filled, and stayed
        values = {k: found.get(k) for k in ("path", "line", "function", "live", "step")}
        values["live"] = max(live.get(site, 0), found.get("live") or 0)
        text = f"{values['live']:,} graphs alive from {site[0]}:{site[1]}"
        time = when if isinstance(when, (int, float)) else None
        yield Fact("graph-growth", item.name, number, rank, text[:300], time, values=values, quality=STRONG)


def _end(item: Item, rank: int | None) -> Iterator[Fact]:
    row = _object(item)
    code = row.get("code", 0 if row.get("how") == "end" else None)
    when = row.get("t") if isinstance(row.get("t"), (int, float)) else None
    if isinstance(code, int):
        values = {"code": code, "by": "recorded", "how": str(row.get("how"))}
        yield Fact("exit", item.name, 0, rank, f"{row.get('how')}: code {code}", when, values=values)


def _exception(item: Item, rank: int | None) -> Iterator[Fact]:
    row = _object(item)
    kind, message = str(row.get("type") or "")[:200], str(row.get("message") or "")[:1500]
    frames = [f for f in row.get("frames") or () if isinstance(f, list) and len(f) == 3][::-1]
    when = row.get("t") if isinstance(row.get("t"), (int, float)) else None
    values = {"type": kind, "message": message, "frames": frames, "victim": is_victim(kind, message), "recorded": True}
    yield Fact("exception", item.name, 0, rank, f"{kind}: {message}"[:300], when, values=values)


def _wrapper(item: Item) -> Iterator[Fact]:
    """What was seen from outside. Counters of the cgroup count from the container's start: only a rise tells."""
    kills: list[int] = []
    stopped: dict[int | None, Fact] = {}
    for number, row in _lines(item):
        when = row.get("t") if isinstance(row.get("t"), (int, float)) else None
        kind, rank = row.get("event"), row.get("rank") if isinstance(row.get("rank"), int) else None
        text = json.dumps(row)[:300]
        if isinstance(row.get("cgroup_oom_kill"), int):
            kills.append(row["cgroup_oom_kill"])
        if kind == "vanished":
            values = {"pid": row.get("pid"), "step": row.get("step")}
            yield Fact("vanished", item.name, number, rank, text, when, values=values)
        elif kind == "signal":
            yield Fact("run-signal", item.name, number, None, text, when, values={"signal": row.get("signal")})
        elif kind == "end" and isinstance(row.get("code"), int):
            values = {"code": row["code"], "by": "recorded", "name": "torchvet run"}
            yield Fact("launcher-exit", item.name, number, None, text, when, values=values)
            if kills and kills[-1] > kills[0]:
                rise: dict[str, Any] = {"oom_kill": kills[-1] - kills[0], "current": row.get("cgroup_used")}
                yield Fact("cgroup", item.name, number, None, text, when, values=rise, quality=STRONG)
        elif kind == "state":
            values = {"pid": row.get("pid"), "state": row.get("state"), "silent": row.get("silent")}
            fact = Fact("process", item.name, number, rank, text, when, values=values, quality=MEDIUM)
            stopped.pop(rank, None)
            silent = row.get("silent")
            if row.get("state") == "T":
                stopped[rank] = fact
            elif row.get("state") in ("R", "S") and isinstance(silent, (int, float)) and silent > 0:
                words = f"the recorder's thread did not get to run for {silent:g} s, and the process lived on"
                stopped[rank] = Fact(
                    "gil", item.name, number, rank, words, when, values={"seconds": silent, "outside": True}
                )
            elif row.get("state") == "D":
                yield fact
    yield from stopped.values()  # those that did not go on


def _launcher(item: Item) -> Iterator[Fact]:
    """torchelastic's list of failures, as the launcher's own process noted it."""
    row = _object(item)
    for number, failure in enumerate(row.get("failures") or (), 1):
        if not isinstance(failure, dict) or not isinstance(failure.get("code"), int):
            continue
        values = {"code": failure["code"], "by": "block", "pid": failure.get("pid"), "first": number == 1}
        if isinstance(failure.get("local_rank"), int):
            values["local"] = failure["local_rank"]
        when = failure.get("time") if isinstance(failure.get("time"), (int, float)) else None
        rank = failure.get("rank") if isinstance(failure.get("rank"), int) else None
        yield Fact("exit", item.name, 0, rank, json.dumps(failure)[:300], when, number, values)


READERS = {
    "about.json": _about, "beats.jsonl": _beats, "beats.jsonl.1": _beats, "graphs.jsonl": _graphs,
    "graphs.jsonl.1": _graphs, "end.json": _end, "exception.json": _exception,
}  # fmt: skip
MARKS = {
    "about.json": (b'"local_rank"', b'"monotonic"'), "beats.jsonl": (b'"m":',), "beats.jsonl.1": (b'"m":',),
    "graphs.jsonl": (b'"live"', b'"growing"'), "graphs.jsonl.1": (b'"live"', b'"growing"'), "end.json": (b'"how"',),
    "exception.json": (b'"frames"',),
}  # fmt: skip
"""What the first bytes of each file hold, so that files of other tools with these names are left alone."""


def _stacks(item: Item) -> Iterator[Fact]:
    """Stacks at a stall, on request, or when the process died: then the file says of what, too."""
    from . import logs, stacks

    yield from stacks.read(item)
    if b"Fatal Python error" in item.head:
        yield from (fact for fact in logs.read(item) if fact.kind == "crash")


def _object(item: Item) -> dict[str, Any]:
    value = loaded(item)
    if not isinstance(value, dict):
        raise Unreadable(Text("holds no object", "不含对象"))
    return value


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _lines(item: Item) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, object) of each whole line; the last one of a process that was killed may be cut."""
    with item.open() as f:
        number = read = 0
        while read < LARGEST and (line := f.readline(LONGEST_LINE)):
            read += len(line)
            number += 1
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield number, row


READER = Reader("run", sniff, read)
