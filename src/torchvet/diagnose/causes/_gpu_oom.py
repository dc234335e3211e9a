"""What filled the memory of a GPU, by the numbers of the message, and its words."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import exact, growth_text
from ..model import MEDIUM, Hypothesis, Link
from ._say import named, ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory import Growth
    from ..model import Case, Fact


def was_caught(case: Case, fact: Fact) -> bool:
    """The program caught the error: no traceback holds it, and the rank printed on, raised another or was closed."""
    if fact.values.get("what") == "nccl" and case.of("nccl-error", rank=fact.rank):
        return False  # NCCL warns on standard output, its error is raised on the other stream
    if fact.rank is not None and (case.ranks[fact.rank].closed or any(case.of("exception", rank=fact.rank))):
        return True
    return any(f.source == fact.source and f.line > fact.line + 20 for f in case.of("output"))


def caught_and_left(case: Case) -> list[Fact]:
    """Errors that the program caught and that its rank did not outlive: its peers wait for it, and it printed no step
    behind the error."""
    lacking = {*case.waits.roots, *(r for s in case.waits.splits for r in s.minority)}
    return [
        f
        for f in case.of("cuda-oom")
        if f.rank in lacking
        and not any(case.of("exception", rank=f.rank))
        and not any(o.values.get("steps") and o.source == f.source and o.line > f.line for o in case.of("output"))
    ]


def owners(case: Case, facts: list[Fact]) -> list[int]:
    """Ranks of errors in the mixed output of one node: local rank N has GPU N, unless several say the same."""
    if found := ranks_of(case, facts):
        return found
    gpus = [f.values.get("gpu") for f in facts if f.values.get("capacity")]
    ended = {f.rank for f in case.of("exit") if f.values.get("by") == "block" and f.rank is not None}
    ended = {r for r in ended if not case.ranks[r].closed}
    if len(case.inventory.nodes) > 1 or not gpus or len(set(gpus)) < len(gpus) or not set(gpus) <= ended:
        return []
    return sorted(g for g in gpus if isinstance(g, int))


def held(fact: Fact) -> tuple[float, float]:
    """(bytes reserved and not used by PyTorch, bytes that other processes hold)."""
    v = fact.values
    unused = (
        v.get("reserved") if v.get("reserved") is not None else max(0, (v.get("held") or 0) - (v.get("allocated") or 0))
    )
    others = sum(size for _, size in strangers(fact))
    if (
        not v.get("others")
        and not others
        and v.get("capacity")
        and v.get("process_size") is not None
        and v.get("free") is not None
    ):
        others = max(0, v["capacity"] - v["free"] - v["process_size"])
    elif not v.get("others") and not others and v.get("held") and v.get("capacity"):
        others = max(0, v["capacity"] - (v.get("free") or 0) - v["held"])
    return float(unused or 0), float(others)


def strangers(fact: Fact) -> list[list[int]]:
    """[process, bytes] of the processes that the message names and that are not the rank itself.

    CUDACachingAllocator.cpp says "this process" of the entry with its own number. In a container the driver knows the
    process by another number, and the rank's own entry reads as "Process 3211 has ...".
    """
    v = fact.values
    rows = [list(row) for row in v.get("others") or []]
    mine = (v.get("allocated") or 0) + (v.get("reserved") or 0)
    used = (v.get("capacity") or 0) - (v.get("free") or 0)
    if v.get("process_size") is not None or not mine or sum(size for _, size in rows) + mine <= 1.02 * used:
        return rows
    own = min((row for row in rows if row[1] >= 0.98 * mine), key=lambda row: row[1], default=None)
    return [row for row in rows if row is not own]


def kind_of(case: Case, fact: Fact, growth: Growth | None) -> str:
    v = fact.values
    request, capacity = v.get("request") or 0, v.get("capacity") or 0
    if not capacity or not request:
        return "leak" if growth and (fact.rank is None or fact.rank in growth.ranks) else "full"
    unused, others = held(fact)
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


def summarised(case: Case, sub: str, fact: Fact, ranks: list[int], growth: Growth | None) -> Text:
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
        pids = ", ".join(str(row[0]) for row in strangers(fact)) or "?"
        peers = {r.number for r in case.ranks.values() if r.pid in {row[0] for row in strangers(fact)}} - set(ranks)
        if len(peers) == len(strangers(fact)) > 0:
            return Text(
                "{peers} hold {size} of the {capacity} of GPU {gpu}, which is that of {who}: {who} found no room",
                "{peers} 在 {who} 的 GPU {gpu} 上占用了 {size}（共 {capacity}），{who} 无法分配",
                peers=named(peers), size=exact(held(fact)[1]), capacity=capacity, gpu=gpu, who=named(ranks),
            )  # fmt: skip
        return Text(
            "process {pids} outside this rank holds {size} of the {capacity} of GPU {gpu}; {who} found no room",
            "本 rank 之外的进程 {pids} 占用了 GPU {gpu} 的 {size}（共 {capacity}），{who} 无法分配",
            pids=pids,
            size=exact(held(fact)[1]),
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
            unused=exact(held(fact)[0]),
        )
    if v.get("capacity"):
        return Text(
            "{who} {need} more than the {capacity} of GPU {gpu} ({request} more asked, {used} in use by PyTorch)",
            "{who} 需要的显存超过 GPU {gpu} 的 {capacity}（再申请 {request}，PyTorch 已用 {used}）",
            who=named(ranks),
            capacity=capacity,
            gpu=gpu,
            request=request,
            used=exact(v.get("allocated") or 0),
            need="need" if len(ranks) > 1 else "needs",
        )
    return Text("{who}: GPU out of memory", "{who}：GPU 显存耗尽", who=named(ranks))


def advice(sub: str) -> Text:
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


def growth_beside(growth: Growth) -> Hypothesis:
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
