"""Containers as their runtime lists them: `docker inspect`, `kubectl get pods`."""

from __future__ import annotations

import re

from ..model import Fact
from .exits import loaded
from .kubernetes import reason_fact
from .lines import words
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

_TABLE = re.compile(rb"^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s")
_WORKER = re.compile(r"^(.*)-(?:master|worker|launcher)-(\d{1,5})$")
MOST = 8 << 20


def read(item: Item) -> Iterator[Fact]:
    """`exit`, `oom-kill`, `scheduler` and `container` facts."""
    return _pods(item) if _TABLE.match(item.head) else _inspected(item)


def _inspected(item: Item) -> Iterator[Fact]:
    rows = loaded(item)
    for order, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        state = row.get("State") if isinstance(row, dict) else None
        if not isinstance(state, dict):
            continue
        name = str(row.get("Name", "")).lstrip("/")
        limits = row.get("HostConfig")
        if isinstance(limits, dict):
            values = {"memory_limit": limits.get("Memory") or None, "shm_size": limits.get("ShmSize") or None,
                      "ipc": str(limits.get("IpcMode") or ""), "by": "docker inspect", "name": name}  # fmt: skip
            yield Fact("container", item.name, 0, None, words(name.encode()), None, order, values)
        code = state.get("ExitCode")
        if state.get("Status") == "exited" and isinstance(code, int):
            told: dict[str, Any] = {"code": code, "by": "docker", "pod": name}
            text = words(f"container {name}: exit code {code}".encode())
            yield Fact("exit", item.name, 0, None, text, None, order, told)
            if state.get("OOMKilled") is True and code:
                told = {"by": "docker", "constraint": "CONSTRAINT_MEMCG", "container": name, "code": code}
                text = words(f"container {name}: OOMKilled, exit code {code}".encode())
                yield Fact("oom-kill", item.name, 0, None, text, None, order, told)


def _pods(item: Item) -> Iterator[Fact]:
    """Rows of the table. An operator that has a master gives it rank 0 and the workers the next ones."""
    lines = item.whole(MOST).decode("utf-8", "replace").split("\n")[:100_000]
    skip = lines[0].startswith("NAMESPACE")
    cells = [line.split() for line in lines[1:]]
    names = {row[skip] for row in cells if len(row) > 3}
    for number, row in enumerate(cells, 2):
        if len(row) < 4:
            continue
        name, status = row[skip], row[2 + skip]
        text = words(f"{name}: {status}".encode())
        if status == "OOMKilled":
            found = _WORKER.match(name)
            alone = not found or f"{found.group(1)}-master-0" not in names
            rank = None if found is None or alone else int(found.group(2)) + ("-worker-" in name)
            values: dict[str, Any] = {"by": "kubernetes", "constraint": "CONSTRAINT_MEMCG", "pod": name}
            yield Fact("oom-kill", item.name, number, rank, text, None, number, values)
        else:
            yield from reason_fact(item, number, text, status, name, number)


def sniff(item: Item) -> float:
    if _TABLE.match(item.head):
        return 0.9
    head = item.head.lstrip()
    return 0.9 if head[:1] in (b"[", b"{") and b'"OOMKilled"' in head and b'"ExitCode"' in head else 0.0


READER = Reader("containers", sniff, read)
