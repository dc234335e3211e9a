"""The memory of a GPU is used up: by one request, by another process, by fragments, by a leak, or by the job itself."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import growth_text, growths, size
from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._gpu_oom import advice, caught_and_left, growth_beside, kind_of, owners, strangers, summarised, was_caught
from ._say import beside, launcher_claim, lost_peers, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..memory import Growth
    from ..model import Case, Fact

CAUSE = Cause(kind="gpu-oom", name="gpu-oom", summary=Text("the memory of a GPU is used up", "GPU 显存耗尽"))


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    facts = [f for f in case.of("cuda-oom") if beside(case, [f]) or not was_caught(case, f)]
    facts = facts or caught_and_left(case)
    growth = next(iter(growths(case, "cuda")), None)
    if not facts:
        if growth:
            yield growth_beside(growth)
        return
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(kind_of(case, fact, growth), []).append(fact)
    if len(groups) > 1:  # one line without numbers beside one with them
        groups.pop("full", None)
    for sub, rows in groups.items():
        yield _hypothesis(case, sub, rows, growth)


def _hypothesis(case: Case, sub: str, facts: list[Fact], growth: Growth | None) -> Hypothesis:
    first = next((f for f in facts if f.values.get("capacity")), facts[0])
    ranks = owners(case, facts)
    if sub == "leak" and growth and set(ranks) & set(growth.ranks):
        ranks = growth.ranks  # every rank that grows alike is at fault; the first one only met the limit
    raised = beside(case, facts)
    out = Hypothesis(
        "gpu-oom", sub, summarised(case, sub, first, ranks, growth), ranks, PROBABLE, site_in([*raised, *facts])
    )
    said = Text("{words}", "{words}", words=first.text[:160])
    out.supports.append(Link(first, said, STRONG))
    out.supports += [Link(f, Text("raised here", "在此抛出"), MEDIUM) for f in raised[:2]]
    if sub == "leak" and growth:
        out.supports += [Link(f, growth_text(growth), STRONG) for f in growth.facts[:2]]
        out.confidence = CONFIRMED
        out.rule = "accumulated-graph"
    for fact in case.of("device"):
        for pid, _, used in fact.values.get("processes") or []:
            if sub == "other-process" and pid in {row[0] for row in strangers(first)}:
                reason = Text(
                    "nvidia-smi: process {pid} holds {size}",
                    "nvidia-smi：进程 {pid} 占用 {size}",
                    pid=pid,
                    size=size(used),
                )
                out.supports.append(Link(fact, reason, STRONG))
                out.confidence = CONFIRMED
    if sub == "too-big":
        out.confidence = CONFIRMED  # arithmetic: the request alone is larger than the device
    if sub in ("full", "fragmentation"):
        out.missing.append(
            Text("a memory snapshot or a series of max_memory_allocated", "显存快照或 max_memory_allocated 序列")
        )
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.next.append(advice(sub))
    out.side = failed(case) is False
    return out
