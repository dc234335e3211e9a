"""Memory snapshots of the CUDA allocator (`torch.cuda.memory._dump_snapshot`): who holds GPU memory, and what grows.

The file is a pickle of plain values (`torch/cuda/memory.py`, `_memory_viz.py`); it is read without executing anything.

Facts (kind: values; sizes in bytes):

    snapshot        device, reserved, allocated, inactive (free inside segments that are in use: what fragmentation
                    costs), largest (largest such free block), segments, events, stacks (were any recorded), oom (size
                    that was refused last, with `free`: what the device still had), private (reserved by graphs' pools)
    snapshot-site   device, bytes, blocks, share (of what is allocated), path, line, function, frames (the program's
                    own, innermost first), grows (share of the recorded time in which its memory rose; None without
                    events), grew (bytes since the first event), events
                    the places that hold most, and those whose memory grew most, at most `MOST_SITES` a device
"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..files import Item, Unreadable
from ..model import MEDIUM, STRONG, Fact
from ..sites import user_frames
from .reader import Reader
from .recorder import rank_of_name
from .safe_pickle import Cut, Refused, load, rescue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Frames = tuple[tuple[str, int, str], ...]

LARGEST = 512 * 1024 * 1024
MOST_SITES = 6
SAMPLES = 16
DEEPEST = 8
INSIDE = ("active_allocated", "active_awaiting_free", "active_pending_free")


def sniff(item: Item) -> float:
    head = item.head[:512]
    told = b"segments" in head or b"device_traces" in head or (b"total_size" in head and b"segment_type" in head)
    return 0.95 if head[:1] == b"\x80" and told else 0.0


def read(item: Item) -> Iterator[Fact]:
    snapshot = _loaded(item)
    rank = _rank(item.name)
    segments = snapshot.get("segments")
    traces = snapshot.get("device_traces")
    if not isinstance(segments, (list, tuple)):
        raise Unreadable(Text("holds no list of segments", "没有内存段列表"))
    by_device: dict[int, list[dict[str, Any]]] = {}
    for segment in segments:
        if isinstance(segment, dict):
            by_device.setdefault(_int(segment.get("device")), []).append(segment)
    events = [t for t in traces if isinstance(t, (list, tuple))] if isinstance(traces, (list, tuple)) else []
    for device in sorted(set(by_device) | {i for i, rows in enumerate(events) if rows}):
        rows = events[device] if device < len(events) else []
        yield from _device(item, rank, device, by_device.get(device, []), rows)


def _rank(name: str) -> int | None:
    """A number at the end of the name is a rank only where the name holds no other: people also write steps, dates and
    times there ("node-a_Jun_11_08_15_00.pickle", "iteration_40.pickle")."""
    if told := re.findall(r"(?i)rank[._-]?(\d{1,7})", name):
        return int(told[-1])
    base = name.replace("!", "/").rpartition("/")[2]
    return None if _NO_RANK.search(base) or len(re.findall(r"\d+", base)) > 1 else rank_of_name(name)


_NO_RANK = re.compile(r"(?i)step|iter|epoch|\d{5}")


def _loaded(item: Item) -> dict[str, Any]:
    data = item.whole(LARGEST)
    try:
        value = load(data)
    except Cut:
        value = _rescued(data)
    except Refused as e:
        if "tuples" not in str(
            e
        ):  # each event has a tuple (its pool): many are no attack, but they are not hashed then
            raise Unreadable(Text("is not read: {why}", "未读取：{why}", why=str(e))) from None
        value = _rescued(data)
    if isinstance(value, list):  # torch.cuda.memory_snapshot(): the segments alone
        return {"segments": value}
    if not isinstance(value, dict):
        raise Unreadable(Text("is no memory snapshot", "不是内存快照"))
    return value


def _rescued(data: bytes) -> Any:
    try:
        return rescue(data)
    except Refused as e:
        raise Unreadable(Text("is not read: {why}", "未读取：{why}", why=str(e))) from None


def _device(item: Item, rank: int | None, device: int, segments: list[dict[str, Any]], events: Any) -> Iterator[Fact]:
    reserved = allocated = inactive = largest = private = 0
    held: dict[Frames, list[int]] = {}
    stacks = False
    for segment in segments:
        size = _int(segment.get("total_size"))
        reserved += size
        pool = segment.get("segment_pool_id")
        if isinstance(pool, (tuple, list)) and any(pool):
            private += size
        blocks = [b for b in segment.get("blocks") or () if isinstance(b, dict)]
        in_use = any(b.get("state") in INSIDE for b in blocks)
        for block in blocks:
            size = _int(block.get("size"))
            if block.get("state") not in INSIDE:
                if in_use:
                    inactive += size
                    largest = max(largest, size)
                continue
            allocated += size
            frames = _frames(block.get("frames") or _legacy(block))
            stacks = stacks or bool(frames)
            row = held.setdefault(frames, [0, 0])
            row[0] += size
            row[1] += 1
    growth = Growth(events)
    values: dict[str, Any] = {
        "device": device, "reserved": reserved, "allocated": allocated, "inactive": inactive, "largest": largest,
        "segments": len(segments), "events": growth.events, "stacks": stacks or growth.stacks, "private": private,
    }  # fmt: skip
    if growth.oom is not None:
        values["oom"], values["free"] = growth.oom
    yield Fact("snapshot", item.name, 0, rank, values=values, quality=STRONG)
    yield from _sites(item, rank, device, allocated, held, growth)


def _sites(
    item: Item, rank: int | None, device: int, allocated: int, held: dict[Frames, list[int]], growth: Growth
) -> Iterator[Fact]:
    by_size = sorted((f for f in held if f), key=lambda f: -held[f][0])[:MOST_SITES]
    by_growth = [f for f in growth.most() if f not in by_size]
    for number, frames in enumerate([*by_size, *by_growth][: 2 * MOST_SITES], 1):
        size, blocks = held.get(frames, [growth.now(frames), 0])
        own = user_frames(frames, DEEPEST) or [list(f) for f in frames[:DEEPEST]]
        path, line, function = own[0]
        share = round(size / allocated, 3) if allocated else 0.0
        values = {
            "device": device, "bytes": size, "blocks": blocks, "share": share,
            "path": path, "line": line, "function": function, "frames": own, "grows": growth.share(frames),
            "grew": growth.grew(frames), "events": growth.count(frames),
        }  # fmt: skip
        text = f"{size:,} bytes in {blocks:,} blocks from {path}:{line} {function}"[:300]
        yield Fact("snapshot-site", item.name, number, rank, text, values=values, quality=MEDIUM)


class Growth:
    """What the events say: bytes of each place over the recorded time, at `SAMPLES` moments."""

    def __init__(self, events: Any) -> None:
        self.events = len(events) if isinstance(events, (list, tuple)) else 0
        self.stacks = False
        self.oom: tuple[int, int] | None = None
        self.live: dict[Frames, int] = {}
        self.allocations: dict[Frames, int] = {}
        self.samples: list[dict[Frames, int]] = []
        where: dict[int, tuple[Frames, int]] = {}
        every = max(1, self.events // SAMPLES)
        known: dict[int, Frames] = {}
        for number, event in enumerate(events if self.events else (), 1):
            if isinstance(event, dict):
                self._event(event, where, known)
            if number % every == 0:
                self.samples.append(dict(self.live))

    def _event(self, event: dict[str, Any], where: dict[int, tuple[Frames, int]], known: dict[int, Frames]) -> None:
        action = event.get("action")
        address, size = _int(event.get("addr")), _int(event.get("size"))
        if action == "alloc":
            raw = event.get("frames")
            frames = known.get(id(raw))
            if frames is None:
                frames = known[id(raw)] = _frames(raw)
            self.stacks = self.stacks or bool(frames)
            where[address] = (frames, size)
            self.live[frames] = self.live.get(frames, 0) + size
            self.allocations[frames] = self.allocations.get(frames, 0) + 1
        elif action == "free_completed":
            frames, size = where.pop(address, ((), 0))
            if size:
                self.live[frames] -= size
        elif action == "oom":
            self.oom = (size, _int(event.get("device_free")))

    def most(self) -> list[Frames]:
        """Places whose memory rises most of the time, the largest growth first."""
        rising = [f for f in self.live if f and self.grew(f) > 0 and (self.share(f) or 0.0) >= 0.6]
        return sorted(rising, key=lambda f: -self.grew(f))[:MOST_SITES]

    def now(self, frames: Frames) -> int:
        return self.live.get(frames, 0)

    def count(self, frames: Frames) -> int:
        return self.allocations.get(frames, 0)

    def grew(self, frames: Frames) -> int:
        return self.live.get(frames, 0) - (self.samples[0].get(frames, 0) if self.samples else 0)

    def share(self, frames: Frames) -> float | None:
        """Share of the samples in which the place held more than in the one before."""
        if len(self.samples) < 4:
            return None
        row = [s.get(frames, 0) for s in self.samples]
        return round(sum(row[i] < row[i + 1] for i in range(len(row) - 1)) / (len(row) - 1), 2)


def _legacy(block: dict[str, Any]) -> Any:
    """Before torch 2.1 a block had a history instead of frames (`_memory_viz._block_extra_legacy`)."""
    history = block.get("history")
    if isinstance(history, (list, tuple)) and history and isinstance(history[0], dict):
        return history[0].get("frames")
    return None


_IN_NAME = re.compile(r"(\S[^()]{0,300}\.py)\((\d{1,9})\): (.+)")


def _frames(raw: Any) -> Frames:
    out = []
    for frame in raw if isinstance(raw, (list, tuple)) else ():
        if isinstance(frame, dict):
            path, name = str(frame.get("filename") or "")[:300], str(frame.get("name") or "")[:120]
            line = _int(frame.get("line"))
            if path == "none" and (found := _IN_NAME.match(name)):  # made of a profile: all of it stands in the name
                path, line, name = found.group(1), int(found.group(2)), found.group(3)
            if path not in ("", "??", "none"):
                out.append((path, line, name))
                if len(out) == 40:
                    break
    return tuple(out)


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) < value < 1 << 64 else 0


READER = Reader("snapshot", sniff, read)
