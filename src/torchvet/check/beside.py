"""Work done beside: a forked child whose result comes back through a pipe.

Raw `os.fork`: a pool of `multiprocessing` costs 40 ms to import and start, a fork and its pipe 2 ms. No thread runs
yet when it is used.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def possible() -> bool:
    """Whether a second process can run at the same time. Not on macOS, whose system libraries do not survive a fork."""
    return hasattr(os, "fork") and sys.platform != "darwin" and (os.cpu_count() or 1) > 1


class Beside:
    """`with Beside(work) as other: ...; other.result()`: `work()` runs in a child; its result is made of values that
    `marshal` holds, and is None when the child died. Leaving the block early ends the child."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.child = 0
        self.reader = -1

    def __enter__(self) -> Beside:
        import marshal

        self.reader, writer = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            status = 1
            try:
                os.close(self.reader)
                data = marshal.dumps(self.work())
                with os.fdopen(writer, "wb") as f:
                    f.write(data)
                status = 0
            finally:
                os._exit(status)  # no clean-up of the parent's things in the child
        os.close(writer)
        return self

    def result(self) -> Any:
        import marshal

        with os.fdopen(self.reader, "rb") as f:
            self.reader = -1
            sent = f.read()
        status = os.waitpid(self.child, 0)[1]
        self.child = 0
        return marshal.loads(sent) if sent and not status else None

    def __exit__(self, *error: object) -> None:
        if self.reader >= 0:
            os.close(self.reader)
        if self.child:
            from signal import SIGKILL

            os.kill(self.child, SIGKILL)
            os.waitpid(self.child, 0)
