"""Frames of Python stacks, innermost first: [[path, line, function]]; which of them are the user's own."""

from __future__ import annotations

import re

from ..sites import is_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Frame = list[Any]  # [path, line, function]

# loguru marks the frame that caught the exception with ">"
FRAME = re.compile(rb'^[\s>]*File "([^"\n]{1,1000})", line (\d{1,9})(?:,? in (.*))?$')
# recorders that print the stack stand on it themselves
_RECORDERS = re.compile(r"(?:^|/)(?:run_trace|faulthandler|py_?spy\w*|torchvet/run/\w+)\.py$|(?:^|/)bin/torchrun$")


def frame_of(line: bytes) -> Frame | None:
    """The frame of a line `File "...", line N, in f` (tracebacks) or `... line N in f` (faulthandler)."""
    found = FRAME.match(line)
    if not found:
        return None
    name = (found.group(3) or b"").decode("utf-8", "replace").strip()
    return [found.group(1).decode("utf-8", "replace"), int(found.group(2)), name[:200]]


def is_own(frame: Frame) -> bool:
    """Whether a frame lies in the program itself, not in Python, PyTorch, an installed package or a recorder."""
    path = frame[0].replace("\\", "/")
    return is_user(path) and not _RECORDERS.search(path)


def own_frame(frames: list[Frame]) -> Frame | None:
    """The innermost frame of the program itself."""
    return next((f for f in frames if is_own(f)), None)


def site_of(frames: list[Frame]) -> tuple[str, int] | None:
    """(path, line) of the innermost frame of the program itself."""
    frame = own_frame(frames)
    return (frame[0], frame[1]) if frame else None
