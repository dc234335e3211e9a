# ruff: noqa: E501
"""What a scheduler recorded: sacct tables, `scontrol show job`, `qstat -xf`, event logs of HTCondor, SageMaker's words."""

from __future__ import annotations

import re

from ..model import MEDIUM, Fact
from .exits import loaded
from .lines import blocks, clean, words
from .patterns import size_of
from .reader import Reader
from .times import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

STATES = {
    "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "CANCELLED", "FAILED", "COMPLETED", "BOOT_FAIL", "DEADLINE", "RUNNING",
    "REQUEUED", "REVOKED", "SUSPENDED", "EVICTED", "HELD",
}  # fmt: skip
_FIELD = re.compile(
    rb"\b(JobId|JobState|Reason|ExitCode|RunTime|TimeLimit|NodeList|BatchHost|Restarts|EndTime|StartTime|PreemptTime|MinMemoryNode|NumNodes|NumTasks)=(\S+)"
)


def _row(names: list[str], cells: list[str]) -> dict[str, Any]:
    found = {n: c for n, c in zip(names, cells, strict=False) if c}
    out: dict[str, Any] = {"by": "slurm"}
    state = found.get("State", "")
    out["state"] = state.split(" ")[0].rstrip("+") if state else ""
    if found_by := re.search(r" by (\d+)$", state):  # a narrow column cuts it: "CANCELLED by 1+"
        out["cancelled_by"] = found_by.group(1)
    for ours, theirs in (
        ("job", "JobID"), ("elapsed", "Elapsed"), ("limit", "Timelimit"), ("nodes", "NodeList"), ("reason", "Reason"), ("name", "JobName"),
        ("end", "End"),
    ):  # fmt: skip
        if theirs in found:
            out[ours] = found[theirs][:200]
    if "ExitCode" in found and re.fullmatch(r"\d+:\d+", found["ExitCode"]):
        code, _, signal = found["ExitCode"].partition(":")
        out["code"], out["signal"] = int(code), int(signal)
    for ours, theirs in (("rss", "MaxRSS"), ("requested", "ReqMem")):
        if theirs in found:
            out[ours] = size_of(found[theirs].rstrip("nc"))
    return out


def _read_table(item: Item) -> Iterator[Fact]:
    names: list[str] = []
    spans: list[tuple[int, int]] = []
    bars = False
    order = 0
    for number, lines in blocks(item):
        for at, raw in enumerate(lines[:200_000]):
            line = clean(raw).decode("utf-8", "replace")
            if not line.strip():
                continue
            if "JobID" in line and "State" in line:
                bars = "|" in line
                names = [c.strip() for c in line.split("|")] if bars else line.split()
                spans = [] if bars else [(m.start(), m.end()) for m in re.finditer(r"\S+", line)]
                continue
            if not names or set(line.strip()) <= {"-", " "}:
                continue
            cells = [c.strip() for c in line.split("|")] if bars else _cells(line, names, spans)
            order += 1
            row = _row(names, cells)
            if row["state"] in STATES:
                row["step"] = "." in row.get("job", "")
                yield Fact(
                    "scheduler",
                    item.name,
                    number + at,
                    None,
                    words(line.encode()),
                    None,
                    order,
                    row,
                    MEDIUM if row["step"] else "strong",
                )


def _cells(line: str, names: list[str], spans: list[tuple[int, int]]) -> list[str]:
    """Cells of a table of blanks: a word belongs to the heading that it overlaps, or to the nearest one."""
    out = [""] * len(names)
    for word in re.finditer(r"\S+(?: by \d+)?", line):
        start, end = word.span()
        best = min(
            range(len(spans)),
            key=lambda i: max(0, spans[i][0] - end, start - spans[i][1]) * 1000 + abs(spans[i][0] - start),
        )
        out[best] = f"{out[best]} {word.group()}".strip()
    return out


def _read_show(item: Item) -> Iterator[Fact]:
    found: dict[str, str] = {}
    with item.open() as f:
        data = f.read(1 << 20)
    for name, value in _FIELD.findall(data):
        found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    row = _row(["JobID", "State", "Elapsed", "Timelimit", "NodeList", "ExitCode"],
               [found.get(n, "") for n in ("JobId", "JobState", "RunTime", "TimeLimit", "NodeList", "ExitCode")])  # fmt: skip
    if found.get("Reason", "None") != "None":
        row["reason"] = found["Reason"][:100]
    if row["state"]:
        yield Fact(
            "scheduler", item.name, 1, None, f"JobState={row['state']} Reason={row.get('reason', 'None')}", None, 1, row
        )


# 012 (8812.000.000) 2025-10-08 03:22:01 Job was held.   (condor_utils/condor_event.h; older versions: 10/08 03:22:01)
_CONDOR = re.compile(rb"^(\d{3}) \((\d+\.\d+)(?:\.\d+)?\) (?:\d{4}-\d\d-\d\d|\d\d/\d\d)[ T]\d\d:\d\d:\d\d (.*)$")
_CONDOR_EVENTS = {
    b"004": ("EVICTED", "evicted"), b"005": ("", "terminated"), b"009": ("CANCELLED", "aborted"), b"012": ("HELD", "held"),
    b"022": ("NODE_FAIL", "disconnected"), b"024": ("NODE_FAIL", "reconnect failed"),
}  # fmt: skip
_CONDOR_MEMORY = re.compile(r"(?i)memory limit|memory usage|exceeded? (?:its |the )?request_?memory|out of memory")
_CONDOR_TIME = re.compile(
    r"(?i)(?:run ?time|wall ?time|time) limit|exceeded (?:allowed|maximum) (?:job )?(?:duration|run ?time|wall ?time)|allowed_(?:job|execute)_duration"
)


def _read_condor(item: Item) -> Iterator[Fact]:
    """Events of a job log: the reason of a hold stands in the lines behind it."""
    event: Fact | None = None
    order = 0
    for number, lines in blocks(item):
        for at, raw in enumerate(lines[:200_000]):
            line = clean(raw)
            if found := _CONDOR.match(line):
                if event is not None:
                    yield event
                order += 1
                state, what = _CONDOR_EVENTS.get(found.group(1), ("", ""))
                event = None
                if state:
                    values: dict[str, Any] = {
                        "by": "condor",
                        "state": state,
                        "reason": what,
                        "job": words(found.group(2), 80),
                    }
                    event = Fact("scheduler", item.name, number + at, None, words(line), time_of(line), order, values)
            elif event is not None and line.strip() and line.strip() != b"...":
                said = words(line)
                if _CONDOR_MEMORY.search(said):
                    event.values.update(state="OUT_OF_MEMORY", reason="memory limit")
                elif _CONDOR_TIME.search(said):
                    event.values.update(state="TIMEOUT", reason="time limit")
                if len(event.text) < 200:
                    event.text = f"{event.text} {said}"[:300]
    if event is not None:
        yield event


_ENDED = {
    "MaxRuntimeExceeded": "TIMEOUT",
    "MaxWaitTimeExceeded": "TIMEOUT",
    "Interrupted": "PREEMPTED",
    "Stopped": "CANCELLED",
    "Stopping": "CANCELLED",
}


def _read_managed(item: Item) -> Iterator[Fact]:
    """`aws sagemaker describe-training-job`, `aws batch describe-jobs`."""
    value = loaded(item)
    jobs = value.get("jobs") if isinstance(value, dict) and isinstance(value.get("jobs"), list) else [value]
    for order, job in enumerate(jobs[:10_000], 1):
        if not isinstance(job, dict):
            continue
        state = str(job.get("SecondaryStatus") or job.get("TrainingJobStatus") or job.get("status") or "")
        reason = str(job.get("FailureReason") or job.get("statusReason") or "")
        row: dict[str, Any] = {
            "by": "sagemaker" if "TrainingJobStatus" in job else "batch",
            "state": _ENDED.get(state, state.upper()),
            "reason": state,
        }
        if re.search(r"(?i)host ec2 .*terminated|spot", reason):
            row["state"] = "PREEMPTED"
        elif re.search(r"(?i)attempt duration exceeded", reason):
            row["state"] = "TIMEOUT"
        elif re.search(r"(?i)OutOfMemoryError: Container killed", reason + str(job.get("container", ""))):
            row["state"] = "OUT_OF_MEMORY"
        limit = job.get("StoppingCondition")
        if row["state"] == "TIMEOUT" and isinstance(limit, dict) and isinstance(limit.get("MaxRuntimeInSeconds"), int):
            row["limit"] = f"{limit['MaxRuntimeInSeconds']} s"
        if row["state"] in STATES:
            yield Fact("scheduler", item.name, 0, None, words(f"{state} {reason}".encode()), None, order, row)


# qstat -xf, tracejob, the accounting log
_PBS_FILE = re.compile(rb"\s*(?:Job Id: |Job: \d|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;E;)")
_PBS = re.compile(
    rb"\b(Exit_status|job_state|Resource_List\.(?:walltime|mem)|resources_used\.(?:walltime|mem))\s*=\s*([^\s;]+)"
)
_PBS_KILLED = {-24: "CPULIMIT", -25: "CPULIMIT", -26: "vmem", -27: "mem", -28: "CPULIMIT", -29: "walltime"}
"""Exit statuses of jobs that PBS ended itself (pbs_error.h: JOB_EXEC_KILL_...)."""


def _seconds(text: str) -> int:
    parts = text.split(":")
    return sum(int(p) * 60**i for i, p in enumerate(reversed(parts))) if all(p.isdigit() for p in parts) else 0


def _read_pbs(item: Item) -> Iterator[Fact]:
    """`qstat -xf`, or a line of the accounting log: one job, its end and what it had used of its limits."""
    with item.open() as f:
        data = f.read(1 << 20)
    found = {name.decode(): value.decode("utf-8", "replace") for name, value in _PBS.findall(data)}
    status = found.get("Exit_status", "")
    if not re.fullmatch(r"-?\d{1,4}", status):
        return
    code = int(status)
    used, limit = (_seconds(found.get(f"{k}.walltime", "")) for k in ("resources_used", "Resource_List"))
    memory, most = (size_of(found.get(f"{k}.mem", "")) or 0 for k in ("resources_used", "Resource_List"))
    reason = _PBS_KILLED.get(code, "")
    if code and not reason and limit and used >= limit:
        reason = "walltime"
    row: dict[str, Any] = {"by": "pbs", "reason": f"{reason} exceeded limit" if reason else "", "state": "FAILED"}
    if reason == "walltime":
        row["state"], row["limit"] = "TIMEOUT", found.get("Resource_List.walltime", "")
    elif reason.endswith("mem"):
        row["state"] = "OUT_OF_MEMORY"
    elif reason:
        row["state"] = "KILLED"
    elif code in (143, 256 + 15):
        row["state"] = "CANCELLED"
    elif code == 0:
        row["state"] = "COMPLETED"
    if most:
        row["rss"], row["requested"] = memory, most
    text = " ".join(f"{name}={value}" for name, value in found.items())
    yield Fact("scheduler", item.name, 1, None, words(text.encode()), None, 1, row)
    if row["state"] in ("FAILED", "COMPLETED"):
        own = 256 - code if 256 < code < 320 else code
        yield Fact("launcher-exit", item.name, 1, None, f"Exit_status={code}", None, 2, {"code": own, "by": "pbs"})


def sniff(item: Item) -> float:
    head = item.head[:2000]
    if _PBS_FILE.match(head):
        return 0.9
    if _CONDOR.match(head.split(b"\n", 1)[0].rstrip()):
        return 0.9
    if head.lstrip()[:1] == b"{" and (b'"TrainingJobStatus"' in head or re.match(rb'\s*\{\s*"jobs":\s*\[', head)):
        return 0.9
    if re.search(rb"(?m)^\s*JobID\w*\b.*\bState\b", head):
        return 0.9
    return 0.85 if head.lstrip().startswith(b"JobId=") else 0.0


def read(item: Item) -> Iterator[Fact]:
    """`scheduler` facts: one for each job and step."""
    if item.head[:1].isdigit() and _CONDOR.match(item.head.split(b"\n", 1)[0].rstrip()):
        return _read_condor(item)
    if item.head.lstrip()[:1] == b"{":
        return _read_managed(item)
    if _PBS_FILE.match(item.head):
        return _read_pbs(item)
    return _read_show(item) if item.head.lstrip().startswith(b"JobId=") else _read_table(item)


READER = Reader("scheduler", sniff, read)
