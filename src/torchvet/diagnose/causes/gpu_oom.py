"""The memory of a GPU is used up: by one request, by another process, by fragments, by a leak, or by the job itself."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import exact, growth_text, growths, size
from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..memory import Growth
    from ..model import Case, Fact

CAUSE = Cause(kind="gpu-oom", name="gpu-oom", summary=Text("the memory of a GPU is used up", "GPU 显存耗尽"))


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    facts = [f for f in case.of("cuda-oom") if beside(case, [f]) or not _went_on(case, f)]
    growth = next(iter(growths(case, "cuda")), None)
    if not facts:
        if growth:
            yield _side(growth)
        return
    groups: dict[str, list[Fact]] = {}
    for fact in facts:
        groups.setdefault(_sub(case, fact, growth), []).append(fact)
    if len(groups) > 1:  # one line without numbers beside one with them
        groups.pop("full", None)
    for sub, rows in groups.items():
        yield _hypothesis(case, sub, rows, growth)


def _went_on(case: Case, fact: Fact) -> bool:
    """The program caught the error: no traceback holds it, and the rank printed on, raised another, or was closed later."""
    if fact.rank is not None and (case.ranks[fact.rank].closed or any(case.of("exception", rank=fact.rank))):
        return True
    return any(f.source == fact.source and f.line > fact.line + 20 for f in case.of("output"))


def _held(fact: Fact) -> tuple[float, float]:
    """(bytes reserved and not used by PyTorch, bytes that other processes hold)."""
    v = fact.values
    unused = (
        v.get("reserved") if v.get("reserved") is not None else max(0, (v.get("held") or 0) - (v.get("allocated") or 0))
    )
    others = sum(row[1] for row in v.get("others") or [])
    if not others and v.get("capacity") and v.get("process_size") is not None and v.get("free") is not None:
        others = max(0, v["capacity"] - v["free"] - v["process_size"])
    elif not others and v.get("held") and v.get("capacity"):
        others = max(0, v["capacity"] - (v.get("free") or 0) - v["held"])
    return float(unused or 0), float(others)


def _sub(case: Case, fact: Fact, growth: Growth | None) -> str:
    v = fact.values
    request, capacity = v.get("request") or 0, v.get("capacity") or 0
    if not capacity or not request:
        return "leak" if growth and (fact.rank is None or fact.rank in growth.ranks) else "full"
    unused, others = _held(fact)
    if request > capacity:
        return "too-big"
    if others > 0.15 * capacity and others + (v.get("free") or 0) >= request:
        return "other-process"
    if growth and (fact.rank is None or fact.rank in growth.ranks) and unused < 0.4 * capacity:
        return "leak"
    if unused + (v.get("free") or 0) >= request and unused > max(0.08 * capacity, 0.5 * request):
        return "fragmentation"
    if request > 0.5 * capacity:
        return "too-big"
    return "full"


def _hypothesis(case: Case, sub: str, facts: list[Fact], growth: Growth | None) -> Hypothesis:
    first = next((f for f in facts if f.values.get("capacity")), facts[0])
    ranks = ranks_of(case, facts)
    if sub == "leak" and growth and set(ranks) & set(growth.ranks):
        ranks = growth.ranks  # every rank that grows alike is at fault; the first one only met the limit
    raised = beside(case, facts)
    out = Hypothesis(
        "gpu-oom", sub, _summary(case, sub, first, ranks, growth), ranks, PROBABLE, site_in([*raised, *facts])
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
            if sub == "other-process" and pid in {row[0] for row in first.values.get("others") or []}:
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
    out.next.append(_next(sub))
    out.side = failed(case) is False
    return out


def _summary(case: Case, sub: str, fact: Fact, ranks: list[int], growth: Growth | None) -> Text:
    v = fact.values
    gpu, capacity = v.get("gpu", "?"), exact(v.get("capacity") or 0)
    request = exact(v.get("request") or 0)
    if sub == "too-big":
        return Text(
            "{who} asked for {request} at once; GPU {gpu} has {capacity}",
            "{who} 一次申请 {request}，而 GPU {gpu} 只有 {capacity}",
            who=named(ranks),
            request=request,
            gpu=gpu,
            capacity=capacity,
        )
    if sub == "other-process":
        pids = ", ".join(str(row[0]) for row in v.get("others") or []) or "?"
        return Text(
            "process {pids} outside this rank holds {size} of the {capacity} of GPU {gpu}; {who} found no room",
            "本 rank 之外的进程 {pids} 占用了 GPU {gpu} 的 {size}（共 {capacity}），{who} 无法分配",
            pids=pids,
            size=exact(_held(fact)[1]),
            capacity=capacity,
            gpu=gpu,
            who=named(ranks),
        )
    if sub == "leak" and growth:
        return Text(
            "GPU out of memory: {growth} on {who}: a leak",
            "GPU 显存耗尽：{who} 的 {growth}，属于泄漏",
            growth=growth_text(growth),
            who=named(ranks),
        )
    if sub == "fragmentation":
        return Text(
            "{who} found no {request} in one piece: {unused} are reserved by PyTorch and not used (fragmentation)",
            "{who} 找不到连续的 {request}：PyTorch 预留而未使用的有 {unused}（碎片化）",
            who=named(ranks),
            request=request,
            unused=exact(_held(fact)[0]),
        )
    if v.get("capacity"):
        return Text(
            "{who} needs more than the {capacity} of GPU {gpu} ({request} more asked, {used} in use by PyTorch)",
            "{who} 需要的显存超过 GPU {gpu} 的 {capacity}（再申请 {request}，PyTorch 已用 {used}）",
            who=named(ranks),
            capacity=capacity,
            gpu=gpu,
            request=request,
            used=exact(v.get("allocated") or 0),
        )
    return Text("{who}: CUDA out of memory", "{who}：CUDA 显存耗尽", who=named(ranks))


def _next(sub: str) -> Text:
    if sub == "other-process":
        return Text(
            "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
        )
    if sub == "leak":
        return Text(
            "torchvet check . finds values that are kept with their graph (torch.no_grad, .detach())",
            "torchvet check . 可找出连同计算图一起保留的值（torch.no_grad、.detach()）",
        )
    if sub == "fragmentation":
        return Text(
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
        )
    return Text(
        "smaller batch, activation checkpointing, or a model spread over more GPUs",
        "减小 batch、使用激活重计算，或把模型分布到更多 GPU",
    )


def _side(growth: Growth) -> Hypothesis:
    out = Hypothesis(
        "gpu-oom",
        "growth",
        Text("{growth} on {who}", "{who}：{growth}", growth=growth_text(growth), who=named(growth.ranks)),
        growth.ranks,
    )
    out.supports = [Link(f, growth_text(growth), MEDIUM) for f in growth.facts[:2]]
    out.side = True
    out.rule = "accumulated-graph"
    return out
