"""Where every rank is: who is at fault, who waits for whom, who was ended after that. Ranks that agree share a row."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchvet.findings import Text

from ..code import own_place
from . import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Diagnosis, Fact, Rank

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
        if not parts:
            parts = [Text("nothing is known of it", "没有任何信息")]
        role = ROOT if number in roots else WAITS if waits else GONE if gone is not None else OTHER
        key = (role, *(str(p) for p in parts))
        out.setdefault(key, Row(role, parts)).ranks.append(number)
    order = (ROOT, WAITS, GONE, OTHER)
    return sorted(out.values(), key=lambda r: (order.index(r.role), -len(r.ranks), r.ranks[0]))


def ended(rank: Rank) -> Text | None:
    """How the process ended, as far as it is known."""
    if rank.closed:
        return Text("closed after another rank had ended", "在其他 rank 结束后被关闭")
    if rank.code is None:
        return None
    if rank.code < 0:
        name = SIGNALS.get(-rank.code, str(-rank.code))
        return Text("ended by {signal}", "被 {signal} 终止", signal=name)
    return Text("exit code {n}", "退出码 {n}", n=rank.code)


def _positions(case: Case) -> dict[int, tuple[Text | None, bool]]:
    """rank -> (where it was last seen, does it wait in a call)."""
    out: dict[int, tuple[Text | None, bool]] = {}
    steps = {n: r.step for n, r in case.ranks.items() if r.step is not None}
    groups = {f.values.get("group") for f in case.of("progress", "call", "watchdog") if f.values.get("group")}
    for kind, tell in (("stack", _of_stack), ("progress", _of_progress), ("watchdog", _of_call), ("call", _of_call)):
        for fact in case.of(kind):
            if fact.rank is None:
                continue
            said = tell(fact, len(groups) > 1)
            if said is not None:
                before = out.get(fact.rank)
                if before is None or said[1] or not before[1]:
                    out[fact.rank] = said
    for number, step in steps.items():
        where, waits = out.get(number, (None, False))
        last = Text("last step {n}", "最后一步 {n}", n=f"{step:,}")
        out[number] = (last if where is None else Text("{x}, {y}", "{x}，{y}", x=where, y=last), waits)
    return out


def _group(values: dict[str, object]) -> Text:
    return Text(" of {group}", "（组 {group}）", group=values.get("description") or values.get("group"))


def _of_call(fact: Fact, several: bool) -> tuple[Text, bool] | None:
    values = fact.values
    op, seq = values.get("op"), values.get("seq")
    if op is None or values.get("state") == "completed":
        return None
    said = Text("in {op}", "停在 {op}", op=op)
    if isinstance(seq, int):
        said = Text("{x} number {n}", "{x} 第 {n} 次", x=said, n=f"{seq:,}")
    if several:
        said = Text("{x}{group}", x=said, group=_group(values))
    if place := own_place(values.get("frames")):
        said = Text(
            "{x} ({path}:{line})", "{x}（{path}:{line}）", x=said, path=place[0].rpartition("/")[2], line=place[1]
        )
    return said, True


def _of_progress(fact: Fact, several: bool) -> tuple[Text, bool] | None:
    enqueued = fact.values.get("enqueued")
    if not isinstance(enqueued, int) or enqueued < 0:
        return None
    said = Text("last call {n}", "最后一次调用 {n}", n=f"{enqueued:,}")
    if several:
        said = Text("{x}{group}", x=said, group=_group(fact.values))
    return said, False


def _of_stack(fact: Fact, several: bool) -> tuple[Text, bool] | None:
    place = own_place(fact.values.get("main"))
    if place is None:
        return None
    return Text("at {path}:{line}", "位于 {path}:{line}", path=place[0].rpartition("/")[2], line=place[1]), False


def said(row: Row) -> Text:
    out = row.parts[0]
    for part in row.parts[1:]:
        out = Text("{x}; {y}", "{x}；{y}", x=out, y=part)
    return out


def who(row: Row) -> Text:
    return words.ranks(row.ranks)
