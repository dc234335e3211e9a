# ruff: noqa: E501
"""Python tracebacks in a stream of lines: chains, workers' originals, threads, and which tell of another rank's end."""

from __future__ import annotations

import re

from .frames import frame_of
from .lines import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .frames import Frame

_START = re.compile(rb"^(?:[\s|+]*(?:\+ Exception Group )?)?(Original )?Traceback \(most recent call last\):\s*$")
# rich draws a box around the frames: "│ /w/train.py:88 in main │", outermost first; the exception stands under it
_BOX = re.compile(rb"^\s*(?:\xe2\x95\xad(?:\xe2\x94\x80)+|\+-+) ?Traceback \(most recent call last\)")
_BOX_SIDE = (b"\xe2\x94\x82", b"|")
_BOX_END = (b"\xe2\x95\xb0", b"+-")
_BOX_FRAME = re.compile(rb"^\s*(?:\xe2\x94\x82|\|) ((?:[A-Za-z]:)?[^\s:|]+\.py|<[\w ]+>):(\d{1,9}) in (\S+)")
_ROOTED = re.compile(rb"\.(?:broadcast|reduce|gather|scatter)\w*\(")
_MARGIN = re.compile(rb"^\s+\| ?")
_RAISED = re.compile(rb"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?$")
_CHAIN = (b"During handling of the above exception", b"The above exception was the direct cause")
_THREAD = re.compile(rb"^(?:Exception in thread (.+?)(?: \(most recent call last\))?:|Exception ignored in:? ?(.*))$")
_WORKER = re.compile(r"Caught \w+ in (?:DataLoader worker process|pin memory thread for device|replica) ?(\d+)?")
_MOST_FRAMES = 400
_MOST_LINES = 24

# Messages of ranks that lost a peer or waited for one in vain; each is printed by the rank that is alive.
VICTIM = re.compile(
    r"Connection closed by peer|Timed out waiting \d+ ?ms for (?:send|recv)|Connection reset by peer|Read error \[|Broken pipe"
    r"|Watchdog caught collective|ncclRemoteError|remote process exited or there was a network error|[Ff]ailed to recv, got 0 bytes"
    r"|in store based barrier on rank|failed to pass monitoredBarrier|reached monitoredBarrier, but received|Socket Timeout|Application timeout caused"
    r"|[Ww]ait timeout after|store->get\('?\w+'?\) got error|recvValue failed|NCCL communicator was aborted|communicator was aborted on rank"
    r"|Timeout waiting for key|ncclInProgress|Process group watchdog thread terminated with exception: \[Rank"
    r"|op\.preamble\.length <= op\.nbytes|[Tt]imed out after \d+ ?(?:ms|milliseconds|seconds) waiting for (?:send|recv)"
    r"|The actor died|Worker exited|ProcessGroup.*shut ?down|Detected at least one rank that exhausted inputs"
)
_CHILD = re.compile(r"Command '\[?'?[^' ]*python[\d.]*'?[, ]")
_VICTIM_TYPES = {
    "SignalException", "KeyboardInterrupt", "ChildFailedError", "BrokenPipeError", "ConnectionResetError", "ConnectionAbortedError",
    "EOFError", "ActorDiedError", "RayActorError", "RayTaskError", "ProcessRaisedException", "ProcessExitedException",
    "NCCLRemoteError",
}  # fmt: skip


_HTTP = {
    "requests",
    "urllib3",
    "botocore",
    "aiohttp",
    "httpx",
    "httpcore",
    "http",
    "urllib",
    "google",
    "azure",
    "huggingface_hub",
}
_SOCKET = {"BrokenPipeError", "ConnectionResetError", "ConnectionAbortedError", "EOFError"}


def are_victims(chain: list[tuple[str, str]]) -> bool:
    """Whether a chain of exceptions tells of another process. A socket's error that led to another one may be of a
    server: it counts only where it is the last, or where all of the chain are of that kind."""
    *before, (kind, message) = chain
    return is_victim(kind, message) or any(is_victim(k, m) and k.rpartition(".")[2] not in _SOCKET for k, m in before)


# how the messages of ranks that lost a peer, or waited for one, begin
_BEGINNINGS = (
    "[", "Rank ", "NCCL ", "Detected mismatch between", "wait timeout after", "Wait timeout", "Timed out", "Timeout",
    "Socket Timeout", "Application timeout", "Connection ", "Broken pipe", "Gloo connect", "The client socket", "failed to recv",
    "Failed to recv", "Read error", "Watchdog caught", "store->get(", "Stop_waiting",
)  # fmt: skip


def may_be_victim(kind: str, message: str) -> bool:
    """Whether an exception whose message breaks off may be that of a rank that lost a peer."""
    name = kind.rpartition(".")[2]
    if name not in ("RuntimeError", "OSError", "ConnectionError", "TimeoutError") and not name.startswith(
        ("Dist", "NCCL")
    ):
        return False
    return any(start.startswith(message) or message.startswith(start) for start in _BEGINNINGS)


def is_victim(kind: str, message: str) -> bool:
    """Whether an exception tells of another process: a lost or late peer, the launcher's signal."""
    name = kind.rpartition(".")[2]
    if kind.split(".")[0] in _HTTP:
        return False  # a server was lost, not a peer
    if name == "CalledProcessError":  # a launcher tells of its child; a failed compiler is an error of its own
        return _CHILD.match(message) is not None
    return name in _VICTIM_TYPES or VICTIM.search(message) is not None


class Traceback:
    """One traceback while its lines arrive. `feed` says whether a line belongs to it."""

    __slots__ = (
        "boxed",
        "called",
        "chain",
        "frames",
        "grouped",
        "line",
        "lines",
        "outer",
        "quiet",
        "state",
        "thread",
        "worker",
    )

    def __init__(self, line: int, thread: str = "", quiet: bool = False, boxed: bool = False) -> None:
        self.line = line
        self.boxed = boxed  # drawn by rich
        self.grouped = False
        self.thread = thread
        self.quiet = quiet  # "Exception ignored in": printed and forgotten by Python
        self.frames: list[Frame] = []
        self.outer: list[Frame] = []
        self.chain: list[tuple[str, str, list[Frame]]] = []
        self.called: list[list[Any]] = []  # [path, line, source] of calls that name a root
        self.state = "frames"
        self.worker: int | None = None
        self.lines = 0

    def feed(self, line: bytes) -> bool:
        self.lines += 1
        if self.grouped:  # ExceptionGroup: a margin of bars before every line
            line = _MARGIN.sub(b"", line, count=1)
        if self.state == "frames" and self.boxed:
            return self._box(line)
        if self.state == "frames":
            frame = frame_of(line)
            if frame:
                if len(self.frames) < _MOST_FRAMES:
                    self.frames.insert(0, frame)
                self.lines = 0
                return True
            if line[:1] in (b" ", b"\t") or not line.strip():
                if self.lines == 1 and self.frames and len(self.called) < 4 and _ROOTED.search(line):
                    self.called.append([*self.frames[0][:2], words(line, 400)])
                return self.lines < _MOST_LINES or line[:1] == b" "
            found = _RAISED.match(line)
            if not found or not self.frames:
                return False
            self._raised(found)
            return True
        if starts(line):
            self.boxed = is_box(line)
            if self.state == "message" and line.lstrip().startswith(b"Original"):
                self.outer = self.frames + self.outer
                self.frames, self.state = [], "frames"
                return True
            if self.state == "chained":
                self.frames, self.outer, self.state = [], [], "frames"
                return True
            return False
        if line.startswith(_CHAIN):
            self.state, self.lines = "chained", 0
            return True
        if self.state == "chained":
            if not line.strip():
                return self.lines < 6
            found = _RAISED.match(line)
            if found and (b"Error" in found.group(1) or b"Exception" in found.group(1)):
                self.frames, self.outer = [], []
                self._raised(found)
                return True
            return False
        # lines behind the message: its continuation, or blank ones before "During handling"
        if not line.strip():
            self.state, self.lines = "blank", 0
            return True
        if self.state == "blank":
            return False
        if self.lines > 12 or line[:1] == b"[" or line[:4] in (b"====", b"----", b"Fail", b"Root"):
            return False
        kind, message, frames = self.chain[-1]
        if len(message) < 1500:
            self.chain[-1] = (kind, f"{message}\n{words(line, 600)}", frames)
        return True

    def _box(self, line: bytes) -> bool:
        """A line of a box, or the exception under it."""
        stripped = line.lstrip()
        if stripped.startswith(_BOX_END):
            self.lines = 0
            return True
        if stripped.startswith(_BOX_SIDE):
            found = _BOX_FRAME.match(line)
            if found and len(self.frames) < _MOST_FRAMES:
                self.frames.insert(0, [words(found.group(1), 1000), int(found.group(2)), words(found.group(3), 200)])
            self.lines = 0
            return True
        found = _RAISED.match(line)
        if not found or self.lines > 2:
            return False
        self._raised(found)
        return True

    def _raised(self, found: re.Match[bytes]) -> None:
        kind = words(found.group(1), 200)
        message = words(found.group(2) or b"", 1500)
        if worker := _WORKER.search(message):
            self.worker = int(worker.group(1) or 0)
        self.chain.append((kind, message, self.frames + self.outer))
        self.state, self.lines = "message", 0

    def values(self) -> dict[str, Any] | None:
        """Values of an `exception` fact; None when nothing was raised (a cut traceback)."""
        if not self.chain:
            return None
        kind, message, frames = self.chain[-1]
        first_kind, _, first_frames = self.chain[0]
        if len(self.chain) > 1 and self.worker is not None and kind == first_kind:
            message = self.chain[-1][1]
        thread = self.thread
        if not thread and any(f[2] == "_feed" and f[0].endswith("multiprocessing/queues.py") for f in frames):
            thread = "queue feeder"
        out: dict[str, Any] = {
            "type": kind.rpartition(".")[2],
            "message": message,
            "frames": frames[:60],
            "victim": are_victims([(k, m) for k, m, _ in self.chain]),
        }
        if len(self.chain) > 1:
            out["chain"] = [[k, m[:300]] for k, m, _ in self.chain[:8]]
            out["origin"] = (first_frames or frames)[:60]
        if self.called:
            out["rooted"] = self.called
        if thread:
            out["thread"] = thread
        if self.quiet:
            out["ignored"] = True
        if self.worker is not None:
            out["worker"] = self.worker
        return out


def starts(line: bytes) -> bool:
    return b"Traceback (most recent call last)" in line and (_START.match(line) is not None or is_box(line))


def is_box(line: bytes) -> bool:
    return _BOX.match(line) is not None


def thread_of(line: bytes) -> tuple[str, bool] | None:
    """(thread, ignored?) of the line that announces a thread's traceback."""
    found = _THREAD.match(line)
    if not found:
        return None
    return (words(found.group(1), 80), False) if found.group(1) else ("", True)
