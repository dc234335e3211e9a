"""Traces of torch.profiler (Chrome trace JSON, Kineto): how much of a step waits for data or for other ranks.

A job that hangs seldom leaves one; what a trace shows made a job slow, it did not stop it. Events are decoded one at a
time, so memory stays small; of a larger file the first `LARGEST` bytes are read.

Facts (kind: values; times in milliseconds):

    trace           steps, step_ms (mean), span_ms, data_ms (the main thread inside the loader's __next__), comm_ms
                    (kernels of NCCL or RCCL), exposed_ms (those while no other kernel ran), busy_ms (other kernels),
                    world, backend, host
"""

from __future__ import annotations

import codecs
import json
import re

from torchvet.findings import Text

from ..files import Item, Unreadable, spoken_size
from ..model import STRONG, Fact
from .reader import Reader
from .recorder import rank_of_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    Interval = tuple[float, float]

LARGEST = 512 * 1024 * 1024
CHUNK = 4 * 1024 * 1024
LONGEST_EVENT = 8 * 1024 * 1024
LONGEST_TAIL = 100_000
MOST_KERNELS = 4_000_000
LOADER = "enumerate(DataLoader)#"
"""How torch/utils/data/dataloader.py names its `__next__` for the profiler."""
STEP = "ProfilerStep#"
COMMUNICATION = ("nccl", "rccl", "msccl")
"""Beginnings of kernel names: ncclDevKernel_AllReduce_..., ncclKernel_..., mscclKernel..."""

_BETWEEN = re.compile(r'\}\s{0,40},\s{0,40}\{\s{0,40}"(?:ph|name|cat|ts|pid|args)"')


def sniff(item: Item) -> float:
    head = item.head.lstrip()
    if head[:1] not in (b"{", b"["):
        return 0.0
    if b'"schemaVersion"' in head and (b'"deviceProperties"' in head or b'"traceEvents"' in head):
        return 0.95
    if b'"traceEvents"' in head:
        return 0.9
    name = item.base.lower()
    return 0.7 if (".trace" in name or "trace." in name) and b'"ph"' in head else 0.0


def read(item: Item) -> Iterator[Fact]:
    found = Trace()
    problem = ""
    with item.open() as f:
        reader = Events(f)
        try:
            for event in reader:
                found.event(event)
        except ValueError as e:
            problem = str(e)[:100]
    found.information(reader.header)
    if found.rank is None:  # traces taken on demand tell it behind the events
        found.information(reader.rest)
    if found.count:
        rank = found.rank if found.rank is not None else rank_of_name(item.name)
        yield Fact("trace", item.name, 0, rank, values=found.values(), quality=STRONG)
    if problem or not found.count:
        raise Unreadable(Text("is cut off or broken: {why}", "被截断或已损坏：{why}", why=problem or "no events"))
    if reader.over:
        raise Unreadable(Text("has {size}: the first {most} are read", "大小为 {size}：只读取了前 {most}",
                              size=spoken_size(item.size), most=spoken_size(LARGEST)))  # fmt: skip


class Events:
    """The objects of the list of events, decoded one by one. ValueError: the text breaks off. `header`: what stands
    before the list, `rest` what stands behind it; `over`: the file is longer than what is read."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.buffer = ""
        self.header = ""
        self.rest = ""
        self.taken = 0
        self.over = False

    def more(self) -> bool:
        data = self.stream.read(CHUNK) if self.taken < LARGEST else b""
        self.over = self.taken >= LARGEST
        self.taken += len(data)
        self.buffer += self.decode(data)
        return bool(data)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.more()
        while (at := self._start()) < 0:
            if len(self.buffer) > 4 * CHUNK or not self.more():
                raise ValueError("no list of events")
        self.header, self.buffer = self.buffer[:at], self.buffer[at:]
        decoder = json.JSONDecoder()
        at = 0
        while True:
            if at == 0:
                many, at = self._batch()
                yield from many
            while at < len(self.buffer) and self.buffer[at] in " \t\r\n,":
                at += 1
            if at < len(self.buffer) and self.buffer[at] == "]":
                while len(self.buffer) - at < LONGEST_TAIL and self.more():
                    pass
                self.rest = self.buffer[at : at + LONGEST_EVENT]
                return
            try:
                if at >= len(self.buffer):
                    raise ValueError("the list does not end")
                event, at = decoder.raw_decode(self.buffer, at)
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            except ValueError:
                self.buffer, at = self.buffer[at:], 0
                if len(self.buffer) > LONGEST_EVENT:
                    raise ValueError("an event does not end") from None
                if not self.more():
                    if self.over:
                        return
                    raise
                continue
            if isinstance(event, dict):
                yield event
            if at > CHUNK:
                self.buffer, at = self.buffer[at:], 0

    def _batch(self) -> tuple[list[dict[str, Any]], int]:
        """(all events of the buffer but the last, where that one begins), decoded at once: ten times faster than one by
        one. ([], 0) when the cut does not fall between two events."""
        tail = max(0, len(self.buffer) - LONGEST_TAIL)
        cut = next((m.start() + 1 for m in reversed(list(_BETWEEN.finditer(self.buffer, tail)))), 0)
        if not cut:
            return [], 0
        try:
            rows = json.loads(f"[{self.buffer[:cut].lstrip().lstrip(',')}]")
        except (ValueError, RecursionError):
            return [], 0
        return [r for r in rows if isinstance(r, dict)], cut

    def _start(self) -> int:
        """Where the first event may begin, -1 when it is not here yet."""
        if self.buffer.lstrip()[:1] == "[":
            return self.buffer.index("[") + 1
        found = self.buffer.find('"traceEvents"')
        return self.buffer.find("[", found) + 1 or -1 if found >= 0 else -1


class Trace:
    """What the events add up to; times in microseconds."""

    def __init__(self) -> None:
        self.count = 0
        self.rank: int | None = None
        self.world: int | None = None
        self.backend = ""
        self.steps: list[Interval] = []
        self.data: list[Interval] = []
        self.communication: list[Interval] = []
        self.work: list[Interval] = []
        self.first, self.last = float("inf"), float("-inf")

    def event(self, event: dict[str, Any]) -> None:
        self.count += 1
        if event.get("ph") != "X":
            return
        start, length = event.get("ts"), event.get("dur")
        if not isinstance(start, (int, float)) or not isinstance(length, (int, float)) or length < 0:
            if not isinstance(start, str):
                return
            try:  # some exporters write numbers as text
                start, length = float(start), float(length or 0.0)
            except (TypeError, ValueError):
                return
        name, category = event.get("name"), event.get("cat")
        if not isinstance(name, str):
            return
        if name.startswith(("PyTorch Profiler", "Iteration Start")):
            return
        span = (float(start), float(start + length))
        if name.startswith(STEP) and category != "gpu_user_annotation":
            self.steps.append(span)
        elif name.startswith(LOADER):
            self.data.append(span)
        elif category == "kernel" and len(self.communication) + len(self.work) < MOST_KERNELS:
            (self.communication if name.lower().startswith(COMMUNICATION) else self.work).append(span)
        self.first, self.last = min(self.first, span[0]), max(self.last, span[1])

    def information(self, header: str) -> None:
        """`distributedInfo` of the header: kineto/libkineto/src/output_json.cpp."""
        at = header.find('"distributedInfo"')
        if at < 0:
            return
        try:
            row, _ = json.JSONDecoder().raw_decode(header, header.index("{", at))
        except (ValueError, RecursionError):
            return
        if isinstance(row, dict):
            self.rank = row.get("rank") if isinstance(row.get("rank"), int) else None
            self.world = row.get("world_size") if isinstance(row.get("world_size"), int) else None
            self.backend = str(row.get("backend") or "")

    def values(self) -> dict[str, Any]:
        if self.steps:  # the profiler writes some events before and after the steps that it records
            first, last = min(s[0] for s in self.steps), max(s[1] for s in self.steps)
        else:
            first, last = self.first, self.last
        span = max(0.0, last - first) if last > first else 0.0
        communication = merged(clipped(self.communication, first, last))
        work = merged(clipped(self.work, first, last))
        both = total(communication) + total(work) - total(merged([*communication, *work]))
        out: dict[str, Any] = {
            "steps": len(self.steps),
            "step_ms": _ms(sum(b - a for a, b in self.steps) / len(self.steps)) if self.steps else None,
            "span_ms": _ms(span),
            "data_ms": _ms(total(merged(clipped(self.data, first, last)))),
            "comm_ms": _ms(total(communication)),
            "exposed_ms": _ms(total(communication) - both),
            "busy_ms": _ms(total(work)),
        }
        if self.world is not None:
            out["world"] = self.world
        if self.backend:
            out["backend"] = self.backend
        return out


def clipped(rows: list[Interval], first: float, last: float) -> list[Interval]:
    return [(max(a, first), min(b, last)) for a, b in rows if b > first and a < last]


def merged(rows: list[Interval]) -> list[Interval]:
    """Intervals without overlaps, in order."""
    out: list[list[float]] = []
    for a, b in sorted(rows):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return [(a, b) for a, b in out]


def total(rows: list[Interval]) -> float:
    return sum(b - a for a, b in rows)


def _ms(microseconds: float) -> float:
    return round(microseconds / 1000, 3)


READER = Reader("trace", sniff, read)
