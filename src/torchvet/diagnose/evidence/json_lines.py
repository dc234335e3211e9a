"""Logs whose lines are JSON objects (structlog, python-json-logger, loguru, fluentd, Cloud Logging): the text of each,
with marks of the rank or the pod that it names, as other launchers print them."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 256 << 10
MOST_LINES = 400
_MESSAGE = ("message", "msg", "event", "textPayload", "log", "@message", "MESSAGE")
_ERROR = ("exc_info", "exception", "exc_text", "traceback", "stack_trace", "stack_info", "error")
_RANK = ("rank", "global_rank", "RANK", "process_rank", "dist_rank", "world_rank")
_INSIDE = ("jsonPayload", "extra", "labels", "fields", "record", "kubernetes", "context")


def is_record(line: bytes) -> bool:
    """Whether a line looks like one JSON object with a message."""
    return line[:2] == b'{"' and line.rstrip()[-1:] == b"}" and any(b'"%s"' % k.encode() in line for k in _MESSAGE)


def unwrapped(raw: bytes) -> list[bytes]:
    """The lines of text inside one JSON record; the line itself when it is none."""
    if len(raw) > LONGEST or not is_record(raw):
        return [raw]
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return [raw]
    if not isinstance(row, dict):
        return [raw]
    rows = [row, *(row[k] for k in _INSIDE if isinstance(row.get(k), dict))]
    if isinstance(row.get("record"), dict):  # loguru: all of it stands formatted in "text"
        rows.insert(0, {"message": row.get("text")})
    parts = [text for text in (_said(rows, _MESSAGE), _said(rows, _ERROR)) if text]
    if len(parts) == 2 and parts[1] in parts[0]:
        parts.pop()
    if not parts:
        return [raw]
    mark = b""
    rank = next((r for d in rows for k in _RANK if (r := _number(d.get(k))) is not None), None)
    pod = next((p for d in rows for k in ("pod_name", "pod") if isinstance(p := d.get(k), str)), "")
    if rank is not None:
        mark = b"[rank%d]: " % rank
    elif pod:
        mark = f"[pod/{pod[:200]}/main] ".encode()
    lines = [line for part in parts for line in part.rstrip("\n").split("\n")][:MOST_LINES]
    return [mark + _unmarked(line).encode("utf-8", "replace") for line in lines]


def _unmarked(line: str) -> str:
    """torch's own mark stands before the lines of a traceback already."""
    return line.partition("]: ")[2] if line.startswith("[rank") and "]: " in line[:16] else line


def _said(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> str:
    for row in rows:
        for key in keys:
            value = row.get(key)
            if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
                value = "\n".join(value)
            if isinstance(value, str) and value.strip():
                return value
    return ""


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isdigit() and len(value) < 7:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000 else None
