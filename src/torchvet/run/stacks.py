"""Stacks of all threads of this process, into a file that is open before anything goes wrong.

faulthandler writes them from C: also when a signal arrives while the interpreter is stuck, and when the GIL is held.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time

GIL = 60.0
"""Seconds without a sign of life of the recorder's thread after which the C thread writes: the GIL is held, or the
process was stopped."""


class Stacks:
    """The files of one process's stacks."""

    def __init__(self, folder: str) -> None:
        self.file = open(os.path.join(folder, "stacks.txt"), "a", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
        self.held = open(os.path.join(folder, "stacks_held.txt"), "a", encoding="utf-8")  # noqa: SIM115
        self.armed = 0.0
        self.later = getattr(faulthandler.dump_traceback_later, "__wrapped__", faulthandler.dump_traceback_later)
        self.registered: list[int] = []
        self.enabled = False
        self.files = [(f.fileno(), identity(f.fileno())) for f in (self.file, self.held)]

    def install(self) -> None:
        """Faults, SIGUSR1 and SIGTERM leave stacks. A handler of the job's own stays, and what a signal does stays:
        after SIGTERM the process ends as before."""
        self.enabled = not faulthandler.is_enabled()
        if self.enabled:
            faulthandler.enable(self.file, all_threads=True)
        for name, chain in (("SIGUSR1", False), ("SIGTERM", True)):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                faulthandler.register(number, self.file, all_threads=True, chain=chain)
                self.registered.append(number)

    def forget(self) -> None:
        """In a forked child: its signals are no news of this process."""
        for number in self.registered:
            faulthandler.unregister(number)
        self.registered = []

    def intact(self) -> bool:
        """Whether the files are still open. A job that closes all descriptors (daemons do) may have opened its own
        under the same numbers: nothing may be written there."""
        if all(identity(fd) == known for fd, known in self.files):
            return True
        self.forget()
        if self.enabled:
            faulthandler.disable()
        self.done()
        return False

    def dump(self, reason: str, why: str) -> None:
        if not self.intact():
            return
        self.file.write(f"\n--- torchvet {reason} {time.time():.3f}: {why}\n")
        self.file.flush()
        faulthandler.dump_traceback(self.file, all_threads=True)
        self.file.flush()

    def alive(self, interval: float) -> None:
        """The recorder's thread runs. Arms the C thread anew, now and then, unless the job itself uses it."""
        now = time.monotonic()
        if now - self.armed > GIL / 4 and self.intact() and not lent():
            self.armed = now
            self.later(GIL + 2 * interval, file=self.held, exit=False)

    def done(self) -> None:
        if not lent():
            faulthandler.cancel_dump_traceback_later()


def lent() -> bool:
    """Whether the job has set faulthandler's one timer (the hook notes it)."""
    return bool(getattr(faulthandler, "torchvet_lent", False))


def identity(fd: int) -> tuple[int, int]:
    """What a descriptor leads to; (-1, -1) when it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)
