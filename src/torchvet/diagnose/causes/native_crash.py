"""Native code ended a process: a bad access or an abort on the host, an illegal access or assertion on the GPU."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, POSSIBLE, PROBABLE, STRONG, WEAK, Cause, Hypothesis, Link
from ..ranks import SIGNAL_NAMES, failed
from ._say import beside, launcher_claim, lost_peers, named, only_rank, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="native-crash", name="native-crash", summary=Text("native code ended a process", "本地代码使进程终止")
)
_CRASHES = {
    -11: "segmentation fault",
    -4: "illegal instruction",
    -8: "floating point exception",
    -7: "bus error",
    -6: "abort",
    139: "segmentation fault",
    132: "illegal instruction",
    136: "floating point exception",
    135: "bus error",
    134: "abort",
}
_PROGRAM = {"illegal access": "illegal memory access", "assert": "device assertion"}
PROGRAM_XIDS = {13, 31, 43, 45, 69}
"""Xids that a program's own fault leaves (NVIDIA's catalogue): no sign of broken hardware by themselves."""


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    rows: dict[str, dict[int | None, list[Fact]]] = {}
    for fact in case.of("device-error"):
        sub = _PROGRAM.get(str(fact.values.get("what")))
        if sub and not _broken(case, fact.rank):
            rows.setdefault(sub, {}).setdefault(fact.rank, []).append(fact)
    told = {r for by in rows.values() for r in by}
    for number, rank in case.ranks.items():
        sub = _CRASHES.get(rank.code or 0)
        if sub and number not in told and not rank.closed:
            facts = case.of("exit", rank=number)[:1] + _own(case, number)
            if sub != "abort" or _aborted(case, number):
                rows.setdefault(sub, {})[number] = facts
                told.add(number)
    for fact in case.of("crash", "segfault"):
        if fact.quality == STRONG and fact.rank not in told and (fact.rank is not None or len(case.ranks) < 2):
            sub = (
                _CRASHES.get(-int(fact.values.get("signal") or 0))
                or str(fact.values.get("what") or "segmentation fault").lower()
            )
            rows.setdefault(sub, {}).setdefault(fact.rank, []).append(fact)
    for fact in case.of("worker"):
        if "Segmentation" in str(fact.values.get("signal", "")) and fact.rank not in told:
            rows.setdefault("segmentation fault", {}).setdefault(fact.rank, []).append(fact)
    for sub, by in rows.items():
        yield _hypothesis(case, sub, by)


def _own(case: Case, rank: int) -> list[Fact]:
    return [f for f in case.of("crash", "segfault", rank=rank) if f.quality != WEAK]


def _aborted(case: Case, rank: int) -> bool:
    """SIGABRT is also the end that PyTorch gives a rank that waited too long, lost a peer or found its GPU gone."""
    if any(f.quality == STRONG for f in case.of("crash", rank=rank)):
        return True
    return not case.of(
        "watchdog", "lost", "size", "heartbeat", "gil", "async-error", "device-error", "mismatch", rank=rank
    ) and not any(case.of("nccl-error", "nccl-completion", "rendezvous", "config", rank=rank))


def _broken(case: Case, rank: int | None) -> bool:
    """A record of the kernel says that the device itself failed."""
    return any(f.values.get("number") not in PROGRAM_XIDS and (f.rank == rank or rank is None) for f in case.of("xid"))


def _hypothesis(case: Case, sub: str, by: dict[int | None, list[Fact]]) -> Hypothesis:
    ranks = sorted(r for r in by if r is not None) or only_rank(case)
    facts = [f for rows in by.values() for f in rows]
    raised = beside(case, facts)
    device = sub in _PROGRAM.values()
    site = site_in([*raised, *facts])
    # a crash on the GPU is reported at a later call; with several ranks the first to print is not the first to fail
    out = Hypothesis("native-crash", sub, _summary(sub, ranks, site, device, facts), ranks, PROBABLE, site)
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
    if sub == "abort" and not _strong(facts):
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
    out.side = failed(case) is False
    return out


def _strong(facts: list[Fact]) -> bool:
    return any(f.kind in ("crash", "segfault") and f.quality == STRONG for f in facts)


def _summary(sub: str, ranks: list[int], site: tuple[str, int] | None, device: bool, facts: list[Fact]) -> Text:
    at = Text(" at {path}:{line}", "（{path}:{line}）", path=site[0], line=site[1]) if site else Text("")
    if device:
        return Text(
            "{who}: {sub} on the GPU, reported{at}",
            "{who}：GPU 上发生 {sub}，报告位置{at}",
            who=named(ranks),
            sub=sub,
            at=at,
        )
    library = next((f.values["library"] for f in facts if f.values.get("library")), "")
    inside = Text(" in {library}", "（{library}）", library=library) if library else Text("")
    return Text(
        "{who} ended by a {sub}{inside}{at}",
        "{who} 因 {sub} 结束{inside}{at}",
        who=named(ranks),
        sub=sub,
        inside=inside,
        at=at,
    )
