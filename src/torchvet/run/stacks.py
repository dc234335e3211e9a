"""Stacks of all threads of this process, into a file that is open before anything goes wrong.

faulthandler writes them from C: also when a signal arrives while the interpreter is stuck, and when the GIL is held.
What C walks without the GIL must stand still: frames of a thread that runs are freed under its hands, and the process
ends by SIGSEGV. So a signal leaves the stack of the thread that got it, which is the main one; the others are written
by the recorder's thread, which holds the GIL. faulthandler's timer walks all threads, and runs out in a process that
was stopped and goes on: it is not used. Only a process that dies of a fault writes all threads from C.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time

ASKED_BY = 5
"""Below the highest real-time signal: the one by which the wrapper asks a silent rank where its main thread is."""


class Stacks:
    """The files of one process's stacks."""

    def __init__(self, folder: str) -> None:
        self.file = open(os.path.join(folder, "stacks.txt"), "a", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
        self.held = open(os.path.join(folder, "stacks_held.txt"), "a", encoding="utf-8")  # noqa: SIM115
        self.registered: list[int] = []
        self.asked = 0  # the signal by which the wrapper asks; 0 = none
        self.enabled = False
        self.size = os.fstat(self.file.fileno()).st_size  # what is beyond it was written at a signal
        self.files = [(f.fileno(), identity(f.fileno())) for f in (self.file, self.held)]

    def install(self) -> None:
        """Faults, SIGUSR1, SIGTERM and the wrapper's question leave stacks. A handler of the job's own stays, and what
        a signal does stays: after SIGTERM the process ends as before."""
        self.enabled = not faulthandler.is_enabled()
        if self.enabled:
            faulthandler.enable(self.file, all_threads=True)
        for name, chain in (("SIGUSR1", False), ("SIGTERM", True)):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                faulthandler.register(number, self.file, all_threads=False, chain=chain)
                self.registered.append(number)
        if hasattr(signal, "SIGRTMAX") and signal.getsignal(signal.SIGRTMAX - ASKED_BY) is signal.SIG_DFL:
            faulthandler.register(signal.SIGRTMAX - ASKED_BY, self.held, all_threads=False, chain=False)
            self.asked = signal.SIGRTMAX - ASKED_BY
            self.registered.append(self.asked)

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
        return False

    def dump(self, reason: str, why: str) -> None:
        if not self.intact():
            return
        self.file.write(f"\n--- torchvet {reason} {time.time():.3f}: {why}\n")
        self.file.flush()
        faulthandler.dump_traceback(self.file, all_threads=True)
        self.file.flush()
        self.size = os.fstat(self.file.fileno()).st_size

    def look(self) -> None:
        """The recorder's thread runs: after a signal it adds the other threads."""
        if self.registered and self.intact() and os.fstat(self.file.fileno()).st_size > self.size:
            self.dump("signal", "all threads, after a signal")


def identity(fd: int) -> tuple[int, int]:
    """What a descriptor leads to; (-1, -1) when it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)
