"""What keeps one file's failure from ending the check."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .program import Program


class Guard:
    """See `Program.guard`."""

    __slots__ = ("path", "program")

    def __init__(self, program: Program, path: str) -> None:
        self.program = program
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not isinstance(error, Exception) or os.environ.get("TORCHVET_DEBUG"):
            return False
        at = trace
        while at.tb_next:
            at = at.tb_next
        where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"
        crash = (self.path, f"{type(error).__name__}: {error} ({where})"[:200])
        if crash not in self.program.crashes:
            self.program.crashes.append(crash)
        return True
