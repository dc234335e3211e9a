"""Native code ended a process: a bad access or an abort on the host, an illegal access or assertion on the GPU."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import SIGNAL_NAMES, failed
from ._native_crash import (
    CRASHES,
    PROGRAM,
    PROGRAM_XIDS,
    crash_lines,
    device_broken,
    ended_when_closed,
    is_strong,
    own_abort,
    summarised,
)
from ._say import beside, launcher_claim, lost_peers, only_rank, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="native-crash", name="native-crash", summary=Text("native code ended a process", "本地代码使进程终止")
)
"""Xids that a program's own fault leaves (NVIDIA's catalogue): no sign of broken hardware by themselves."""


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    rows: dict[str, dict[int | None, list[Fact]]] = {}
    for fact in case.of("device-error"):
        sub = PROGRAM.get(str(fact.values.get("what")))
        if sub and not device_broken(case, fact.rank):
            rows.setdefault(sub, {}).setdefault(fact.rank, []).append(fact)
    told = {r for by in rows.values() for r in by}
    for number, rank in case.ranks.items():
        sub = CRASHES.get(rank.code or 0)
        if sub and number not in told and not rank.closed:
            facts = case.of("exit", rank=number)[:1] + crash_lines(case, number)
            if sub != "abort" or own_abort(case, number):
                rows.setdefault(sub, {})[number] = facts
                told.add(number)
    for fact in case.of("crash", "segfault"):
        if fact.values.get("what") == "Aborted":
            continue  # faulthandler's word for SIGABRT: see own_abort
        if fact.quality == STRONG and fact.rank not in told and (fact.rank is not None or len(case.ranks) < 2):
            sub = (
                CRASHES.get(-int(fact.values.get("signal") or 0))
                or str(fact.values.get("what") or "segmentation fault").lower()
            )
            rows.setdefault(sub, {}).setdefault(fact.rank, []).append(fact)
    for fact in case.of("worker"):
        if "Segmentation" in str(fact.values.get("signal", "")) and fact.rank not in told:
            rows.setdefault("segmentation fault", {}).setdefault(fact.rank, []).append(fact)
    for sub, by in rows.items():
        yield _hypothesis(case, sub, by)


def _hypothesis(case: Case, sub: str, by: dict[int | None, list[Fact]]) -> Hypothesis:
    ranks = sorted(r for r in by if r is not None) or only_rank(case)
    facts = [f for rows in by.values() for f in rows]
    raised = beside(case, facts)
    device = sub in PROGRAM.values()
    site = site_in([*raised, *facts])
    # a crash on the GPU is reported at a later call; with several ranks the first to print is not the first to fail
    out = Hypothesis("native-crash", sub, summarised(sub, ranks, site, device, facts), ranks, PROBABLE, site)
    for fact in facts[:4]:
        if fact.kind == "exit":
            name = SIGNAL_NAMES.get(-(case.ranks[fact.rank].code or 0) if fact.rank is not None else 0, "a signal")
            out.supports.append(
                Link(fact, Text("the process ended by {signal}", "进程以 {signal} 结束", signal=name), STRONG)
            )
        else:
            out.supports.append(Link(fact, Text("said by the process or the kernel", "由进程或内核给出"), STRONG))
    for fact in case.of("xid"):
        if device and fact.values.get("number") in PROGRAM_XIDS and fact.rank in ranks:
            reason = Text(
                "Xid {n}: the kernel's record of a fault of the program",
                "Xid {n}：内核对程序错误的记录",
                n=fact.values["number"],
            )
            out.supports.append(Link(fact, reason, STRONG))
    if not device and len({(f.source, f.kind) for f in facts}) > 1:
        out.confidence = CONFIRMED
    if sub == "abort" and not is_strong(facts):
        out.confidence = POSSIBLE
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    if device:
        out.missing.append(
            Text(
                "the same run with CUDA_LAUNCH_BLOCKING=1: the GPU reports late, the line is likely, not certain",
                "以 CUDA_LAUNCH_BLOCKING=1 重跑：GPU 报告滞后，该行只是可能的位置",
            )
        )
        out.next.append(Text("compute-sanitizer python …", "compute-sanitizer python …"))
    else:
        out.missing.append(Text("a core dump or the stack of the crash", "core dump 或崩溃时的调用栈"))
        out.next.append(
            Text(
                "PYTHONFAULTHANDLER=1 prints the Python stack of a crash",
                "PYTHONFAULTHANDLER=1 会打印崩溃时的 Python 调用栈",
            )
        )
    out.side = failed(case) is False or (all(ended_when_closed(case, r) for r in ranks) and bool(ranks))
    return out
