"""A scheduler ended the job: a limit of time, a preemption, a lost node, an eviction, a cancellation."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._host_oom import memory_limit
from ._scheduler_action import WHAT, own_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="scheduler-action", name="scheduler-action", summary=Text("the scheduler ended the job", "调度器结束了作业")
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    rows: dict[str, list[Fact]] = {}
    last = {f.values.get("job"): f for f in case.of("scheduler") if f.values.get("job")}
    for fact in case.of("scheduler"):
        if "COMPLETED" in str(last.get(fact.values.get("job"), fact).values.get("state")):
            continue  # a job that was put back and ended well afterwards
        words = f"{fact.values.get('state', '')} {fact.values.get('reason', '')}"
        if memory_limit(fact) or re.search(r"FAILED|COMPLETED|RUNNING", words):
            continue
        sub = next((s for pattern, s, _ in WHAT[:-1] if re.search(pattern, words, re.I)), None)
        if sub is None and re.search(WHAT[-1][0], words, re.I):
            sub = "cancelled"
        if sub:
            rows.setdefault(sub, []).append(fact)
    named = [s for s in rows if s != "cancelled"]
    if named:  # the steps of an ended job are listed as cancelled
        rows = {s: rows[s] for s in named if s != "eviction" or "node failure" not in named}
    elif "cancelled" in rows and own_failure(case):
        return  # srun cancels the other tasks when one has failed
    for sub, facts in rows.items():
        yield _hypothesis(case, sub, facts)


def _hypothesis(case: Case, sub: str, facts: list[Fact]) -> Hypothesis:
    pattern = next(text for _, s, text in WHAT if s == sub)
    limit = next((str(f.values["limit"]) for f in facts if f.values.get("limit")), "")
    node = next((str(f.values["node"]) for f in facts if f.values.get("node")), "")
    by = next((str(f.values["cancelled_by"]) for f in facts if f.values.get("cancelled_by")), "")
    summary = Text(pattern.en, pattern.zh, **pattern.fields)
    if "limit" in summary.fields:
        summary.fields["limit"] = f" ({limit})" if limit else ""
    if "node" in summary.fields:
        summary.fields["node"] = f": {node}" if node else ""
    if "why" in summary.fields:
        low = next((m for f in facts if (m := re.search(r"low on resource: ([\w-]+)", f.text))), None)
        summary.fields["why"] = (
            Text(": the node was low on {r}", "：节点的 {r} 不足", r=low.group(1)) if low else Text("")
        )
    if "by" in summary.fields:
        summary.fields["by"] = f" (uid {by})" if by else ""
    out = Hypothesis("scheduler-action", sub, summary, [], PROBABLE)
    for fact in facts[:4]:
        out.supports.append(
            Link(fact, Text("{words}", "{words}", words=fact.text[:140]), STRONG if fact.quality == STRONG else MEDIUM)
        )
    if len({f.source for f in facts}) > 1:
        out.confidence = CONFIRMED
    if sub == "cancelled":
        out.confidence = PROBABLE if by else POSSIBLE
        out.missing.append(
            Text(
                "who cancelled it: sacct -o JobID,State,ExitCode,Comment -j <job>",
                "取消者：sacct -o JobID,State,ExitCode,Comment -j <job>",
            )
        )
    steps = [r for r in case.ranks.values() if r.step is not None]
    ended = max((f.time or 0 for f in facts), default=0)
    told = max((f.time or 0 for f in case.of("output")), default=0)
    if steps and ended and told:
        gap = ended - told
        if 0 <= gap < 900:
            reason = Text("steps went on until {n:.0f} s before", "训练步一直持续到此前 {n:.0f} 秒", n=gap)
            out.supports.append(Link(None, reason, MEDIUM))
        elif gap >= 1800:
            reason = Text("nothing was printed in the last {n:.0f} min", "最后 {n:.0f} 分钟没有任何输出", n=gap / 60)
            out.contradicts.append(Link(None, reason, MEDIUM))
    out.next.append(
        {
            "time limit": Text(
                "checkpoint before the limit (#SBATCH --signal=B:USR1@600) and resume",
                "在上限前保存检查点（#SBATCH --signal=B:USR1@600）并续训",
            ),
            "preemption": Text(
                "handle SIGTERM: save and exit; requeue the job (--requeue)",
                "处理 SIGTERM：保存后退出；重新排队（--requeue）",
            ),
            "node failure": Text(
                "look at the node: scontrol show node, its kernel log", "检查该节点：scontrol show node 及其内核日志"
            ),
        }.get(sub, Text("scontrol show job, kubectl describe pod", "查看 scontrol show job、kubectl describe pod"))
    )
    out.side = failed(case) is False and sub == "cancelled"
    return out
