"""DDP's Join says on every rank that some rank had no inputs left: the last steps tell which."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import MEDIUM, PROBABLE, STRONG, Hypothesis, Link
from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case


_OWN = re.compile(r"Rank \d+ exhausted all inputs")


def exhausted(case: Case) -> Iterator[Hypothesis]:
    """`throw_on_early_termination` of torch.distributed.algorithms.Join (join.py) raises on all ranks alike."""
    told = [f for f in case.of("ddp") if f.values.get("what") == "uneven"]
    named_by = {
        f.rank: f for f in case.of("exception") if f.rank is not None and _OWN.search(str(f.values.get("message")))
    }
    told = told or list(named_by.values())
    if not told:
        return
    steps = {n: r.step for n, r in case.ranks.items() if r.step is not None}
    most = max(steps.values(), default=0)
    short = sorted(n for n, s in steps.items() if s < most)
    ranks = sorted(named_by) or (short if len(steps) > 2 and 2 * len(short) < len(steps) else [])
    summary = Text("a rank had no inputs left while the others went on", "某个 rank 已没有输入，而其他 rank 仍在继续")
    if named_by:
        summary = Text("{who} had no inputs left while the others went on", "{who} 已没有输入，而其他 rank 仍在继续",
                       who=named(ranks))  # fmt: skip
    elif ranks:
        summary = Text("{who} had no inputs left at step {step}; the others went on to step {most}",
                       "{who} 在第 {step} 步已没有输入，其他 rank 继续到第 {most} 步",
                       who=named(ranks), step=steps[ranks[0]], most=most)  # fmt: skip
    out = Hypothesis("uneven-inputs", "inputs exhausted", summary, ranks, PROBABLE)
    out.supports = [Link(told[0], Text("DDP's Join says so", "DDP 的 Join 给出"), STRONG)]
    for rank in ranks[:2]:
        if rank in named_by:
            words = str(named_by[rank].values.get("message") or "")[:120]
            text = Text('rank {r} says: "{words}"', "rank {r} 输出：“{words}”", r=rank, words=words)
            out.supports.append(Link(named_by[rank], text, STRONG))
            continue
        for fact in case.of("output", rank=rank)[:1]:
            reason = Text("last step of rank {r}: {step}", "rank {r} 的最后一步：{step}", r=rank, step=steps[rank])
            out.supports.append(Link(fact, reason, MEDIUM))
    out.next.append(Text("give every rank the same number of batches: DistributedSampler(drop_last=True)",
                         "让每个 rank 的 batch 数相同：DistributedSampler(drop_last=True)"))  # fmt: skip
    out.rule = "uneven-loop"
    out.explains = [("rank-absent", r) for r in case.ranks]
    yield out
