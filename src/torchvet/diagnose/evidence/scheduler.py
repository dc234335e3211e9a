# ruff: noqa: E501
"""What a scheduler recorded: sacct tables, `scontrol show job`."""

from __future__ import annotations

import re

from ..model import MEDIUM, Fact
from .lines import blocks, clean, words
from .patterns import size_of
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

STATES = {
    "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "CANCELLED", "FAILED", "COMPLETED", "BOOT_FAIL", "DEADLINE", "RUNNING",
    "REQUEUED", "REVOKED", "SUSPENDED",
}  # fmt: skip
_FIELD = re.compile(
    rb"\b(JobId|JobState|Reason|ExitCode|RunTime|TimeLimit|NodeList|BatchHost|Restarts|EndTime|StartTime|PreemptTime|MinMemoryNode|NumNodes|NumTasks)=(\S+)"
)


def _row(names: list[str], cells: list[str]) -> dict[str, Any]:
    found = {n: c for n, c in zip(names, cells, strict=False) if c}
    out: dict[str, Any] = {"by": "slurm"}
    state = found.get("State", "")
    out["state"] = state.split(" ")[0].rstrip("+") if state else ""
    if " by " in state:
        out["cancelled_by"] = state.partition(" by ")[2]
    for ours, theirs in (
        ("job", "JobID"), ("elapsed", "Elapsed"), ("limit", "Timelimit"), ("nodes", "NodeList"), ("reason", "Reason"), ("name", "JobName"),
        ("end", "End"),
    ):  # fmt: skip
        if theirs in found:
            out[ours] = found[theirs][:200]
    if "ExitCode" in found and re.fullmatch(r"\d+:\d+", found["ExitCode"]):
        code, _, signal = found["ExitCode"].partition(":")
        out["code"], out["signal"] = int(code), int(signal)
    for ours, theirs in (("rss", "MaxRSS"), ("requested", "ReqMem")):
        if theirs in found:
            out[ours] = size_of(found[theirs].rstrip("nc"))
    return out


def _read_table(item: Item) -> Iterator[Fact]:
    names: list[str] = []
    spans: list[tuple[int, int]] = []
    bars = False
    order = 0
    for number, lines in blocks(item):
        for at, raw in enumerate(lines[:200_000]):
            line = clean(raw).decode("utf-8", "replace")
            if not line.strip():
                continue
            if "JobID" in line and "State" in line:
                bars = "|" in line
                names = [c.strip() for c in line.split("|")] if bars else line.split()
                spans = [] if bars else [(m.start(), m.end()) for m in re.finditer(r"\S+", line)]
                continue
            if not names or set(line.strip()) <= {"-", " "}:
                continue
            cells = [c.strip() for c in line.split("|")] if bars else _cells(line, names, spans)
            order += 1
            row = _row(names, cells)
            if row["state"] in STATES:
                row["step"] = "." in row.get("job", "")
                yield Fact(
                    "scheduler",
                    item.name,
                    number + at,
                    None,
                    words(line.encode()),
                    None,
                    order,
                    row,
                    MEDIUM if row["step"] else "strong",
                )


def _cells(line: str, names: list[str], spans: list[tuple[int, int]]) -> list[str]:
    """Cells of a table of blanks: a word belongs to the heading that it overlaps, or to the nearest one."""
    out = [""] * len(names)
    for word in re.finditer(r"\S+(?: by \d+)?", line):
        start, end = word.span()
        best = min(
            range(len(spans)),
            key=lambda i: max(0, spans[i][0] - end, start - spans[i][1]) * 1000 + abs(spans[i][0] - start),
        )
        out[best] = f"{out[best]} {word.group()}".strip()
    return out


def _read_show(item: Item) -> Iterator[Fact]:
    found: dict[str, str] = {}
    with item.open() as f:
        data = f.read(1 << 20)
    for name, value in _FIELD.findall(data):
        found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    row = _row(["JobID", "State", "Elapsed", "Timelimit", "NodeList", "ExitCode"],
               [found.get(n, "") for n in ("JobId", "JobState", "RunTime", "TimeLimit", "NodeList", "ExitCode")])  # fmt: skip
    if found.get("Reason", "None") != "None":
        row["reason"] = found["Reason"][:100]
    if row["state"]:
        yield Fact(
            "scheduler", item.name, 1, None, f"JobState={row['state']} Reason={row.get('reason', 'None')}", None, 1, row
        )


def sniff(item: Item) -> float:
    head = item.head[:2000]
    if re.search(rb"(?m)^\s*JobID\w*\b.*\bState\b", head):
        return 0.9
    return 0.85 if head.lstrip().startswith(b"JobId=") else 0.0


def read(item: Item) -> Iterator[Fact]:
    """`scheduler` facts: one for each job and step."""
    return _read_show(item) if item.head.lstrip().startswith(b"JobId=") else _read_table(item)


READER = Reader("scheduler", sniff, read)
