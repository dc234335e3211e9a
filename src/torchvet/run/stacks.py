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
    def __init__(self, folder: str) -> None:
        self.file = open(os.path.join(folder, "stacks.txt"), "a", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
        self.held = open(os.path.join(folder, "stacks_held.txt"), "a", encoding="utf-8")  # noqa: SIM115
        self.armed = 0.0

    def install(self) -> None:
        """Faults, SIGUSR1 and SIGTERM leave stacks. A handler of the job's own stays, and what a signal does stays:
        after SIGTERM the process ends as before."""
        if not faulthandler.is_enabled():
            faulthandler.enable(self.file, all_threads=True)
        for name, chain in (("SIGUSR1", False), ("SIGTERM", True)):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                faulthandler.register(number, self.file, all_threads=True, chain=chain)

    def dump(self, reason: str, why: str) -> None:
        self.file.write(f"\n--- torchvet {reason} {time.time():.3f}: {why}\n")
        self.file.flush()
        faulthandler.dump_traceback(self.file, all_threads=True)
        self.file.flush()

    def alive(self, interval: float) -> None:
        """The recorder's thread runs. Arms the C thread anew, now and then."""
        now = time.monotonic()
        if now - self.armed > GIL / 4:
            self.armed = now
            faulthandler.dump_traceback_later(GIL + 2 * interval, file=self.held, exit=False)

    def done(self) -> None:
        faulthandler.cancel_dump_traceback_later()
