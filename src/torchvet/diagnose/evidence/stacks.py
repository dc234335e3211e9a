# ruff: noqa: E501
"""Stacks of living processes: faulthandler, `py-spy dump`, `pystack`, and the pages of torch.distributed.debug."""

from __future__ import annotations

import re

from ..model import Fact
from .frames import frame_of
from .lines import blocks, clean, words
from .places import place_of
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item
    from .frames import Frame

# faulthandler: 'Thread 0x00007f... [name] (most recent call first):', newest threads first, the main thread last; of one
# thread alone 'Stack (most recent call first):'
_THREAD = re.compile(rb"^(?:(Current )?[Tt]hread (0x[0-9a-fA-F]+)(?: \[([^\]]*)\])?|Stack) \(most recent call first\):")
# py-spy: 'Process 4021: python train.py', 'Thread 4021 (idle): "MainThread"', '    all_reduce (torch/distributed/...py:2501)'
_PROCESS = re.compile(rb"^Process (\d+): ?(.*)$")
_SPY_THREAD = re.compile(rb'^Thread (\d+|0x[0-9a-fA-F]+) \(([^)]*)\)(?:: "(.*)")?')
_SPY_FRAME = re.compile(rb"^ {4,}(.+?) \((.+):(\d+)\)\s*$")
# pystack: 'Traceback for thread 4021 (python) [Has the GIL] (most recent call last):', '    (Python) File "x.py", line 3, in f'
_PYSTACK = re.compile(rb"^Traceback for thread (\d+) \(([^)]*)\) \[([^\]]*)\] \(most recent call last\):")
_RANK_HEAD = re.compile(rb"(?i)^[=#\-\s*]*(?:global )?rank[ :=]*(\d{1,6})\b[\s:=#\-*]*$")
MOST_THREADS = 512


class _Stacks:
    """Threads of one process while its lines arrive."""

    def __init__(self, rank: int | None) -> None:
        self.rank = rank
        self.pid: int | None = None
        self.command = ""
        self.threads: list[tuple[str, str, list[Frame]]] = []  # (name, state, frames innermost first)
        self.spy = False
        self.last_first = False  # pystack: outermost frame first
        self.line = 0

    def main(self) -> tuple[str, list[Frame]] | None:
        """The main thread: by name (py-spy), by its outermost frame <module>, else the last (faulthandler)."""
        for name, state, frames in self.threads:
            if name == "MainThread":
                return state, frames
        for _, state, frames in reversed(self.threads):
            if frames and frames[-1][2] == "<module>" and not frames[-1][0].endswith("threading.py"):
                return state, frames
        if self.threads and not self.spy:
            return self.threads[-1][1], self.threads[-1][2]
        return (self.threads[0][1], self.threads[0][2]) if self.threads else None

    def fact(self, source: str, order: int) -> Fact | None:
        main = self.main()
        if main is None:
            return None
        values: dict[str, Any] = {"threads": [[n, f[:40]] for n, _, f in self.threads[:64]], "main": main[1][:80]}
        if self.pid is not None:
            values["pid"] = self.pid
        if main[0]:
            values["state"] = main[0]
        if self.command:
            values["command"] = self.command
        top = main[1][0] if main[1] else ["", 0, ""]
        text = f"{top[2]} ({top[0]}:{top[1]})" if main[1] else ""
        return Fact("stack", source, self.line, self.rank, words(text.encode()), None, order, values)


def read(item: Item) -> Iterator[Fact]:
    """One `stack` fact for each process of the file."""
    rank = place_of(item.name).rank
    current = _Stacks(rank)
    order = 0
    for number, lines in blocks(item):
        for at, raw in enumerate(lines):
            line = clean(raw)
            if (process := _PROCESS.match(line)) or (head := _RANK_HEAD.match(line)):
                order += 1
                if (fact := current.fact(item.name, order)) is not None:
                    yield fact
                if process:
                    keep = current.rank if not current.threads else rank
                    current = _Stacks(keep)
                    current.pid, current.command = int(process.group(1)), words(process.group(2), 200)
                else:
                    assert head is not None
                    current = _Stacks(int(head.group(1)))
                current.line = number + at
            elif found := _THREAD.match(line):
                if len(current.threads) < MOST_THREADS:
                    name = words(found.group(3) or b"", 80)
                    current.threads.append((name, "", []))
                current.line = current.line or number + at
            elif found := _SPY_THREAD.match(line):
                current.spy = True
                if len(current.threads) < MOST_THREADS:
                    current.threads.append((words(found.group(3) or b"", 80), words(found.group(2), 40), []))
                current.line = current.line or number + at
            elif found := _PYSTACK.match(line):
                current.last_first = True
                if len(current.threads) < MOST_THREADS:
                    state = "active+gil" if b"Has the GIL" in found.group(3) else words(found.group(3), 40)
                    current.threads.append(("", state, []))
                current.line = current.line or number + at
            elif current.threads and len(current.threads[-1][2]) < 400:
                frame = frame_of(line.lstrip()[9:] if current.last_first and b"(Python) File" in line else line)
                if frame is not None and current.last_first:
                    current.threads[-1][2].insert(0, frame)
                    continue
                if frame is None and current.spy and (found := _SPY_FRAME.match(line)):
                    frame = [words(found.group(2), 1000), int(found.group(3)[:9]), words(found.group(1), 200)]
                if frame is not None:
                    current.threads[-1][2].append(frame)
    if (fact := current.fact(item.name, order + 1)) is not None:
        yield fact


def sniff(item: Item) -> float:
    head = item.head
    if _THREAD.search(head[:400]) or re.search(
        rb"(?m)^(?:(?:Current )?[Tt]hread 0x[0-9a-f]+|Stack) \(most recent call first", head[:1200]
    ):
        return 0.3 if b"Fatal Python error" in head or b"Traceback" in head else 0.85
    if re.search(rb"(?m)^Traceback for thread \d+ \(", head):
        return 0.85
    if re.search(rb"(?m)^Process \d+: ", head) and re.search(rb"(?m)^Thread (?:\d+|0x\w+) \(", head):
        return 0.9
    return 0.0


READER = Reader("stacks", sniff, read)
