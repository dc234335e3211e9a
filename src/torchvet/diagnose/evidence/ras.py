"""The report of NCCL's `ncclras` client: which ranks of a communicator are behind, and which do not answer.

Counters differ for a moment in a healthy job as well: one report is a hint (NCCL, src/ras/client_support.cc).
"""

from __future__ import annotations

import re

from ..model import MEDIUM, Fact
from .lines import blocks, clean, words
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..files import Item

_HEAD = re.compile(rb"^#(\d+)-(\d+) \(([0-9a-f]{16})\) (MISMATCH|INCOMPLETE)|^(INCOMPLETE)\s*$")
_COUNT = re.compile(rb"^\s+(?:(\d+) ranks? (?:has|have)|Rank (\d+) has) launched up to operation (\d+)")
_RANK = re.compile(rb"^\s+Rank (\d+) -- GPU \d+ managed by process (\d+) on node (\S+)")
_TOTAL = re.compile(rb"^\s+\d+\s+\d+\s+\d+\s+(\d+)\s+(\d+)\s*$")
MOST = 65536


class _Section:
    def __init__(self, kind: str, name: str, line: int) -> None:
        self.kind, self.name, self.line = kind, name, line
        self.counts: list[tuple[int, int]] = []  # (ranks, operation)
        self.listed: list[tuple[int, int | None]] = []  # (rank, operation)

    def fact(self, source: str, order: int, total: int) -> Fact | None:
        size = sum(n for n, _ in self.counts)
        if self.kind == "INCOMPLETE":
            ranks = sorted({r for r, _ in self.listed if r < (total or MOST)})
            seq = None
        else:
            if len(self.counts) < 2 or (total and size != total):
                return None
            least, seq = min(op for _, op in self.counts), max(op for _, op in self.counts)
            ranks = sorted({r for r, op in self.listed if op == least})
            ahead = {r for r, op in self.listed if op is not None and op > least}
            if not ranks and ahead and sum(n for n, op in self.counts if op > least) == len(ahead) and size <= MOST:
                ranks = [r for r in range(size) if r not in ahead]
        if not ranks:
            return None
        text = words(f"{self.name} {self.kind}: ranks {ranks[:20]}".encode())
        values = {"by": "ras", "ranks": ranks[:MOST], "seq": seq, "world": total or size}
        return Fact("absent", source, self.line, None, text, None, order, values, MEDIUM)


def read(item: Item) -> Iterator[Fact]:
    """`absent` facts: ranks that launched less than the others, or that no process answers for."""
    section: _Section | None = None
    total = order = 0
    for number, lines in blocks(item):
        for at, raw in enumerate(lines):
            line = clean(raw)
            if found := _HEAD.match(line):
                order += 1
                if section and (fact := section.fact(item.name, order, total)):
                    yield fact
                kind = (found.group(4) or found.group(5)).decode()
                name = f"#{found.group(1).decode()}-{found.group(2).decode()}" if found.group(1) else "job"
                section = _Section(kind, name, number + at)
            elif section is None:
                if not total and (found := _TOTAL.match(line)):
                    total = int(found.group(2)[:6])
            elif (found := _COUNT.match(line)) and len(section.counts) < 4096:
                operation = int(found.group(3)[:18])
                if found.group(2):
                    section.counts.append((1, operation))
                    section.listed.append((int(found.group(2)[:7]), operation))
                else:
                    section.counts.append((int(found.group(1)[:7]), operation))
            elif (found := _RANK.match(line)) and len(section.listed) < MOST:
                # the ranks listed are those of the count before them
                section.listed.append((int(found.group(1)[:10]), section.counts[-1][1] if section.counts else None))
    if section and (fact := section.fact(item.name, order + 1, total)):
        yield fact


def sniff(item: Item) -> float:
    head = item.head
    return 0.9 if b"Communicators..." in head and b"Job summary" in head else 0.0


READER = Reader("nccl-ras", sniff, read)
