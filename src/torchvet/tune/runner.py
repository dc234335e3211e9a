"""Runs trials: one child process that serves them, replaced when it dies, each with a hard limit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time

from torchvet.findings import Text, UserError

from .plan import Batch, Setting
from .search import Trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START = 120.0
"""Seconds that imports and the first batches may take."""


class Runner:
    """`target`: "module:function"; or a script with its words. `seconds`: of measuring a trial; `step`: of a training
    step (ignored for scripts, whose own step is measured). Use as a context manager: nothing is left behind."""

    def __init__(
        self, target: str = "", script: list[str] | None = None, seconds: float = 1.0, step: float = 0.0
    ) -> None:
        self.target = target
        self.script = script
        self.seconds = seconds
        self.step = step
        self.child: subprocess.Popen[bytes] | None = None
        self.answers = -1
        self.buffer = b""
        self.batches: int | None = None
        self.gpu = False
        self.errors = b""
        self.fork = hasattr(os, "fork") and sys.platform != "darwin"

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------- child
    def open(self) -> None:
        """Start a child. On POSIX it leads a process group, so that its workers end with it."""
        read, write = os.pipe()
        os.set_inheritable(write, True)
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environ = {**os.environ, "TORCHVET_TUNE_FD": str(write), "PYTHONPATH": os.pathsep.join(paths)}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "torchvet.tune.trial"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=environ, pass_fds=(write,), start_new_session=True,
        )  # fmt: skip
        os.close(write)
        self.answers = read
        self.buffer = b""

    def close(self) -> None:
        if self.child is not None:
            kill(self.child.pid)
            self.child.wait()
            assert self.child.stdin is not None
            try:
                self.child.stdin.close()
            except OSError:
                self.buffer = b""
            os.close(self.answers)
            self.child = None

    def send(self, row: dict[str, Any]) -> None:
        assert self.child is not None and self.child.stdin is not None
        try:
            self.child.stdin.write(json.dumps(row).encode() + b"\n")
            self.child.stdin.flush()
        except OSError:
            self.buffer = b""  # it died: `receive` will say so

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next answer, or None after the time or when the child died."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                data = os.read(self.answers, 65536)
                if not data:
                    return None
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        row: dict[str, Any] = json.loads(line)
        return row

    # ------------------------------------------------------------------------------------------------- trials
    def cost(self) -> Batch:
        """What a batch costs. UserError when the target gives no loader."""
        if self.script is not None:
            trial, row = self.run_script(Setting(0), START)
            if trial.failed:
                raise UserError(Text("{script} cannot be measured: {why}", "无法测量 {script}：{why}",
                                     script=self.script[0], why=trial.failed.render("en")))  # fmt: skip
        else:
            self.begin()
            answer = self.ask({}, START)
            if answer is None or "failed" in answer:
                raise self.unusable(answer["failed"] if answer else "")
            row = answer
        self.batches, self.gpu = row.get("batches"), bool(row.get("gpu"))
        return Batch(row["bytes"], row["storages"], row.get("seconds", 0.0), row.get("resident", 32 << 20))

    def begin(self) -> None:
        """Start the child that serves trials. UserError when the target gives no loader."""
        self.open()
        self.send({"target": self.target})
        row = self.receive(START)
        if row is None or "unusable" in row:
            self.close()
            raise self.unusable(row["unusable"] if row else "")

    def unusable(self, why: str) -> UserError:
        said = Text("{why}", "{why}", why=why) if why else Text("no answer in {n} s", "{n} 秒内没有应答", n=int(START))
        return UserError(
            Text("{target} cannot be measured: {why}", "无法测量 {target}：{why}", target=self.target, why=said),
            Text("give module:function, a function without arguments that returns a DataLoader",
                 "请给出 module:function，即一个无参数并返回 DataLoader 的函数"),
        )  # fmt: skip

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any] | None:
        """The answer of one trial: in a fork of the child, and where that hangs (threads that the user's code had
        started before), once more in a fresh process. None after the limit."""
        for fork in (True, False) if self.fork else (False,):
            if self.child is None or self.child.poll() is not None:
                self.close()
                self.begin()
            self.send({**request, "fork": fork})
            row = self.receive(limit)
            pid = None
            if row is not None and "pid" in row:
                pid = int(row["pid"])
                row = self.receive(limit)
            if not fork:
                self.close()  # it has computed: not to be forked any more
            if row is not None:
                return row
            if pid is not None:
                kill(pid)
            self.close()
            if request.get("setting", {}).get("num_workers"):
                break  # with workers this process computes nothing: it is the loader that hangs
        return None

    def measure(self, setting: Setting) -> Trial:
        """One trial. It fails rather than hang."""
        limit = 30.0 + 6 * self.seconds + 12 * self.step
        if self.script is not None:
            return self.run_script(setting, START)[0]
        row = self.ask({"setting": setting.arguments(), "seconds": self.seconds, "step": self.step}, limit)
        if row is None:
            return Trial(setting, failed=Text("no batch for {n} s: killed", "{n} 秒没有批次：已终止", n=int(limit)))
        return trial_of(setting, row)

    def run_script(self, setting: Setting, limit: float) -> tuple[Trial, dict[str, Any]]:
        assert self.script is not None
        self.open()
        self.send({"script": self.script[0], "words": self.script[1:], "setting": setting.arguments(),
                   "seconds": self.seconds})  # fmt: skip
        row = self.receive(limit)
        self.close()
        if row is None:
            row = {"failed": "the script ended or hung before a loader gave enough batches"}
        return trial_of(setting, row), row


def kill(pid: int) -> None:
    """End a process that leads a group or session, with all in it."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (OSError, AttributeError):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            return


def trial_of(setting: Setting, row: dict[str, Any]) -> Trial:
    if "failed" in row:
        return Trial(setting, failed=Text("{why}", "{why}", why=row["failed"]))
    return Trial(
        setting, waiting=row["waiting"], rate=row["rate"], shm=row["shm"], resident=row["resident"],
        started=row["started"], spread=row["spread"], busy=row["busy"], worker=row["worker"],
    )  # fmt: skip
