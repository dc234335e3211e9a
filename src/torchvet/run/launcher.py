"""`torchvet run -- COMMAND`: starts the command with the recorder's hook, looks from outside, and passes everything on.

The command keeps its standard input, its place in the terminal and its exit code; its output is passed on and kept.
What only somebody outside can see is written to wrapper_<host>_<pid>.jsonl: processes that stop, vanish or are killed,
memory of the node and of its container, the kernel log.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

from torchvet.findings import Text, UserError

from . import host_series
from .deaths import Deaths
from .folder import Lines, begin, last_line, number, read_json, write_whole
from .output import Output, streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

POLL = 1.0
"""Seconds between two looks at the ranks. The end of one is seen at once, whatever this is."""
CALM = (30.0, 3.0)
"""After so many seconds without a rank that comes, goes or stands still: seconds between two looks."""
BEATS = 5.0
"""Seconds between two looks at when ranks gave their last sign."""
SERIES = 10.0
"""Seconds between two lines about the node."""
GPU_SERIES = 30.0
"""Seconds between two questions to nvidia-smi."""
STALE = 10.0
"""Seconds without a beat from which on a process is looked at from outside."""
HELD = 30.0
"""Seconds without a beat after which a process that is not stopped is asked where its main thread is: the recorder's
thread does not get the GIL."""
PASSED_ON = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
"""Signals that a scheduler or a person sends to what it started: they are meant for the job."""


class Run:
    """One start of a job. `tell` prints a line for the person who watches."""

    def __init__(self, command: list[str], out: str, settings: dict[str, Any], tell: Callable[[Text], None]) -> None:
        self.command = command
        self.out = os.path.abspath(out)
        self.settings = settings
        self.tell = tell
        self.host = socket.gethostname()
        self.events: Lines | None = None
        self.deaths = Deaths()
        self.states: dict[int, str] = {}
        self.asked: set[int] = set()  # processes that were asked since their last beat
        self.gone: set[str] = set()
        self.known: dict[str, dict[str, Any]] = {}  # about.json of ranks on this node by folder
        self.elsewhere: set[str] = set()  # folders of ranks on other nodes
        self.changed = time.monotonic()  # when a rank came, went or stood still
        self.beats_at = 0.0
        self.requested = 0.0
        self.series_at = self.gpus_at = 0.0
        self.gpus_failed = 0
        self.started_up = uptime()

    # ------------------------------------------------------------------------------------------------- start
    def environment(self) -> dict[str, str]:
        """The job's environment: the user's own values stay."""
        environ = dict(os.environ)
        here = os.path.dirname(os.path.abspath(__file__))
        environ["TORCHVET_RUN_DIR"] = self.out
        environ["TORCHVET_RUN_ATTEMPT"] = str(self.attempt)
        environ["TORCHVET_RUN_SETTINGS"] = json.dumps(self.settings)
        environ["TORCHVET_SOURCE"] = os.path.dirname(os.path.dirname(here))
        paths = [os.path.join(here, "hook"), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
        environ["PYTHONPATH"] = os.pathsep.join(paths)
        return environ

    def prepare(self) -> None:
        """Make the folder. UserError when that is not possible: the job would run without evidence."""
        try:
            self.attempt = begin(self.out, self.command, os.environ, self.host)
            self.folder = os.path.join(self.out, f"attempt_{self.attempt}")
            self.events = Lines(os.path.join(self.folder, f"wrapper_{self.host}_{os.getpid()}.jsonl"))
            self.event("begin", command=self.command, cwd=os.getcwd(), pid=os.getpid(), uptime=self.started_up)
        except OSError as e:
            raise UserError(
                Text("{out} cannot be written: {why}", "无法写入 {out}：{why}", out=self.out, why=e.strerror or str(e)),
                Text("--out DIR names another folder", "用 --out DIR 指定其他文件夹"),
            ) from None

    def run(self) -> int:
        """Run the command to its end and give its exit code (negative: the signal that ended it)."""
        self.prepare()
        output = self.keep_output()
        try:
            child = subprocess.Popen(self.command, env=self.environment(), close_fds=False, **streams_of(output))
        except OSError as e:
            raise UserError(
                Text("{command} cannot be started: {why}", "无法启动 {command}：{why}", command=self.command[0],
                     why=e.strerror or str(e)),
                Text("torchvet run [OPTIONS] -- COMMAND ...", "torchvet run [选项] -- 命令 ..."),
            ) from None  # fmt: skip
        self.child = child
        restored = self.pass_signals(child)
        if output is not None:
            output.start()
            if hasattr(signal, "SIGWINCH"):
                resized = output.resized
                restored.append((signal.SIGWINCH, signal.signal(signal.SIGWINCH, lambda *_: resized())))
        try:
            code = None
            self.deaths.add(child.pid)
            while code is None:
                self.deaths.wait(POLL if time.monotonic() - self.changed < CALM[0] else CALM[1])
                code = child.poll()
                if code is None:
                    self.fenced(self.look)
        finally:
            for number_, handler in restored:
                signal.signal(number_, handler)
        if output is not None:
            self.fenced(output.end)
        self.fenced(lambda: self.finish(code))
        return code

    def keep_output(self) -> Output | None:
        if not self.settings.get("output", True):
            return None
        try:
            return Output(self.folder, f"{self.host}_{os.getpid()}")
        except OSError:  # a full disk: the command gets the streams themselves
            return None

    def pass_signals(self, child: subprocess.Popen[bytes]) -> list[tuple[int, Any]]:
        """Signals to this process go on to the command; Ctrl-C reaches it by the terminal anyway."""
        restored: list[tuple[int, Any]] = []

        def on(number_: int, _: Any) -> None:
            self.fenced(lambda: self.event("signal", signal=number_))
            if child.poll() is None and "SLURM_STEP_ID" not in os.environ:  # Slurm signals every process of a step
                child.send_signal(number_)

        for name in PASSED_ON:
            number_ = getattr(signal, name, None)
            if number_ is not None and signal.getsignal(number_) != signal.SIG_IGN:
                restored.append((number_, signal.signal(number_, on)))

        def interrupted(number_: int, _: Any) -> None:
            self.fenced(lambda: self.event("signal", signal=number_))
            if not in_foreground() and child.poll() is None:
                child.send_signal(number_)  # not from a terminal: only this process was meant to get it

        restored.append((signal.SIGINT, signal.signal(signal.SIGINT, interrupted)))
        return restored

    # ------------------------------------------------------------------------------------------------- look
    def ranks(self) -> list[tuple[str, dict[str, Any]]]:
        """(folder, about.json) of the ranks on this node, in this attempt and its restarts. Thousands of ranks may
        share the folder of a run: each is read once."""
        out = []
        for attempt in sorted(os.listdir(self.out)):
            n = number(attempt)
            if n is None or n < self.attempt:
                continue
            folder = os.path.join(self.out, attempt)
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if not name.startswith("rank_") or path in self.elsewhere:
                    continue
                about = self.known.get(path)
                if about is None:
                    about = read_json(os.path.join(path, "about.json"))
                    if about is None:
                        continue
                    if about.get("node") != self.host:
                        self.elsewhere.add(path)
                        continue
                    self.known[path] = about
                    self.changed = time.monotonic()
                out.append((path, about))
        return out

    def look(self) -> None:
        now = time.time()
        self.deaths.wait(0)
        ranks = self.ranks()
        for _, about in ranks:
            self.deaths.add(int(about["pid"]))
        ranks.sort(key=lambda row: self.deaths.when(int(row[1]["pid"])))  # who died first is told first
        beats = not now - BEATS < self.beats_at <= now
        if beats:
            self.beats_at = now
        for folder, about in ranks:
            if folder in self.gone or os.path.exists(os.path.join(folder, "end.json")):
                continue
            pid, rank = int(about["pid"]), about["rank"]
            state = host_series.state(pid)
            if state in ("", "Z", "X"):
                self.gone.add(folder)
                self.changed = time.monotonic()
                last = last_line(os.path.join(folder, "beats.jsonl")) or {}
                when = self.deaths.when(pid)
                died = round(when, 3) if when <= time.time() else None
                self.event("vanished", rank=rank, pid=pid, died=died, step=last.get("step"), last_beat=last.get("t"))
                continue
            if not beats and state != "T" and pid not in self.states:
                continue
            beat = last_line(os.path.join(folder, "beats.jsonl"))
            silent = now - beat["t"] if beat else 0.0
            if silent > STALE or state == "T":
                self.changed = time.monotonic()
                if self.states.get(pid) != state:
                    self.states[pid] = state
                    self.event("state", rank=rank, pid=pid, state=state, silent=round(silent, 1))
                    if state != "T" and self.settings.get("stacks", True):
                        self.stacks_from_outside(folder, pid)
                if silent > HELD and state != "T":
                    self.ask(pid, int(about.get("asked_by") or 0))
            elif pid in self.states:
                del self.states[pid]
                self.asked.discard(pid)
                self.event("state", rank=rank, pid=pid, state=state, silent=0)
        self.look_for_request()
        if now - self.series_at >= SERIES and self.settings.get("host", True):
            self.series_at = now
            more = {**host_series.shared_memory(), **host_series.cgroup()}
            if now - self.gpus_at >= GPU_SERIES and self.gpus_failed < 2:
                self.gpus_at = now
                more["gpus"] = self.gpus()
            self.event("node", available=host_series.available(), **more)

    def gpus(self) -> list[list[int]]:
        """[index, MiB used, MiB in all, % busy] of each GPU; empty where nothing answers. A driver that hangs is asked
        twice, no more."""
        query = [
            "nvidia-smi",
            "--query-gpu=index,memory.used,memory.total,utilization.gpu",
            "--format=csv,noheader,nounits",
        ]
        try:
            done = subprocess.run(query, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5)
            rows = [[int(float(x)) for x in line.split(",")] for line in done.stdout.splitlines()]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            rows = []
        self.gpus_failed = 0 if rows else self.gpus_failed + 1
        return rows

    def look_for_request(self) -> None:
        """Somebody stalls: say so once, with the rank that told."""
        path = os.path.join(self.folder, "dump-request")
        try:
            asked = os.stat(path).st_mtime
        except OSError:
            return
        if asked <= self.requested:
            return
        self.requested = asked
        row = last_line(path)
        if row is not None:
            self.event("stall", told_by=row.get("rank"), still=row.get("still"))
            self.tell(
                Text(
                    "rank {rank} has not moved for {seconds} s; dumps of the ranks are saved - torchvet diagnose {out}",
                    "rank {rank} 已 {seconds} 秒没有进展；各 rank 的转储已保存 - torchvet diagnose {out}",
                    rank=row.get("rank"), seconds=round(row.get("still") or 0), out=os.path.relpath(self.out),
                )
            )  # fmt: skip

    def stacks_from_outside(self, folder: str, pid: int) -> None:
        """py-spy sees the stacks of a process whose GIL is held. It may be absent or not permitted."""
        try:
            done = subprocess.run(
                ["py-spy", "dump", "--nonblocking", "--pid", str(pid)],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return
        if done.returncode == 0:
            write_whole(os.path.join(folder, "pyspy.txt"), done.stdout)

    def ask(self, pid: int, number: int) -> None:
        """Have the main thread of a silent process write its stack, by a signal that the recorder handles."""
        if number and pid not in self.asked and host_series.catches(pid, number):
            self.asked.add(pid)
            os.kill(pid, number)

    # ------------------------------------------------------------------------------------------------- end
    def finish(self, code: int) -> None:
        self.look()
        log = host_series.kernel_log(self.started_up, uptime())
        if log:
            write_whole(os.path.join(self.folder, f"kernel_{self.host}.log"), "\n".join(log).encode() + b"\n")
        self.event("end", code=code, kernel_lines=len(log), **host_series.cgroup())

    def event(self, kind: str, **values: Any) -> None:
        assert self.events is not None
        self.events.add(
            {"t": round(time.time(), 3), "event": kind, **values}, sync=kind in ("end", "signal", "vanished")
        )

    def fenced(self, action: Callable[[], object]) -> None:
        """What fails here must not reach the job: a full disk costs the evidence, not the run."""
        try:
            action()
        except Exception as e:
            if os.environ.get("TORCHVET_DEBUG"):
                print(f"torchvet run: {type(e).__name__}: {e}", file=sys.stderr)


def in_foreground() -> bool:
    """Whether Ctrl-C reaches this process and its children by a terminal, wherever their streams lead."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


def uptime() -> float:
    """Seconds since the node started, as the kernel log counts; 0 when unknown."""
    fields = host_series.text("/proc/uptime", 100).split()
    return float(fields[0]) if fields else 0.0


def end_as(code: int) -> int:
    """The exit code for `code` of a child. A signal that ended the child ends this process the same way."""
    if code >= 0:
        return code
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the job's own core dump is the one of interest
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    except (OSError, ValueError, ImportError):
        pass
    return 128 - code
