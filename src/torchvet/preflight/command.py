"""Commands that cannot hang the caller."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUTPUT_BYTES = 4 << 20
"""Of each stream; what comes after is read and dropped."""

GRACE = 0.2
"""Seconds to wait for output after the end of the process: a child of it may hold the pipe."""


RUNNING: set[int] = set()
"""Process groups that were started and have not ended."""


class Ran:
    """How a command ended: exit `code` (negative: killed by that signal), `out` and `err` as text, `timed_out`,
    `seconds`."""

    __slots__ = ("code", "err", "out", "seconds", "timed_out")

    def __init__(self, code: int, out: str, err: str, timed_out: bool = False, seconds: float = 0.0) -> None:
        self.code = code
        self.out = out
        self.err = err
        self.timed_out = timed_out
        self.seconds = seconds

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out


def find_command(name: str, env: Mapping[str, str]) -> str | None:
    """The path of a command: in PATH, then where administration tools lie (PATH of a service often lacks them)."""
    if "/" in name:
        return name if os.access(name, os.X_OK) else None
    folders = [*env.get("PATH", os.defpath).split(os.pathsep), "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
    for folder in folders:
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def execute(argv: Sequence[str], seconds: float, env: Mapping[str, str]) -> Ran:
    """Run to the end or for `seconds`, then kill the process group. What cannot be killed (a process stuck in a driver)
    is left behind."""
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**env, "LANG": "C", "LC_ALL": "C"}, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return Ran(126, "", str(error))
    RUNNING.add(process.pid)
    out, err, timed_out = _collect(process, start + seconds)
    _kill(process.pid)  # also what an ended command left in its group
    RUNNING.discard(process.pid)
    try:
        code = process.wait(0.5)
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL
    seconds = time.monotonic() - start
    return Ran(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), timed_out, seconds)


def _collect(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, bool]:
    assert process.stdout and process.stderr
    held: dict[int, bytearray] = {}
    ended: float | None = None
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
            held[stream.fileno()] = bytearray()
        first, second = held.values()
        while selector.get_map():
            now = time.monotonic()
            if now >= deadline:
                return bytes(first), bytes(second), not _ended(process.pid)
            if ended is None and _ended(process.pid):
                ended = now
            if ended is not None and now > ended + GRACE:
                break
            for key, _ in selector.select(min(deadline - now, 0.05 if ended is not None else 0.25)):
                try:
                    part = os.read(key.fd, 65536)
                except BlockingIOError:
                    continue
                if not part:
                    selector.unregister(key.fileobj)
                elif len(held[key.fd]) < OUTPUT_BYTES:
                    held[key.fd] += part
    while not _ended(process.pid):  # closed its output and goes on
        if time.monotonic() >= deadline:
            return bytes(first), bytes(second), True
        time.sleep(0.02)
    return bytes(first), bytes(second), False


def kill_running() -> None:
    """End what still runs, when this process ends before its commands: they have groups of their own."""
    for group in [*RUNNING]:
        _kill(group)


def _ended(pid: int) -> bool:
    """Has the child ended? It is not reaped yet: its number stands for its group until that is killed."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
