"""A process was ended by SIGKILL or SIGTERM and nothing says by whom."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import by_signal
from ..memory import growth_text, growths
from ..model import MEDIUM, POSSIBLE, STRONG, WEAK, Cause, Hypothesis, Link
from ..ranks import SIGNAL_NAMES, failed
from ._say import named
from ._unknown import pods_ended, vanished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case

CAUSE = Cause(
    kind="unknown",
    name="unknown",
    summary=Text("a process was ended from outside, nothing says by whom", "进程被外部终止，无法判断由谁"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    ranks = sorted(r.number for r in case.ranks.values() if r.code is not None and by_signal(r.code) and not r.closed)
    if ranks:
        yield _killed(case, ranks)
        return
    pods = [
        f for f in case.of("exit") if f.values.get("by") in ("kubernetes", "docker") and f.values.get("code") == 137
    ]
    if pods and not case.of("oom-kill", "cgroup", "scheduler"):
        yield pods_ended(pods)
        return
    died = [f for f in case.of("died") if f.rank is not None]
    if died:
        yield vanished(died)
        return
    ended = [f for f in case.of("terminated") if f.values.get("by") in ("launcher", "trainer")]
    if ended and not any(r.code not in (None, 0) and not r.closed for r in case.ranks.values()):
        out = Hypothesis(
            "unknown",
            "SIGTERM from outside",
            Text(
                "the launcher received a signal from outside and closed all ranks; who sent it is not known",
                "启动器收到外部信号并关闭了所有 rank，发送者未知",
            )
            if any(f.values.get("by") == "launcher" for f in ended)
            else Text(
                "the program received SIGTERM from outside; who sent it is not known",
                "程序收到外部的 SIGTERM，发送者未知",
            ),
            [],
            POSSIBLE,
        )
        out.supports = [Link(ended[0], Text("{words}", "{words}", words=ended[0].text[:140]), STRONG)]
        out.missing.append(
            Text(
                "records of the scheduler (sacct, kubectl describe pod, events)",
                "调度器记录（sacct、kubectl describe pod、events）",
            )
        )
        yield out


def _killed(case: Case, ranks: list[int]) -> Hypothesis:
    code = case.ranks[ranks[0]].code or 0
    signal = SIGNAL_NAMES.get(9 if code == 137 else -code, f"signal {-code}")
    summary = Text("{who} was ended by {signal}; who sent it is not known", "{who} 被 {signal} 终止，发送者未知",
                   who=named(ranks), signal=signal)  # fmt: skip
    out = Hypothesis("unknown", f"{signal} by unknown", summary, ranks, POSSIBLE)
    for rank in ranks[:4]:
        step = case.ranks[rank].step
        at = Text(", last step {step}", "，最后一步 {step}", step=step) if step is not None else Text("")
        for fact in case.of("exit", rank=rank)[:1]:
            out.supports.append(
                Link(
                    fact,
                    Text(
                        "rank {r} ended with {signal}{at}",
                        "rank {r} 以 {signal} 结束{at}",
                        r=rank,
                        at=at,
                        signal=signal,
                    ),
                    STRONG,
                )
            )
    for growth in growths(case, "rss"):
        if set(growth.ranks) & set(ranks):
            reason = Text(
                "{growth} on {who}: memory pressure is possible, not proven",
                "{who} 的{growth}：可能存在内存压力，但没有证据",
                growth=growth_text(growth),
                who=named(growth.ranks),
            )
            out.supports.append(Link(growth.facts[0], reason, WEAK))
            break
    read = case.of("kernel-log")
    if read:
        out.contradicts.append(
            Link(read[0], Text("the kernel log at hand holds no OOM kill", "现有内核日志中没有 OOM kill"), MEDIUM)
        )
    out.missing = [
        Text(
            "kernel log of the node (dmesg -T, journalctl -k) for that minute",
            "该节点当时的内核日志（dmesg -T、journalctl -k）",
        ),
        Text("memory.events of the cgroup", "cgroup 的 memory.events"),
        Text("records of the scheduler (sacct, kubectl describe pod)", "调度器记录（sacct、kubectl describe pod）"),
    ]
    out.next.append(Text("dmesg -T | grep -i -E 'killed process|oom'", "dmesg -T | grep -i -E 'killed process|oom'"))
    return out
