"""Records of OOM kills, and whose process was killed."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..memory import growth_text, growths, size
from ..model import CONFIRMED, PROBABLE, STRONG, Hypothesis, Link
from ..ranks import failed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


KERNEL = Text("the kernel", "内核")
KILLERS = {
    "ray": Text("Ray", "Ray"), "earlyoom": Text("earlyoom", "earlyoom"),
    "systemd-oomd": Text("systemd-oomd", "systemd-oomd"),
    "lsf": Text("LSF", "LSF"), "pbs": Text("PBS", "PBS"), "condor": Text("HTCondor", "HTCondor"),
}  # fmt: skip
"""Who ends a process before the kernel has to."""

HOST = {"CONSTRAINT_NONE", "CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"}


def oom_records(case: Case) -> list[Fact]:
    """What proves an OOM kill: kernel lines, Slurm's and Kubernetes' words, a counter of the cgroup."""
    out = case.of("oom-kill")
    failed = {
        (f.values.get("pod"), f.values.get("container"))
        for f in case.of("exit")
        if f.values.get("by") == "kubernetes" and f.values.get("code") not in (None, 0, 137, 143)
    }
    out = [
        f
        for f in out
        if (f.values.get("by") != "kernel" or ours(case, f))
        # a container beside the one that failed by itself
        and not any(p == f.values.get("pod") and c != f.values.get("container") for p, c in failed)
    ]
    out += [f for f in case.of("scheduler") if memory_limit(f)]
    out += [f for f in case.of("cgroup") if (f.values.get("oom_kill") or 0) > 0]
    out += [f for f in case.of("exit") if f.values.get("what") == "Out Of Memory"]
    return out


def memory_limit(fact: Fact) -> bool:
    """A scheduler's word that the job reached its memory limit: TERM_MEMLIMIT of LSF, "mem … exceeded limit" of PBS."""
    reason = str(fact.values.get("reason", ""))
    return (
        fact.values.get("state") == "OUT_OF_MEMORY"
        or reason in ("TERM_MEMLIMIT", "TERM_SWAP")
        or (fact.values.get("by") == "pbs" and re.match(r"p?v?mem\b.*exceeded", reason) is not None)
    )


def ours(case: Case, fact: Fact) -> bool:
    """A kernel kills other programs too: this one was a rank or Python, or a rank was ended by SIGKILL."""
    return (
        fact.rank is not None
        or str(fact.values.get("process", "")).startswith(("python", "pt_", "ray", "torch"))
        or bool(by_sigkill(case))
    )


def by_sigkill(case: Case) -> list[int]:
    return [r.number for r in case.ranks.values() if r.code in (-9, 137) and not r.closed]


def victims(case: Case, records: list[Fact]) -> list[int]:
    """Whose process was killed: by its number, by its exit code, by a worker's end, by the memory that it had."""
    named_ranks = sorted({f.rank for f in records if f.rank is not None})
    if named_ranks:
        return named_ranks
    if ended := by_sigkill(case):
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
    if all(f.kind == "scheduler" for f in records) and case.of("launched"):
        return []  # the limit is that of the job, which a launcher split into ranks
    return ended if len(ended) == 1 else ranks_of(case, [])


def memory_refused(case: Case, facts: list[Fact]) -> Hypothesis:
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
