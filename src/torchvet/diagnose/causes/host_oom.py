"""The memory of the host, of a container or of a process is used up."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import growth_text, growths, size
from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._host_oom import HOST, KERNEL, KILLERS, memory_refused, oom_records, victims
from ._say import beside, launcher_claim, lost_peers, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(kind="host-oom", name="host-oom", summary=Text("host memory is used up", "主机内存耗尽"))


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    records = oom_records(case)
    growth = next(iter(growths(case, "rss")), None)
    if records:
        yield _killed(case, records)
    else:
        refused = [
            f
            for f in case.of("host-alloc")
            if not f.values.get("ignored") and (f.rank is None or not case.ranks[f.rank].closed or beside(case, [f]))
        ]
        if refused:
            yield memory_refused(case, refused)
            return
    if growth and not records:
        out = Hypothesis(
            "host-oom",
            "growth",
            Text("{growth} on {who}", "{who}：{growth}", growth=growth_text(growth), who=named(growth.ranks)),
            growth.ranks,
        )
        out.supports = [Link(f, growth_text(growth), MEDIUM) for f in growth.facts[:2]]
        out.side = True
        out.rule = "accumulated-graph"
        yield out


def _killed(case: Case, records: list[Fact]) -> Hypothesis:
    constraints = {str(f.values.get("constraint", "")) for f in records}
    sub = "host" if constraints & HOST and "CONSTRAINT_MEMCG" not in constraints else "cgroup"
    ranks = victims(case, records)
    limit = max((f.values.get("limit") or 0 for f in case.of("oom-limit")), default=0) or max(
        (f.values.get("memory_limit") or 0 for f in case.of("container")), default=0
    )
    killer = next((KILLERS[by] for f in records if (by := str(f.values.get("by"))) in KILLERS), KERNEL)
    if sub == "cgroup":
        at = Text(" of {limit}", "（{limit}）", limit=size(limit)) if limit else Text("")
        summary = Text(
            "the memory limit{at} of the container or job was reached; {killer} ended {who}",
            "容器或作业的内存上限{at}已达到，{killer} 终止了 {who}",
            at=at,
            who=named(ranks),
            killer=killer,
        )
    else:
        summary = Text(
            "the memory of the host was used up; {killer} ended {who}",
            "主机内存耗尽，{killer} 终止了 {who}",
            who=named(ranks),
            killer=killer,
        )
    out = Hypothesis("host-oom", sub, summary, ranks, PROBABLE)
    for fact in records[:6]:
        by = {
            "slurm": Text("Slurm counted an OOM kill", "Slurm 记录到 OOM kill"),
            "kubernetes": Text("Kubernetes: OOMKilled", "Kubernetes：OOMKilled"),
        }
        if str(fact.values.get("by")) not in ("kernel", *by):
            by[str(fact.values.get("by"))] = Text("{words}", "{words}", words=fact.text[:140])
        reason = by.get(str(fact.values.get("by")), Text("the kernel recorded an OOM kill", "内核记录了 OOM kill"))
        out.supports.append(Link(fact, reason, STRONG))
    for growth in growths(case, "rss")[:1]:
        out.supports.append(
            Link(
                growth.facts[0],
                Text("{growth} on {who}", "{who}：{growth}", growth=growth_text(growth), who=named(growth.ranks)),
                STRONG,
            )
        )
        if growth.flat:
            flat = Text("memory of {who} did not grow", "{who} 的内存没有增长", who=named(growth.flat))
            out.supports.append(Link(None, flat, MEDIUM))
        out.rule = "accumulated-graph"
    for rank in ranks:
        out.supports += [
            Link(f, Text("rank {r} ended with SIGKILL", "rank {r} 以 SIGKILL 结束", r=rank), MEDIUM)
            for f in case.of("exit", rank=rank)[:1]
            if case.ranks[rank].code in (-9, 137)
        ]
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    if len({f.source for f in records}) > 1 or len(out.supports) > 2:
        out.confidence = CONFIRMED
    out.next.append(
        Text(
            "memory per process over time: torchvet run -- <command> keeps it",
            "各进程内存随时间的变化：torchvet run -- <命令> 会记录",
        )
    )
    out.side = failed(case) is False
    return out
