"""When processes end, in their order: a launcher ends the others within a moment of the first, and the first is the one
of interest. Linux tells by file descriptors of processes (pidfd, since 5.3); elsewhere nothing is known here."""

from __future__ import annotations

import os
import select
import time

NEVER = float("inf")


class Deaths:
    """Processes of anybody, by number. Not for more than some hundred."""

    MOST = 512

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # descriptor -> process
        self.ended: dict[int, float] = {}
        self.seen: set[int] = set()
        self.poll = select.poll() if hasattr(select, "poll") and hasattr(os, "pidfd_open") else None

    def add(self, pid: int) -> None:
        """Watch a process; one that has ended already ended before now."""
        if self.poll is None or pid in self.seen or len(self.open) >= self.MOST:
            return
        self.seen.add(pid)
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.ended[pid] = time.time()
            return
        except OSError:  # an old kernel, or not permitted
            return
        self.open[fd] = pid
        self.poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Until a process ends, at most `seconds`, and one where that cannot be seen."""
        if self.poll is None or not self.open:
            time.sleep(min(seconds, 1.0))
            return
        for fd, _ in self.poll.poll(int(1000 * seconds)):
            self.poll.unregister(fd)
            self.ended[self.open.pop(fd)] = time.time()
            os.close(fd)

    def when(self, pid: int) -> float:
        """When a process ended, in seconds since 1970; infinity when it lives or nothing is known."""
        return self.ended.get(pid, NEVER)
