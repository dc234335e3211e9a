"""Who speaks on a line of a merged log: the marks that launchers put before the lines of many processes."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(slots=True)
class Speaker:
    """What the marks of one line say. `key` tells voices apart; None fields are not said."""

    key: str = ""
    rank: int | None = None
    local: int | None = None
    task: int | None = None  # srun -l: a task, which is a rank only if each task is one
    node: str = ""
    pid: int | None = None


# torch prints [rankN]: before its own lines and uncaught tracebacks; torchrun --tee prints [<role><local rank>]:
_RANK = re.compile(rb"\[rank(\d{1,6})\]:?\s?")
_ROLE = re.compile(rb"\[(?!rank)([A-Za-z_]+)(\d{1,4})(?:\|\d+)?\]:")
_MOSAIC = re.compile(rb"\[(\d{1,6})\]:(?: (?=.)|(?=\S))")
_PID = re.compile(rb"\[\d{1,8}\] (?=\[rank)")
# mpirun --tag-output: [1,3]<stdout>:, [prterun-host-77@1,3]<stdout>:; SageMaker: [1,mpirank:9,algo-2]<stdout>:
_MPI = re.compile(rb"\[(?:[\w.\-]+@)?\d+,(?:mpirank:)?(\d{1,6})(?:,[\w.\-]+)?\](?:<(?:stdout|stderr|stddiag)>)?: ?")
_TASK = re.compile(rb"\s{0,5}(\d{1,6}): ")
_RAY = re.compile(rb"\((?:[\w.:/<>\- ]+?)?pid=(\d+)(?:, ip=([\w.:]+))?\)(?: \[repeated \d+x[^\]]*\])? ?")
_POD = re.compile(rb"\[(?:pod/)?([a-z0-9][a-z0-9.\-]*)(?:/([a-z0-9.\-]+))?\] ")
_KUBETAIL = re.compile(rb"\[(?=[a-z.\-]*\d)([a-z0-9][a-z0-9.]*-[a-z0-9.\-]+) [a-z0-9][a-z0-9.\-]*\] ")
_STERN = re.compile(rb"([a-z0-9][a-z0-9.\-]*-\d+) ([a-z0-9][a-z0-9.\-]*) (?= *[\[\w(~^])")
_HOST = re.compile(
    rb"((?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][\w\-]*\d[\w.\-]*): "
    rb"(?=\[rank|\[default|\[20\d\d-|Traceback|\s+File |\[E|\[W|step |iter)"
)
_STAMP = re.compile(
    rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ?(?:stdout [FP] |stderr [FP] )?)"
)
# syslog and journald: Nov 13 10:34:57 node-3 python[1063]: ; docker compose: trainer-1  | ; torchx: job/0 [default2]:
_JOURNAL = re.compile(rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.\-]+) ([\w.\-/@]+)\[(\d{1,9})\]: ?")
_SYSTEM = re.compile(
    rb"(?i)systemd|kernel|sshd|cron|sudo|dbus|docker|container|kubelet|nvidia|earlyoom|audit|su$|rsyslog"
)
_COMPOSE = re.compile(rb"([A-Za-z0-9][\w.\-]*[_\-]\d{1,5}) {2,}\| ?")
_TORCHX = re.compile(rb"[A-Za-z][\w.\-]*/\d{1,5} (?=\[[a-z]+\d+\]:)")
_MOST = 4


def speaker_of(line: bytes, tasks: bool = False, services: bool = False) -> tuple[Speaker | None, bytes, bytes]:
    """(speaker or None when nobody is named, the line without the marks, the time stamp that was cut).

    `tasks`: bare `12: ` marks are accepted (srun -l); without it they are left alone, since `3: ` begins many lines.
    `services`: so are `trainer-1  | ` (docker compose): rows of tables begin like that.
    """
    speaker: Speaker | None = None
    stamp = b""
    for _ in range(_MOST):
        first = line[:1]
        if first == b"[":
            found = _RANK.match(line)
            if found:
                speaker = speaker or Speaker()
                speaker.rank = int(found.group(1))
            elif found := _ROLE.match(line):
                speaker = speaker or Speaker()
                speaker.local = int(found.group(2))
            elif found := _MPI.match(line) or _MOSAIC.match(line):
                speaker = speaker or Speaker()
                speaker.rank = int(found.group(1))
            elif found := _PID.match(line):
                pass  # a number that some launcher puts before torch's own mark
            elif found := _POD.match(line):
                if b"-" not in found.group(1) and not found.group(2):
                    break
                speaker = speaker or Speaker()
                speaker.node = found.group(1).decode()
            elif found := _KUBETAIL.match(line):
                speaker = speaker or Speaker()
                speaker.node = found.group(1).decode()
            else:
                break
        elif first == b"(":
            found = _RAY.match(line)
            if not found:
                break
            speaker = speaker or Speaker()
            speaker.pid = int(found.group(1))
            speaker.node = (found.group(2) or b"").decode()
        elif first.isdigit() or first == b" ":
            found = _STAMP.match(line)
            if found and not stamp:
                rest = line[found.end() :]
                if rest[:1] not in (b"[", b"(") and not found.group(1).endswith((b"F ", b"P ")):
                    break
                stamp = found.group(1)
            elif tasks and (found := _TASK.match(line)):
                speaker = speaker or Speaker()
                speaker.task = int(found.group(1))
            elif first != b" " and (found := _HOST.match(line)):  # pdsh names hosts by address
                speaker = speaker or Speaker()
                speaker.node = found.group(1).decode()
            else:
                break
        elif line[3:4] == b" " and (found := _JOURNAL.match(line)):
            if _SYSTEM.match(found.group(2)) or speaker is not None:
                break
            speaker = Speaker(node=found.group(1).decode(), pid=int(found.group(3)))
        elif found := _TORCHX.match(line):
            pass
        elif found := _STERN.match(line) or _HOST.match(line) or (_COMPOSE.match(line) if services else None):
            speaker = speaker or Speaker()
            speaker.node = found.group(1).decode()
        else:
            break
        line = line[found.end() :]
    if speaker is not None:
        speaker.key = f"{speaker.node}|{speaker.pid}|{speaker.task}|{speaker.local}|{speaker.rank}"
    return speaker, line, stamp


def margin_of(line: bytes, end: int) -> re.Pattern[bytes] | None:
    """What stands before the words of every line of a log, by one line whose words begin at `end`: a time and what a
    logger or collector adds, digits and spaces left open. Marks of launchers behind it are not a part of it.

    None: no time is in it (a progress bar, words of the program).
    """
    if not 4 <= end <= _WIDEST:
        return None
    shape = line[: _mark_in(line, end) or end]
    if len(_DIGIT.findall(shape)) < 4 or b"%|" in shape:
        return None
    words = shape.rstrip()
    parts = (
        rb"\d+" if p[:1].isdigit() else rb"\s+" if p[:1].isspace() else re.escape(p) for p in _PARTS.findall(words)
    )
    return re.compile(b"".join(parts) + re.escape(shape[len(words) :]))  # frames are indented behind it


def margin_before_mark(line: bytes) -> re.Pattern[bytes] | None:
    """What stands before the mark of a launcher; None: there is no mark, or it is the begin of the line."""
    end = _mark_in(line, min(len(line), _WIDEST))
    return margin_of(line, end) if end else None


def _mark_in(line: bytes, end: int) -> int:
    """Where a mark that names a rank or a process begins behind other words; 0: there is none."""
    for at in range(1, end):
        if line[at : at + 1] in b"[(" and line[at - 1 : at] in b' "':
            speaker = speaker_of(line[at:])[0]
            if speaker is not None and any(v is not None for v in (speaker.rank, speaker.local, speaker.pid)):
                return at
    return 0


_WIDEST = 160
_DIGIT = re.compile(rb"\d")
_PARTS = re.compile(rb"\d+|\s+|[^\d\s]+")


def has_tasks(head: bytes) -> bool:
    """Whether the lines of a file begin with task numbers (srun -l): nearly all do, with more than one number."""
    lines = head.split(b"\n")[:-1] or [head]
    if len(lines) < 3:
        return False
    hits = [m.group(1) for line in lines if (m := _TASK.match(line))]
    return len(hits) >= 0.8 * len(lines) and len(set(hits)) > 1


def has_services(head: bytes) -> bool:
    """Whether nearly all lines of a file begin with the name of a service of docker compose."""
    lines = head.split(b"\n")[:-1] or [head]
    return len(lines) > 2 and sum(1 for line in lines if _COMPOSE.match(line)) >= 0.8 * len(lines)
