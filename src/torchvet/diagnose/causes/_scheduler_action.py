"""What schedulers say, and when a cancellation is a consequence."""

from __future__ import annotations

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case


# (words in state or reason, sub, what happened)
WHAT = (
    (
        r"TIMEOUT|TIME LIMIT|RUNLIMIT|DeadlineExceeded|DEADLINE|walltime|CPULIMIT",
        "time limit",
        Text("the time limit{limit} of the job was reached", "作业达到时间上限{limit}", limit=""),
    ),
    (r"PREEMPT|SpotInterruption|TerminateScheduled", "preemption", Text("the job was preempted", "作业被抢占")),
    (
        r"NODE.?FAIL|NodeLost|NodeNotReady|BOOT_FAIL|NodeShutdown|^Shutdown",
        "node failure",
        Text("a node of the job failed{node}", "作业的一个节点失效{node}", node=""),
    ),
    (
        r"h_rt, h_cpu",
        "limit",
        Text("a limit of the queue was reached (h_rt, h_cpu or h_vmem)", "达到队列限制（h_rt、h_cpu 或 h_vmem）"),
    ),
    (r"Evict|TaintManager", "eviction", Text("the pod or job was evicted{why}", "Pod 或作业被驱逐{why}", why="")),
    (
        r"TERM_|HELD|CANCELLED|REVOKED|killed",
        "cancelled",
        Text("the job was cancelled{by}", "作业被取消{by}", by=""),
    ),
)


def own_failure(case: Case) -> bool:
    """Something else ended a rank: the cancellation follows it."""
    if any(f.values.get("state") in ("OUT_OF_MEMORY", "FAILED") for f in case.of("scheduler")) or case.of(
        "oom-kill", "cuda-oom"
    ):
        return True
    if any(
        not (f.values.get("ignored") or f.values.get("caught")) and f.values.get("type") != "KeyboardInterrupt"
        for f in case.of("exception")
    ):
        return True
    return any(r.code not in (None, 0) and not r.closed for r in case.ranks.values()) or bool(
        case.of("watchdog", "lost")
    )
