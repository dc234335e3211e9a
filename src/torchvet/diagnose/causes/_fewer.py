"""A rank that ran out of batches, or left one out, while its peers wait in the collective of that batch."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import own_exception
from ..model import MEDIUM, PROBABLE, STRONG, Hypothesis, Link
from ..said import and_waiters, claim_of_launcher, stack_links, waiting, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact


def fewer(case: Case) -> Iterator[Hypothesis]:
    """By the rank's own log: it says that its loop is over, or that it left a batch out, and no waiting peer does."""
    waits = case.waits
    for rank in waits.roots:
        known = case.ranks.get(rank)
        lacking = waits.waiting_for(rank)
        # words of the launcher that it ended by itself are stronger: rank-absent tells those
        if known is None or not lacking or rank in waits.places or own_exception(case, rank):
            continue
        if known.code is not None and not known.closed:
            continue
        peers = {r for w in lacking for r in w.waiters if r in case.ranks}
        steps = [s for r in peers if (s := case.ranks[r].step) is not None]
        over = _output(case, rank, "done")
        left = _output(case, rank, "skipped")
        if over and known.step is not None and steps and known.step < min(steps):
            said = Text(
                "{who} had no batches left after step {step}, its peers went on to step {most}",
                "{who} 在第 {step} 步后已没有 batch，其他 rank 继续到第 {most} 步",
                who=who([rank]), step=known.step, most=min(steps),
            )  # fmt: skip
            yield _hypothesis(case, rank, "dataset length", said, Link(over, _quoted(rank, known.last), STRONG))
        elif left and not any(_output(case, r, "skipped") for r in peers):
            words = str(left.values["skipped"]["text"])[:120]
            said = Text("{who} left out a batch that its peers did not", "{who} 跳过了其他 rank 没有跳过的 batch",
                        who=who([rank]))  # fmt: skip
            yield _hypothesis(case, rank, "skipped batch", said, Link(left, _quoted(rank, words), STRONG))


def _output(case: Case, rank: int, key: str) -> Fact | None:
    return next((f for f in case.of("output", rank=rank) if f.values.get(key)), None)


def _quoted(rank: int, words: str) -> Text:
    return Text('log of rank {rank}: "{words}"', "rank {rank} 的日志：“{words}”", rank=rank, words=words[:120])


def _hypothesis(case: Case, rank: int, sub: str, said: Text, link: Link) -> Hypothesis:
    waits = case.waits
    lacking = waits.waiting_for(rank)
    out = Hypothesis("uneven-inputs", sub, and_waiters(said, lacking[0]), [rank], PROBABLE)
    out.supports = [link, *(waiting(w) for w in lacking[:2]), *stack_links(waits, [rank])]
    for peer in lacking[0].waiters[:1]:
        for fact in case.of("output", rank=peer)[:1]:
            if case.ranks[peer].step is not None:
                text = Text("last step of rank {r}: {step}", "rank {r} 的最后一步：{step}", r=peer,
                            step=case.ranks[peer].step)  # fmt: skip
                out.supports.append(Link(fact, text, MEDIUM))
    out.contradicts = claim_of_launcher(waits, [rank])
    out.rule = "uneven-loop" if sub == "dataset length" else "local-skip"
    out.missing.append(Text("stack of rank {rank}", "rank {rank} 的调用栈", rank=rank))
    out.next.append(Text("len(loader) on every rank; DistributedSampler(drop_last=True)",
                         "检查每个 rank 的 len(loader)；DistributedSampler(drop_last=True)")
                    if sub == "dataset length" else
                    Text("decide on all ranks: all_reduce the flag, then skip everywhere",
                         "在所有 rank 上一致决定：先 all_reduce 标志，再一起跳过"))  # fmt: skip
    out.explains = [("host-stall", rank), ("rank-absent", rank)]
    return out
