"""Space and memory of a machine as tools print it: df, free, /proc/meminfo, cgroup counters."""

from __future__ import annotations

import re

from ..model import Fact
from .lines import blocks, clean, words
from .patterns import size_of
from .places import place_of
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

_DF_HEAD = re.compile(rb"^Filesystem\s+(?:Type\s+)?(1K-blocks|1024-blocks|1M-blocks|512-blocks|Size|Inodes)\s")
_DF_ROW = re.compile(
    rb"^(?:\S+\s+)?(?:[a-z][\w.]*\s+)?([\d.]+[KMGTP]?i?B?)\s+([\d.]+[KMGTP]?i?B?)\s+([\d.]+[KMGTP]?i?B?|-)\s+(\d+%|-)\s+(/\S*.*)$"
)
_FREE_HEAD = re.compile(rb"^\s+total\s+used\s+free")
_FREE_ROW = re.compile(rb"^(Mem|Swap):\s+(.*)$")
_MEMINFO = re.compile(
    rb"^(MemTotal|MemFree|MemAvailable|Shmem|SwapFree|SwapTotal|Committed_AS|CommitLimit):\s+(\d+) kB"
)
_NAMES = {b"MemTotal": "total", b"MemFree": "free", b"MemAvailable": "available", b"Shmem": "shared"}
_EVENTS = re.compile(rb"^(low|high|max|oom|oom_kill|oom_group_kill|failcnt|under_oom) (\d+)$")
_UNITS = {b"1K-blocks": 1024, b"1024-blocks": 1024, b"1M-blocks": 1 << 20, b"512-blocks": 512}


def read(item: Item) -> Iterator[Fact]:
    """`space`, `memory` and `cgroup` facts."""
    node = place_of(item.name).node
    unit: int | None = None
    kind = ""
    order = 0
    memory: dict[str, Any] = {}
    events: dict[str, Any] = {}
    free_names: list[bytes] = []
    for number, lines in blocks(item):
        for at, raw in enumerate(lines[:100_000]):
            line = clean(raw)
            order += 1
            if head := _DF_HEAD.match(line):
                kind, unit = ("inodes" if head.group(1) == b"Inodes" else "df"), _UNITS.get(head.group(1))
            elif kind and (row := _DF_ROW.match(line)):
                sizes = [_amount(x, unit, kind) for x in row.groups()[:3]]
                percent = row.group(4).rstrip(b"%")
                values: dict[str, Any] = {
                    "path": words(row.group(5), 500), "size": sizes[0], "used": sizes[1], "free": sizes[2],
                    "percent": int(percent) if percent.isdigit() else None, "by": kind,
                }  # fmt: skip
                if node:
                    values["node"] = node
                yield Fact("space", item.name, number + at, None, words(line), None, order, values)
            elif _FREE_HEAD.match(line):
                free_names = line.split()
            elif free_names and (row := _FREE_ROW.match(line)):
                factor = 1024
                for name, value in zip(free_names, row.group(2).split(), strict=False):
                    text = value.decode("ascii", "replace")
                    size = int(text) * factor if text.isdigit() else size_of(text)
                    if row.group(1) == b"Mem":
                        memory[name.decode("ascii", "replace").replace("buff/cache", "cache")] = size
                    else:
                        memory["swap_" + name.decode("ascii", "replace")] = size
            elif row := _MEMINFO.match(line):
                memory[_NAMES.get(row.group(1), row.group(1).decode())] = int(row.group(2)) * 1024
            elif row := _EVENTS.match(line):
                events[row.group(1).decode()] = int(row.group(2)[:18])
    if node:
        memory = memory and {**memory, "node": node}
    if memory:
        yield Fact("memory", item.name, 1, None, "", None, order + 1, memory)
    if "oom_kill" in events or "oom" in events:
        yield Fact("cgroup", item.name, 1, None, words(str(events).encode()), None, order + 2, events)


def _amount(raw: bytes, unit: int | None, kind: str) -> int | None:
    text = raw.decode("ascii", "replace")
    if text == "-":
        return None
    if kind == "inodes" or unit is not None:
        return int(float(text)) * (unit or 1) if text.replace(".", "", 1).isdigit() else size_of(text)
    return size_of(text)


def sniff(item: Item) -> float:
    head = item.head[:1500]
    first = head.split(b"\n")[0]
    if _DF_HEAD.match(first) or re.search(
        rb"(?m)^Filesystem\s+(?:Type\s+)?(?:1K-blocks|1024-blocks|Size|Inodes)\s", head
    ):
        return 0.85
    if _FREE_HEAD.match(first) or first.startswith(b"MemTotal:"):
        return 0.85
    if item.base.startswith("memory.events") or re.match(rb"low \d+\nhigh \d+\nmax \d+\noom", head):
        return 0.9
    return 0.0


READER = Reader("space", sniff, read)
