"""The job's own output: passed on as it comes, and kept.

Each stream goes through this process: through a pseudo-terminal where the user has a terminal, so that progress bars
stay what they are, else through a pipe. Two streams that lead to one place share one, which keeps their order.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD_BYTES = 4 << 20
TAIL_BYTES = 16 << 20
"""What is kept of a stream: its beginning, and its end in two files that take turns."""
DRAIN = 1.0
"""Seconds to wait for output after the command ended. What it left behind may hold the stream open for long."""


class Kept:
    """A bounded copy of a stream: PATH has the beginning, PATH.1 and PATH.2 the end. What cannot be written is lost."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.room = HEAD_BYTES
        self.turn = 0

    def add(self, data: bytes) -> None:
        if self.fd < 0:
            return
        try:
            os.write(self.fd, data)
            self.room -= len(data)
            if self.room <= 0:
                os.close(self.fd)
                self.fd = -1
                self.turn = 2 if self.turn == 1 else 1
                self.fd = os.open(f"{self.path}.{self.turn}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                self.room = TAIL_BYTES // 2
        except OSError:  # a full disk: the job's output still goes where it belongs
            self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Output:
    """Start the command with `streams`, then `start()`; `end()` when it has ended. OSError: no pipe, or no file."""

    def __init__(self, folder: str, tag: str) -> None:
        self.pumps: list[tuple[int, int, Kept]] = []  # read here, write there, keep
        self.theirs: list[int] = []
        self.closed: set[int] = set()
        self.streams: dict[str, int] = {}
        self.thread: threading.Thread | None = None
        self.over = 0.0
        self.bell: tuple[int, ...] = ()  # rung at the end: until then nobody wakes without output
        self.terminal = -1
        joined = same(1, 2)
        out = self.channel(1, os.path.join(folder, f"output_{tag}.log"))
        self.streams["stdout"] = out
        self.streams["stderr"] = out if joined else self.channel(2, os.path.join(folder, f"errors_{tag}.log"))

    def channel(self, ours: int, path: str) -> int:
        """The end that the command writes to; the other is pumped to `ours`."""
        kept = Kept(path)
        if os.isatty(ours) and sys.platform != "win32":
            import pty
            import tty

            read, write = pty.openpty()
            tty.setraw(write)  # the user's terminal turns line ends, once
            self.copy_size(ours, write)
            self.terminal = read
        else:
            read, write = os.pipe()
        self.pumps.append((read, ours, kept))
        self.theirs.append(write)
        return write

    def copy_size(self, source: int, target: int) -> None:
        """The size of the user's window, so that progress bars fit."""
        import fcntl
        import termios

        try:
            fcntl.ioctl(target, termios.TIOCSWINSZ, fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8))
        except OSError:
            return

    def resized(self) -> None:
        if self.terminal >= 0:
            self.copy_size(1 if os.isatty(1) else 2, self.terminal)

    def start(self) -> None:
        """The command runs: pump until `end`."""
        for fd in self.theirs:
            os.close(fd)
        self.bell = os.pipe()
        self.thread = threading.Thread(target=self.pump, name="torchvet output", daemon=True)
        self.thread.start()

    def pump(self) -> None:
        with selectors.DefaultSelector() as selector:
            for read, ours, kept in self.pumps:
                selector.register(read, selectors.EVENT_READ, (ours, kept))
            if self.bell:
                selector.register(self.bell[0], selectors.EVENT_READ)
            left = len(self.pumps)
            while left:
                ready = selector.select(0.2 if self.over else None)
                if self.over and self.bell and self.bell[0] in selector.get_map():
                    selector.unregister(self.bell[0])
                    ready = [one for one in ready if one[0].data is not None]
                late = time.monotonic() - self.over if self.over else 0.0
                if late > (DRAIN if ready else 0.0):
                    return
                for key, _ in ready:
                    if not self.move(key.fd, *key.data):
                        selector.unregister(key.fd)
                        os.close(key.fd)  # where nobody reads any more, the command has to notice
                        self.closed.add(key.fd)
                        left -= 1

    def move(self, read: int, ours: int, kept: Kept) -> bool:
        """Pass on what is there; False at the end of the stream, or when nobody takes it."""
        try:
            data = os.read(read, 65536)
        except OSError:  # a pseudo-terminal says so when the last writer closes it
            data = b""
        if not data:
            return False
        kept.add(data)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(ours, view) :]
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # `| head` went away
                return False
        return True

    def end(self) -> None:
        """The command ended: pass on the rest. What it left behind (a daemon) may go on to write: as long as it does, a
        process of ours stays and passes that on."""
        self.over = time.monotonic() + DRAIN
        if self.thread is not None:
            os.write(self.bell[1], b"!")
            self.thread.join()  # a reader that is slow holds a command up, too
            for fd in self.bell:
                os.close(fd)
            self.bell = ()
        self.pumps = [pump for pump in self.pumps if pump[0] not in self.closed]
        if self.pumps and self.thread is not None:
            self.leave_behind()
        for read, _, kept in self.pumps:
            kept.close()
            os.close(read)
        self.pumps = []

    def leave_behind(self) -> None:
        if not hasattr(os, "fork") or os.fork() != 0:
            return
        try:
            os.setsid()
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDWR)
            used = {ours for _, ours, _ in self.pumps}
            for fd in {0, 1, 2} - used:
                os.dup2(nothing, fd)
            self.over = 0.0
            self.pump()
        finally:
            os._exit(0)


def same(a: int, b: int) -> bool:
    """Whether two descriptors lead to one file, pipe or terminal."""
    try:
        first, second = os.fstat(a), os.fstat(b)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def streams_of(output: Output | None) -> dict[str, Any]:
    """Arguments for subprocess.Popen."""
    return dict(output.streams) if output is not None else {}
