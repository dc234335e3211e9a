"""The memory of the host, of a container or of a process is used up."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import growth_text, growths, size
from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(kind="host-oom", name="host-oom", summary=Text("host memory is used up", "主机内存耗尽"))
_HOST = {"CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"}


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    records = _records(case)
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
            yield _refused(case, refused)
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


def _records(case: Case) -> list[Fact]:
    """What proves an OOM kill: kernel lines, Slurm's and Kubernetes' words, a counter of the cgroup."""
    out = case.of("oom-kill")
    out = [f for f in out if f.values.get("by") != "kernel" or _ours(case, f)]
    out += [
        f
        for f in case.of("scheduler")
        if f.values.get("state") == "OUT_OF_MEMORY" or f.values.get("reason") == "TERM_MEMLIMIT"
    ]
    out += [f for f in case.of("cgroup") if (f.values.get("oom_kill") or 0) > 0]
    out += [f for f in case.of("exit") if f.values.get("what") == "Out Of Memory"]
    return out


def _ours(case: Case, fact: Fact) -> bool:
    """A kernel kills other programs too: this one was a rank or Python, or a rank was ended by SIGKILL."""
    return (
        fact.rank is not None
        or str(fact.values.get("process", "")).startswith(("python", "pt_", "ray", "torch"))
        or bool(_by_sigkill(case))
    )


def _by_sigkill(case: Case) -> list[int]:
    return [r.number for r in case.ranks.values() if r.code in (-9, 137) and not r.closed]


def _victims(case: Case, records: list[Fact]) -> list[int]:
    """Whose process was killed: by its number, by its exit code, by a worker's end, by the memory that it had."""
    named_ranks = sorted({f.rank for f in records if f.rank is not None})
    if named_ranks:
        return named_ranks
    if ended := _by_sigkill(case):
        return ended
    workers = sorted(
        {f.rank for f in case.of("worker") if f.rank is not None and str(f.values.get("signal")) == "Killed"}
    )
    if workers:
        return workers
    grown = next(iter(growths(case, "rss")), None)
    if grown and len(grown.ranks) < max(2, len(case.ranks)):
        return grown.ranks
    rss = max((f.values.get("rss") or 0 for f in records), default=0)
    if rss:
        last = {
            f.rank: float(f.values["last"])
            for f in case.of("series")
            if f.values.get("name") == "rss" and f.rank is not None
        }
        near = [r for r, value in last.items() if r is not None and 0.7 * rss < value < 1.4 * rss]
        if len(near) == 1:
            return near
    ended = [
        r.number
        for r in case.ranks.values()
        if r.code not in (None, 0) and not r.closed and not any(case.of("lost", rank=r.number))
    ]
    return ended if len(ended) == 1 else ranks_of(case, [])


def _killed(case: Case, records: list[Fact]) -> Hypothesis:
    constraints = {str(f.values.get("constraint", "")) for f in records}
    sub = "host" if constraints & _HOST and "CONSTRAINT_MEMCG" not in constraints else "cgroup"
    ranks = _victims(case, records)
    limit = max((f.values.get("limit") or 0 for f in case.of("oom-limit")), default=0) or max(
        (f.values.get("memory_limit") or 0 for f in case.of("container")), default=0
    )
    if sub == "cgroup":
        at = Text(" of {limit}", "（{limit}）", limit=size(limit)) if limit else Text("")
        summary = Text(
            "the memory limit{at} of the container or job was reached; the kernel ended {who}",
            "容器或作业的内存上限{at}已达到，内核终止了 {who}",
            at=at,
            who=named(ranks),
        )
    else:
        summary = Text(
            "the memory of the host was used up; the kernel ended {who}",
            "主机内存耗尽，内核终止了 {who}",
            who=named(ranks),
        )
    out = Hypothesis("host-oom", sub, summary, ranks, PROBABLE)
    for fact in records[:6]:
        by = {
            "slurm": Text("Slurm counted an OOM kill", "Slurm 记录到 OOM kill"),
            "kubernetes": Text("Kubernetes: OOMKilled", "Kubernetes：OOMKilled"),
        }
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


def _refused(case: Case, facts: list[Fact]) -> Hypothesis:
    ranks = ranks_of(case, facts)
    raised = beside(case, facts)
    request = next((f.values["request"] for f in facts if f.values.get("request")), 0)
    amount = Text(" of {size}", " {size}", size=size(request)) if request else Text("")
    summary = Text(
        "an allocation{amount} of host memory failed on {who}",
        "{who} 的一次主机内存分配{amount}失败",
        amount=amount,
        who=named(ranks),
    )
    out = Hypothesis("host-oom", "process limit", summary, ranks, PROBABLE, site_in([*raised, *facts]))
    out.supports = [Link(f, Text("the allocator was refused memory", "分配器未能获得内存"), STRONG) for f in facts[:2]]
    for growth in growths(case, "rss"):
        if set(growth.ranks) & set(ranks):
            out.summary = Text(
                "{summary}; {growth}", "{summary}；{growth}", summary=summary, growth=growth_text(growth)
            )
            out.supports.append(Link(growth.facts[0], growth_text(growth), STRONG))
            out.confidence = CONFIRMED
            out.rule = "accumulated-graph"
            break
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.missing.append(
        Text(
            "limits of the process (ulimit -v, memory.max) and free memory of the host",
            "进程限制（ulimit -v、memory.max）与主机空闲内存",
        )
    )
    out.side = failed(case) is False
    return out
