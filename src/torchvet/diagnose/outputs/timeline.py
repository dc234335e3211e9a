"""What happened when, as far as a clock tells; clocks of hosts differ, so each time carries the name of its clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torchvet.findings import Text

from .rank_map import SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Diagnosis, Fact

MILESTONES = {
    "nan": Text("a number that is none", "出现非数值"),
    "exception": Text("exception", "异常"),
    "heartbeat": Text("the watchdog is stuck", "watchdog 卡住"),
    "watchdog": Text("waited too long", "等待超时"),
    "absent": Text("did not come", "未到达"),
    "mismatch": Text("different calls", "调用不一致"),
    "lost": Text("lost a peer", "失去对端"),
    "async-error": Text("error of a collective", "集合通信出错"),
    "cuda-oom": Text("GPU out of memory", "显存不足"),
    "host-alloc": Text("no host memory", "主机内存不足"),
    "oom-kill": Text("killed: out of memory", "因内存不足被杀死"),
    "worker": Text("a DataLoader worker ended", "DataLoader worker 结束"),
    "shm": Text("shared memory", "共享内存"),
    "space": Text("no space left", "空间不足"),
    "xid": Text("GPU error", "GPU 错误"),
    "sxid": Text("NVSwitch error", "NVSwitch 错误"),
    "ecc": Text("memory error", "显存纠错错误"),
    "device-error": Text("GPU error", "GPU 错误"),
    "link": Text("network link", "网络链路"),
    "pcie": Text("PCIe error", "PCIe 错误"),
    "hung-task": Text("a task hangs in the kernel", "任务在内核中挂起"),
    "segfault": Text("segmentation fault", "段错误"),
    "crash": Text("native crash", "原生代码崩溃"),
    "scheduler": Text("scheduler", "调度器"),
    "run-signal": Text("told to end", "收到结束信号"),
    "vanished": Text("ended without a word", "无声结束"),
    "closing": Text("closed by the launcher", "被启动器关闭"),
    "exit": Text("ended", "结束"),
}
"""Kinds of facts that are events, and what they are called."""
CLOCKS = Text("times of different hosts: their clocks may differ", "时间来自不同主机：时钟可能不一致")
NO_CLOCK = Text("?: these lines carry no date, so their place in time is unknown", "?：这些行没有日期，时间未知")
_STAMP = re.compile(r"^(?:\[[A-Z]\d{3,4} [^\]]*\]|\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\]|\[ *\d+\.\d+\]|\s*what\(\):)\s*")
"""What stands before the words of a line: c10's and the kernel's stamps."""
APART = 1.0
"""Seconds: the same event on several ranks within this is one row."""


@dataclass(slots=True)
class Event:
    """`time` in seconds since 1970 (None: unknown), by the clock of `clock` ("" when there is one clock or none)."""

    time: float | None
    clock: str
    what: Text
    text: str
    place: str
    ranks: list[int] = field(default_factory=list)


def events(diagnosis: Diagnosis, most: int = 0) -> list[Event]:
    """Events with a time in order of time, then those without one in the order they were read. `most`: that many, the
    earliest of each kind first."""
    case = diagnosis.case
    out: list[Event] = []
    dated = {f.rank for f in case.of("exit") if f.time is not None and f.rank is not None}
    for kind, what in MILESTONES.items():
        by_key: dict[tuple[str, str], Event] = {}
        for fact in sorted(case.of(kind), key=lambda f: (f.time is None, f.time or 0.0)):
            if kind == "exit" and fact.time is None and fact.rank in dated:
                continue  # another place says the same, and when
            clock = _clock(case, fact)
            told = _told(fact)
            key = (clock, told)
            event = by_key.get(key)
            same = event is not None and (
                event.time == fact.time
                or (event.time is not None and fact.time is not None and fact.time - event.time <= APART)
            )
            if event is not None and same:
                if fact.rank is not None and fact.rank not in event.ranks:
                    event.ranks.append(fact.rank)
                continue
            event = Event(fact.time, clock, what, told, fact.place, [fact.rank] if fact.rank is not None else [])
            by_key[key] = event
            out.append(event)
    out = [e for e in out if e.time is not None] + [e for e in out if e.time is None]
    if most and len(out) > most:
        kept = sorted(range(len(out)), key=lambda i: (_nth_of_kind(out, i), i))[:most]
        out = [out[i] for i in sorted(kept)]
    timed = sorted((e for e in out if e.time is not None), key=lambda e: e.time or 0.0)
    return timed + [e for e in out if e.time is None]


def clocks(found: list[Event]) -> list[str]:
    return sorted({e.clock for e in found if e.time is not None})


def _nth_of_kind(found: list[Event], index: int) -> int:
    return sum(1 for e in found[:index] if e.what is found[index].what)


def _clock(case: Case, fact: Fact) -> str:
    node = fact.values.get("node") or fact.values.get("host")
    if not node and fact.rank is not None and fact.rank in case.ranks:
        node = case.ranks[fact.rank].node
    return str(node) if node and len(case.inventory.nodes) > 1 else ""


def _told(fact: Fact) -> str:
    values = fact.values
    if fact.kind == "watchdog" and values.get("op"):
        seq = values.get("seq")
        return f"{values['op']} {seq:,}" if isinstance(seq, int) else str(values["op"])
    if fact.kind == "exit":
        code = values.get("code", values.get("signal"))
        if isinstance(code, int) and code < 0:
            return SIGNALS.get(-code, str(code))
        return f"code {code}" if code is not None else fact.text[:80]
    if fact.kind == "closing":
        return str(values.get("signal") or "")
    if fact.kind == "run-signal":
        number = values.get("signal")
        return SIGNALS.get(number, str(number)) if isinstance(number, int) else str(number)
    if fact.kind == "exception" and values.get("type"):
        return f"{values['type']}: {values.get('message') or ''}"[:100].rstrip(": ")
    return _STAMP.sub("", fact.text)[:100]


def at(time: float | None) -> str:
    """ "12:55:48.098" (UTC of the clock that wrote it), "?" when unknown."""
    if time is None:
        return "?"
    from datetime import datetime, timezone

    try:
        moment = datetime.fromtimestamp(time, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return "?"
    return moment.strftime("%m-%d %H:%M:%S") + (f".{moment.microsecond // 1000:03d}" if moment.microsecond else "")
