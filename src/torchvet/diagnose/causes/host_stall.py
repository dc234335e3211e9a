"""A rank is alive and does not come to the call in which its peers wait: its host thread is elsewhere."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import ALIVE, HALTED, absence, unseen
from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, WEAK, Cause, Hypothesis, Link
from ..ranks import failed
from ..said import and_waiters, claim_of_launcher, last_words, stack_links, sure, waiting, who
from ..waits_stacks import COLLECTIVE, HANDLE, PAIRS, RECEIVE, SEND
from ._host_stall import WORDS, activity, says_gil, stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="host-stall",
    name="host-stall",
    summary=Text("a rank is busy elsewhere while its peers wait for it", "某个 rank 在别处忙碌，其他 rank 在等待它"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    waits = case.waits
    held = {f.rank: f for f in case.of("heartbeat", "gil") if f.rank is not None}  # "gil" last: it says more
    alone = set(held) if len(held) == 1 and not case.of("watchdog") else set()  # its peers had no time to wait too long
    stuck = set(waits.stuck_ranks())
    found: dict[str, list[int]] = {}
    for rank in sorted({*waits.roots, *(r for r in held if says_gil(held[r])), *alone}):
        at = waits.places.get(rank)
        if rank in stuck or absence(waits, rank).how != ALIVE or (waits.busy(rank) and rank not in held):
            continue
        if at is not None and at.what in (SEND, RECEIVE, PAIRS, HANDLE):
            continue  # it waits for a partner: p2p-partner-missing
        found.setdefault(activity(case, rank, held.get(rank)), []).append(rank)
    for sub, ranks in found.items():
        yield _hypothesis(case, sub, ranks, [held[r] for r in ranks if r in held])
    if not found and not waits.told_apart:
        yield from (h for h in unseen(case) if h.cause == CAUSE.kind)


def _hypothesis(case: Case, sub: str, ranks: list[int], monitors: list[Fact]) -> Hypothesis:
    waits = case.waits
    lacking = waits.waiting_for(ranks[0])
    links = [waiting(w) for w in waits.waits_for_each(ranks)] + stack_links(waits, ranks)
    for fact in monitors[:2]:
        text = Text(
            "monitor of rank {rank}: {text}", "rank {rank} 的监控线程：{text}", rank=fact.rank, text=fact.text[:160]
        )  # fmt: skip
        links.append(Link(fact, text, STRONG))
    for fact in filter(None, (stopped(case, r) for r in ranks)):
        links.append(Link(fact, HALTED[str(fact.values["state"])], STRONG))
    at = waits.places.get(ranks[0])
    site = at.site if at is not None and at.what != COLLECTIVE else None
    doing = WORDS.get(sub, Text("stopped issuing calls", "不再发起调用"))
    if len(ranks) > 1:
        doing = Text(doing.en.replace("was busy with its", "were busy with their").replace("was ", "were "), doing.zh)
    where = Text("")
    if at is not None and site:
        where = Text(
            " (in {name}, {path}:{line})", "（在 {name} 中，{path}:{line}）", name=at.name, path=site[0], line=site[1]
        )
    said = Text("{who} {doing}{where}", "{who} {doing}{where}", who=who(ranks), doing=doing, where=where)
    if lacking:
        w = lacking[0]
        said = and_waiters(said, w)
    silent = [r for r in ranks if r not in case.ranks or "log" not in case.ranks[r].has]
    # where it stands is not why: an error of memory or of a worker before it stands only in its log
    most = CONFIRMED if site and not silent else PROBABLE
    if site is None and lacking and lacking[0].frames:
        site = (lacking[0].frames[0][0], lacking[0].frames[0][1])  # the call that it did not make
    confidence = sure(links, most) if lacking or monitors else POSSIBLE
    out = Hypothesis("host-stall", sub, said, ranks, confidence, site, links + last_words(waits, ranks))
    out.contradicts = claim_of_launcher(waits, ranks)
    if ranks == [0] and sub in ("checkpoint", "evaluation"):
        out.rule = "long-first-rank-work"
    if silent:
        out.missing.append(Text("log of {who}: an error before the stall stands there",
                                "{who} 的日志：停顿之前的错误会在其中", who=who(silent)))  # fmt: skip
    for rank in ranks[:4]:
        if rank not in waits.places:
            out.missing.append(Text("stack of rank {rank}", "rank {rank} 的调用栈", rank=rank))
        if "recorder" not in (case.ranks[rank].has if rank in case.ranks else set()):
            out.missing.append(
                Text("flight recorder dump of rank {rank}", "rank {rank} 的 flight recorder 转储", rank=rank)
            )
    if at is None:
        out.next.append(Text("py-spy dump --pid PID on the node of rank {n}, while it stands",
                             "趁其停住时，在 rank {n} 所在节点执行 py-spy dump --pid PID", n=ranks[0]))  # fmt: skip
    out.explains = [("rank-absent", r) for r in ranks]
    if not lacking and not monitors:
        out.supports = [Link(l.fact, l.reason, WEAK if l.weight == MEDIUM else l.weight) for l in out.supports]
    return out
