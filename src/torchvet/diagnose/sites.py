"""Frames of a stack: which are the program's own, and where a rank stands. Frames are [path, line, function]."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib(?:64)?/python\d|(?:^|/)torch/(?:distributed|nn|_|autograd|utils|optim)|(?:^|/)torchvet/run/"
    r"|^<frozen |^<string>|(?:^|/)bin/torchrun$|\.(?:so|cpp|cc|c|h|cu)(?:\.\d+)*$|^\?\?$|^$"
)


def is_user(path: str) -> bool:
    """Whether a file is the program's own, neither the library of Python nor a package."""
    return not _LIBRARY.search(path.replace("\\", "/"))


def user_frames(frames: Iterable[Any], most: int = 64) -> list[list[Any]]:
    """The program's own frames, innermost first."""
    out = []
    for frame in frames:
        if len(frame) >= 3 and is_user(str(frame[0])):
            out.append([frame[0], frame[1], frame[2]])
            if len(out) >= most:
                break
    return out
