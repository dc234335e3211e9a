"""The block that torchelastic prints when a job ends: exit codes per rank.

Its "root cause" is the failure that the agent saw first, often that of a victim: a fact of the timeline, never a cause.
"""

from __future__ import annotations

import re

from .lines import words
from .times import time_of
from .tracebacks import Traceback, starts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIELD = re.compile(rb"^\s{1,4}(time|host|rank|exitcode|error_file|traceback)\s*: ?(.*)$")
_ENTRY = re.compile(rb"^\s*\[(\d+)\]:\s*$")
_RANK = re.compile(rb"(\d+) \(local_rank: (\d+)\)")
_EXIT = re.compile(rb"(-?\d+) \(pid: (\d+)\)")
_SIGNAL = re.compile(rb"Signal \d+ \((SIG\w+)\)")


class Block:
    """The rows of one block. `feed` takes every line of the voice that prints it."""

    def __init__(self) -> None:
        self.open = False
        self.first = False
        self.row: dict[str, Any] = {}
        self.line = 0
        self.text = ""
        self.traceback: Traceback | None = None

    def feed(self, number: int, line: bytes) -> list[tuple[str, int, str, dict[str, Any], float | None]]:
        """(kind, line, text, values, time) of finished rows; `open` afterwards: the line belonged to the block."""
        if not self.open:
            if line.startswith((b"Failures:", b"Root Cause (first observed")):
                self.open = True
                self.first = line.startswith(b"Root")
            return []
        if line.startswith(b"Root Cause (first observed"):
            out = self._done()
            self.first = True
            return out
        if _ENTRY.match(line):
            out = self._done()
            self.line = number
            return out
        if line.startswith(b"======"):
            out = self._done()
            self.open = False
            return out
        if self.traceback is not None:
            # the agent indents the worker's traceback by two blanks
            self.traceback.feed(line[2:] if line.startswith(b"  ") else line)
            return []
        found = _FIELD.match(line)
        if found:
            self._field(found.group(1), found.group(2))
            if found.group(1) == b"traceback" and starts(found.group(2)):
                self.traceback = Traceback(number)
        return []

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"rank" and (found := _RANK.search(value)):
            self.row["rank"], self.row["local"] = int(found.group(1)), int(found.group(2))
        elif name == b"exitcode" and (found := _EXIT.search(value)):
            self.row["code"], self.row["pid"] = int(found.group(1)), int(found.group(2))
            self.text = words(b"exitcode: " + value)
        elif name == b"host":
            self.row["node"] = words(value, 200)
        elif name == b"time":
            self.row["time"] = time_of(value)
        elif name == b"traceback" and (found := _SIGNAL.search(value)):
            self.row["signal"] = found.group(1).decode()

    def _done(self) -> list[tuple[str, int, str, dict[str, Any], float | None]]:
        row, self.row = self.row, {}
        traceback, self.traceback = self.traceback, None
        if "rank" not in row or "code" not in row:
            return []
        time = row.pop("time", None)
        out = [("exit", self.line, self.text, {**row, "by": "block", "first": self.first}, time)]
        raised = traceback.values() if traceback else None
        if traceback and raised and raised["type"] not in ("ChildFailedError", "SignalException"):
            text = f"{raised['type']}: {raised['message']}"
            out.append(("exception", traceback.line, text, {**raised, "rank": row["rank"], "recorded": True}, None))
        return out
