"""Where every rank is: who is at fault, who waits for whom, who was ended after that. Ranks that agree share a row."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchvet.findings import Text

from ..code import own_place
from . import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Diagnosis, Rank
    from ..waits_graph import Wait

ROOT, WAITS, GONE, OTHER = "root", "waits", "gone", "other"
ROLES = {
    ROOT: Text("at fault", "责任方"),
    WAITS: Text("waits", "等待中"),
    GONE: Text("ended", "已结束"),
    OTHER: Text("", ""),
}
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip
"""As Linux numbers them; the machine that reads may be another one."""
MOST_RANKS = 1_000_000


@dataclass(slots=True)
class Row:
    """Ranks that agree in everything that is said of them."""

    role: str
    parts: list[Text]
    ranks: list[int] = field(default_factory=list)


def rows(diagnosis: Diagnosis) -> list[Row]:
    """Roots first, then those who wait, then the others; the larger group first."""
    case = diagnosis.case
    roots = set(diagnosis.verdicts[0].ranks) if diagnosis.verdicts else set()
    numbers = set(case.ranks) | roots
    if case.world is not None and case.world <= MOST_RANKS:
        numbers |= set(range(case.world))
    told = _positions(case)
    out: dict[tuple[object, ...], Row] = {}
    for number in sorted(numbers):
        rank = case.ranks.get(number)
        where, waits = told.get(number, (None, False))
        gone = ended(rank) if rank is not None else None
        parts = [p for p in (where, gone) if p is not None]
        role = ROOT if number in roots else WAITS if waits else GONE if gone is not None else OTHER
        if not parts and role == OTHER:
            continue
        key = (role, *(str(p) for p in parts))
        out.setdefault(key, Row(role, parts)).ranks.append(number)
    order = (ROOT, WAITS, GONE, OTHER)
    return sorted(out.values(), key=lambda r: (order.index(r.role), -len(r.ranks), r.ranks[0]))


def ended(rank: Rank) -> Text | None:
    """How the process ended, as far as it is known."""
    if rank.closed:
        return Text("closed afterwards", "随后被关闭")
    if rank.code is None:
        return None
    if rank.code < 0:
        name = SIGNALS.get(-rank.code, str(-rank.code))
        return Text("ended by {signal}", "被 {signal} 终止", signal=name)
    return Text("exit code {n}", "退出码 {n}", n=rank.code)


def _positions(case: Case) -> dict[int, tuple[Text | None, bool]]:
    """rank -> (where it was last seen, does it wait for others)."""
    out: dict[int, tuple[Text | None, bool]] = {}
    for number, last in _last_calls(case).items():
        out[number] = (last, False)
    for fact in case.of("stack"):
        place = own_place(fact.values.get("main"))
        if fact.rank is not None and place is not None:
            where = Text("at {path}:{line}", "位于 {path}:{line}", path=_short(place[0]), line=place[1])
            before = out.get(fact.rank, (None, False))[0]
            said = str(before) if before is not None else ""
            if f"{_short(place[0])}:{place[1]}" in said:
                continue  # the recorder names the same line, and the call
            out[fact.rank] = (where if not said else Text("{x}; {y}", "{x}；{y}", x=where, y=before), False)
    for wait in reversed(case.waits.waits):  # the first one is the oldest, and is told
        text = _waiting(wait, len(case.waits.groups) > 1)
        for number in wait.waiters:
            out[number] = (text, True)
    for stuck in reversed(case.waits.stuck):
        text = Text("in {op} number {n}, which {who} finished", "停在 {op} 第 {n} 次，而 {who} 已完成",
                    op=stuck.op, n=f"{stuck.seq:,}", who=words.ranks(stuck.finished, 3))  # fmt: skip
        out[stuck.rank] = (text, False)
    steps = {r.step for r in case.ranks.values() if r.step is not None}
    for number, rank in case.ranks.items():
        if rank.step is not None and len(steps) > 1:
            known, waits = out.get(number, (None, False))
            step = Text("last step {n}", "最后一步 {n}", n=f"{rank.step:,}")
            out[number] = (step if known is None else Text("{x}; {y}", "{x}；{y}", x=known, y=step), waits)
    return out


def _last_calls(case: Case) -> dict[int, Text]:
    """rank -> its unfinished or last call. With several groups only an unfinished one tells something."""
    out: dict[int, Text] = {}
    several = len(case.waits.groups) > 1
    for state in case.waits.groups:
        for number, progress in state.ranks.items():
            seq = progress.open if progress.open is not None else progress.enqueued
            if not seq or number in out or (several and progress.open is None):
                continue
            if several:
                out[number] = Text("in calls that all members have joined", "所在调用的成员均已到齐")
                continue
            row = progress.row(seq)
            what = Text("call", "调用") if row is None or not row[0] else Text("{op}", op=row[0])
            said = Text("last {op} number {n}", "最后为 {op} 第 {n} 次", op=what, n=f"{seq:,}")
            if progress.open is not None or progress.backend == "gloo":  # gloo never says that a call is finished
                said = Text("{op} number {n}", "{op} 第 {n} 次", op=what, n=f"{seq:,}")
            place = own_place(row[3]) if row is not None else None
            if place is not None:
                said = Text("{x} ({path}:{line})", "{x}（{path}:{line}）", x=said, path=_short(place[0]), line=place[1])
            out[number] = said
    if several:
        for state in case.waits.groups:
            for number in state.ranks:
                out.setdefault(number, Text("no call is unfinished", "没有未完成的调用"))
    return out


def _waiting(wait: Wait, several: bool) -> Text:
    """ "waits in all_reduce number 4,212 of tp (train.py:57) for rank 5"."""
    said = Text("waits in {op}", "在 {op} 中等待", op=wait.op or "?")
    if wait.seq is not None:
        said = Text("{x} number {n}", "{x}（第 {n} 次）", x=said, n=f"{wait.seq:,}")
    if several:
        said = Text("{x} of {group}", "{x}，组 {group}", x=said, group=wait.group)
    if place := own_place(wait.frames):
        said = Text("{x} ({path}:{line})", "{x}（{path}:{line}）", x=said, path=_short(place[0]), line=place[1])
    return Text("{x} for {who}", "{x}，等 {who}", x=said, who=words.ranks(wait.absent, 3))


def _short(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def said(row: Row) -> Text:
    if not row.parts:
        return Text("nothing is known of where it stands", "不清楚它停在何处")
    out = row.parts[0]
    for part in row.parts[1:]:
        out = Text("{x}; {y}", "{x}；{y}", x=out, y=part)
    return out


def who(row: Row) -> Text:
    return words.ranks(row.ranks)
