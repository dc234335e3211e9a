"""The network between the GPUs failed: a link went down, a transfer ran out of retries, an NVSwitch had an error."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._fabric import FABRIC, HARMLESS, all_wait, near, outage, told
from ._say import launcher_claim, ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

ENDS = ("exit", "closing", "async-error", "lost", "heartbeat", "dump-signal")
"""What tells when the job failed, where NCCL's own lines have no time."""

CAUSE = Cause(kind="fabric", name="fabric", summary=Text("the network between the GPUs failed", "GPU 之间的网络出错"))


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    completions = [f for f in case.of("nccl-completion") if f.values.get("status")]
    warned = [
        f
        for f in case.of("nccl-warn")
        if FABRIC.search(str(f.values.get("message"))) and not HARMLESS.search(str(f.values.get("message")))
    ]
    told_when = [*completions, *case.of("nccl-error", "watchdog")]
    told_when = told_when if any("clock" in f.values or f.time for f in told_when) else case.of(*ENDS)
    down = [f for f in case.of("link") if f.values.get("state") == "down" and near(f, told_when)]
    switch = [f for f in case.of("sxid") if "Non-fatal" not in f.text and near(f, told_when)]
    warned += [f for f in case.of("device-error") if f.values.get("what") == "nvlink"]
    facts = completions + [f for f in warned if not any(c.source == f.source and c.line == f.line for c in completions)]
    if not facts and not (switch and case.of("lost", "nccl-error", "async-error", "watchdog")):
        if down and case.of("watchdog", "nccl-error"):
            facts = case.of("nccl-error")
        if not facts and not (down and all_wait(case)):
            return
    ranks = ranks_of(case, facts)
    if down and 2 * len(ranks) > len(case.ranks) and all(f.kind == "nccl-error" for f in facts):
        ranks = []  # all of them only say that a remote side is gone
    yield _hypothesis(case, facts, down, switch, ranks)


def _hypothesis(case: Case, facts: list[Fact], down: list[Fact], switch: list[Fact], ranks: list[int]) -> Hypothesis:
    sub, summary = told(facts, down, switch, ranks)
    out = Hypothesis("fabric", sub, summary, ranks, PROBABLE)
    seen: set[int | None] = set()
    for fact in facts:
        if fact.rank not in seen and len(seen) < 4:
            seen.add(fact.rank)
            out.supports.append(
                Link(
                    fact,
                    Text("rank {r} reports it", "由 rank {r} 报告", r=fact.rank if fact.rank is not None else "?"),
                    STRONG,
                )
            )
    for fact in down[:2]:
        out.supports.append(Link(fact, outage(case, fact), STRONG))
        out.confidence = CONFIRMED
    out.supports += [Link(f, Text("SXid {n}", "SXid {n}", n=f.values.get("number")), STRONG) for f in switch[:2]]
    own = [r for r in case.ranks.values() if r.number not in ranks and r.code not in (None, 0, -6) and not r.closed]
    died = [
        f
        for f in case.of("exception")
        if not f.values.get("victim") and not f.values.get("ignored") and f.rank is not None and f.rank not in ranks
    ]
    bare = not any(f.kind != "nccl-error" for f in facts)
    if (own or died) and (bare or not down):
        number = died[0].rank if died else own[0].number
        reason = Text(
            "rank {r} ended by itself: a peer that is gone looks the same",
            "rank {r} 自行结束：对端消失时现象相同",
            r=number,
        )
        out.contradicts.append(Link(died[0] if died else None, reason, STRONG))
        out.confidence = POSSIBLE
    if not down:
        out.missing.append(
            Text(
                "kernel log and ibstat or counters of the port on both nodes",
                "两端节点的内核日志与 ibstat 或端口计数器",
            )
        )
    out.contradicts += launcher_claim(case, ranks)
    out.next.append(
        Text(
            "ibstat; perfquery -x; dmesg -T | grep mlx5 on the nodes named",
            "在相关节点执行 ibstat；perfquery -x；dmesg -T | grep mlx5",
        )
    )
    out.supports += [
        Link(f, Text("NCCL lost the remote side: a follow-up", "NCCL 与远端断开：属于后果"), MEDIUM)
        for f in case.of("nccl-error")[:1]
    ]
    out.side = failed(case) is False
    return out
