"""The network between the GPUs failed: a link went down, a transfer ran out of retries, an NVSwitch had an error."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import launcher_claim, named, ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(kind="fabric", name="fabric", summary=Text("the network between the GPUs failed", "GPU 之间的网络出错"))
_FABRIC = re.compile(
    r"NET/IB|ibv_\w+ failed|Call to ibv_|async fatal event|Got async "
    r"event|local_work_queue|IBV_|port error|NET/OFI|NVLS|"
    r"NET/Socket ?: (?:Connection|socket|peer)|connect to \S+ failed|RoCE|gid|[Uu]nable to (?:connect|reach)"
)
_HARMLESS = re.compile(
    r"Failed to open libibverbs|No device found|NET/Plugin|Could not find|ibvwrap|unhandled|Using network"
)
# completion status of a transfer (infiniband/verbs.h); 5 only follows another error of the same queue
_STATUS = {
    12: "retry exceeded",
    13: "receiver not ready",
    4: "protection error",
    10: "remote access error",
    11: "remote operation error",
    9: "remote invalid request",
    5: "flushed",
}


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    completions = [f for f in case.of("nccl-completion") if f.values.get("status")]
    warned = [
        f
        for f in case.of("nccl-warn")
        if _FABRIC.search(str(f.values.get("message"))) and not _HARMLESS.search(str(f.values.get("message")))
    ]
    down = [f for f in case.of("link") if f.values.get("state") == "down"]
    switch = case.of("sxid")
    facts = completions + [f for f in warned if not any(c.source == f.source and c.line == f.line for c in completions)]
    if not facts and not (switch and case.of("lost", "nccl-error", "async-error", "watchdog")):
        if down and case.of("watchdog", "nccl-error"):
            facts = case.of("nccl-error")
        if not facts:
            return
    ranks = ranks_of(case, facts)
    yield _hypothesis(case, facts, down, switch, ranks)


def _hypothesis(case: Case, facts: list[Fact], down: list[Fact], switch: list[Fact], ranks: list[int]) -> Hypothesis:
    status = next(
        (f.values["status"] for f in facts if f.values.get("status") in _STATUS and f.values["status"] != 5), None
    )
    word = f"completion status {status} ({_STATUS[status]})" if status else ""
    if down:
        device = str(down[0].values.get("device") or down[0].values.get("bus") or "?")
        node = str(down[0].values.get("node") or "")
        at = f"{node} {device}".strip()
        sub = "IB link down"
        summary = Text(
            "link {at} went down{status}; {who} report it",
            "链路 {at} 断开{status}；由 {who} 报告",
            at=at,
            who=named(ranks),
            status=Text(": {word}", "：{word}", word=word) if word else "",
        )
    elif switch and not facts:
        number = switch[0].values.get("number")
        sub = "NVSwitch"
        summary = Text(
            "an NVSwitch reported SXid {n} ({device})",
            "NVSwitch 报告 SXid {n}（{device}）",
            n=number,
            device=switch[0].values.get("device"),
        )
    else:
        sub = "retry exceeded" if status == 12 else "transfer error"
        text = word or str(facts[0].values.get("message", ""))[:100]
        summary = Text(
            "transfers between nodes failed on {who}: {what}",
            "{who} 的节点间传输失败：{what}",
            who=named(ranks),
            what=text,
        )
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
        back = next(
            (
                f
                for f in case.of("link")
                if f.values.get("state") == "up"
                and f.source == fact.source
                and f.order > fact.order
                and f.values.get("device") == fact.values.get("device")
            ),
            None,
        )
        wait = (back.time or 0) - (fact.time or 0) if back and back.time and fact.time else 0
        reason = (
            Text("the port was down for {n:.0f} s", "端口断开 {n:.0f} 秒", n=wait)
            if wait > 0
            else Text("the port was down", "端口处于断开状态")
        )
        out.supports.append(Link(fact, reason, STRONG))
        out.confidence = CONFIRMED
    out.supports += [Link(f, Text("SXid {n}", "SXid {n}", n=f.values.get("number")), STRONG) for f in switch[:2]]
    own = [r for r in case.ranks.values() if r.number not in ranks and r.code not in (None, 0, -6) and not r.closed]
    died = [
        f
        for f in case.of("exception")
        if not f.values.get("victim") and not f.values.get("ignored") and f.rank is not None
    ]
    if (own or died) and not down:
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
