"""The folder of a run: where things lie, and how they get there whole.

    DIR/run.json                     what was started (command, host, time, launch)
    DIR/attempt_0/                   one per start of the job; restarts of the launcher count on
        wrapper_<host>_<pid>.jsonl   events seen from outside: starts, signals, states of processes, memory of the node
        output_<host>_<pid>.log      what the command wrote to its standard output, and with
        errors_<host>_<pid>.log      the other stream, unless both lead to one place
        launcher_<host>_<pid>.json   how torchrun's workers ended, by its own words
        dump-request                 somebody stalls: every rank writes its dumps
        rank_3/
            about.json               rank, world, node, pid, versions, environment, clocks
            beats.jsonl              one line every few seconds: step, memory, progress of the process groups
            graphs.jsonl             live autograd graphs by the line that made them
            stacks.txt               stacks of all threads, each under a line that says why and when
            recorder_rank_3          flight recorder dump (pickle), recorder_rank_3.json its summary
            exception.json           an exception that ended the rank
            end.json                 how the rank ended, written last
            trouble.txt              what this package could not do

Lines are JSON. A file that is written at once appears whole: it is written under another name and renamed.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_BYTES = 4 << 20
"""Size at which a file of lines is rotated: the older half is kept as NAME.1, what is older goes."""


def write_whole(path: str, data: bytes, *, sync: bool = False) -> None:
    """Write a file so that a reader sees the old one or the new one. `sync`: also safe under loss of power."""
    part = f"{path}.part{os.getpid()}"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    except OSError:
        os.close(fd)
        fd = -1
        os.unlink(part)  # a full disk: half a file would be taken for a whole one
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    os.replace(part, path)


def write_json(path: str, value: Any, *, sync: bool = False) -> None:
    write_whole(path, json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n", sync=sync)


class Lines:
    """A file of JSON lines, bounded in size. Each line is one write, so that a crash costs at most the last one."""

    def __init__(self, path: str, most: int = MOST_BYTES) -> None:
        self.path = path
        self.most = most
        self.size = os.path.getsize(path) if os.path.exists(path) else 0

    def add(self, row: dict[str, Any], *, sync: bool = False) -> None:
        data = (
            json.dumps(row, ensure_ascii=False, default=str, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        )
        if self.size + len(data) > self.most:
            os.replace(self.path, self.path + ".1")
            self.size = 0
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        self.size += len(data)


def launch_of(environ: Any) -> str:
    """What all processes of one start have in common, "" when nothing tells: several wrappers may share a folder."""
    job = environ.get("SLURM_JOB_ID")
    if job:
        return f"slurm {job}.{environ.get('SLURM_STEP_ID', '')}.{environ.get('SLURM_RESTART_COUNT', '0')}"
    for name in ("OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "LSB_JOBID", "PBS_JOBID"):
        if environ.get(name):
            return f"{name} {environ[name]}"
    return ""


def begin(out: str, command: list[str], environ: Any, host: str) -> int:
    """Make the folder of a run (or join it) and give the number of the attempt that begins. OSError: cannot be made."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "run.json")
    launch = launch_of(environ)
    about = {"schema": 1, "command": command, "started": time.time(), "host": host, "launch": launch, "attempt": 0}
    known = read_json(path)
    if known is None:
        fresh = json.dumps(about).encode() + b"\n"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:  # another wrapper of the same start was faster
            for _ in range(50):
                known = read_json(path)
                if known is not None:
                    break
                time.sleep(0.02)
        else:
            os.write(fd, fresh)
            os.close(fd)
    attempt = 0
    if known is not None:
        if launch and known.get("launch") == launch:
            attempt = int(known.get("attempt", 0))
        else:
            attempt = 1 + max((n for n in map(number, os.listdir(out)) if n is not None), default=-1)
            write_json(path, {**about, "attempt": attempt})
    os.makedirs(os.path.join(out, f"attempt_{attempt}"), exist_ok=True)
    return attempt


def number(name: str) -> int | None:
    """The number at the end of `attempt_3` or `rank_3`."""
    head, _, tail = name.rpartition("_")
    return int(tail) if head in ("attempt", "rank") and tail.isdigit() else None


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file; None when there is none, or none yet."""
    try:
        with open(path, "rb") as f:
            found = json.loads(f.read())
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None


def last_line(path: str, reach: int = 8192) -> dict[str, Any] | None:
    """The last whole line of a file of lines."""
    try:
        with open(path, "rb") as f:
            f.seek(0, os.SEEK_END)
            size = f.tell()
            f.seek(max(0, size - reach))
            lines = f.read().split(b"\n")
        for line in reversed(lines[:-1]):
            if line:
                found = json.loads(line)
                return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        pass
    return None
