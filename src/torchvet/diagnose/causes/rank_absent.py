"""A rank is gone while its peers wait for it: it raised an exception, was killed, or left."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import (
    ALIVE,
    CRASHED,
    EXITED,
    KILLED,
    UNKNOWN,
    Absence,
    absence,
    missing_of_a_killer,
    said_nothing,
    told_elsewhere,
    unseen,
)
from ..model import CONFIRMED, POSSIBLE, PROBABLE, Cause, Hypothesis
from ..ranks import SIGNAL_NAMES, failed
from ..said import and_waiters, claim_of_launcher, last_words, plural, sure, waiting, who
from ._rank_absent import ended_by_itself, waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case

CAUSE = Cause(
    kind="rank-absent",
    name="rank-absent",
    summary=Text("a rank is gone, its peers wait for it or lose it", "某个 rank 已不在，其他 rank 在等待它或与它断开"),
)
MANY = 0.5  # more ranks that raised by themselves are no absent rank


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    waits = case.waits
    candidates = set(waits.roots) | {r for r in case.ranks if ended_by_itself(case, r)}
    if waits.roots:  # an exception of a rank that was waiting is a consequence
        candidates -= set(waits.waiters()) - set(waits.roots)
    gone: dict[tuple[str, str], list[Absence]] = {}
    for rank in sorted(candidates):
        found = absence(waits, rank)
        if found.how == UNKNOWN and (rank not in waits.roots or waits.busy(rank) or rank in waits.torn):
            continue
        if found.how == EXITED and found.code and rank not in waits.roots and waited(waits, rank):
            continue  # the error that it ended with is that of its wait
        felt = waits.waiting_for(rank) or case.of("lost", "watchdog") or said_nothing(case, rank, found.code)
        if found.how != ALIVE and (found.how != EXITED or felt):
            gone.setdefault((found.how, found.sub), []).append(found)
    for (how, sub), rows in gone.items():
        ranks = [a.rank for a in rows]
        if len(case.ranks) > 2 and len(ranks) > MANY * len(case.ranks) and not set(ranks) & set(waits.roots):
            continue
        yield _hypothesis(case, how, sub, rows, ranks)
    if not gone and not waits.told_apart:
        yield from (h for h in unseen(case) if h.cause == CAUSE.kind)


def _hypothesis(case: Case, how: str, sub: str, rows: list[Absence], ranks: list[int]) -> Hypothesis:
    waits = case.waits
    lacking = waits.waiting_for(ranks[0])
    links = [link for a in rows[:4] for link in a.links]
    links += [waiting(w) for w in waits.waits_for_each(ranks)]
    sites = {a.site for a in rows if a.site}
    site = rows[0].site
    where = f" ({site[0]}:{site[1]})" if site else ""
    first = rows[0]
    if how == CRASHED and first.exception is not None:
        v = first.exception.values
        message = str(v.get("message") or "").split("\n")[0][:120]
        said = Text(
            "{who} raised {name}: {message}{where}",
            "{who} 抛出 {name}：{message}{where}",
            who=who(ranks), name=str(v.get("type") or "an exception"), message=message, where=where,
        )  # fmt: skip
    elif how == KILLED:
        signal = SIGNAL_NAMES.get(9 if first.code in (None, 137) else -first.code, f"signal {-(first.code or 0)}")
        said = Text("{who} {was} ended by {signal}; who sent it is not known", "{who} 被 {signal} 终止，发送者未知",
                    who=who(ranks), was=plural(ranks, "was", "were"), signal=signal)  # fmt: skip
    elif how == UNKNOWN:
        said = Text("{who} made no further call; why is not known", "{who} 没有再发起调用，原因未知", who=who(ranks))
    else:
        code = Text("with code {code}", "（退出码 {code}）", code=first.code if first.code is not None else 0)
        said = Text("{who} left the job {code}", "{who} 离开了作业{code}", who=who(ranks), code=code)
    if lacking:
        w = lacking[0]
        said = and_waiters(said, w)
    out = Hypothesis(
        "rank-absent", sub, said, ranks, sure(links, POSSIBLE if how == KILLED else CONFIRMED),
        site if len(sites) <= 1 else None, links + last_words(waits, ranks),
    )  # fmt: skip
    if how == CRASHED and all(told_elsewhere(case, a) for a in rows):
        out.confidence = POSSIBLE
    if how in (EXITED, UNKNOWN) and site is None and lacking and lacking[0].frames:
        out.site = (lacking[0].frames[0][0], lacking[0].frames[0][1])  # the call that it did not make
    if how == EXITED and not lacking and out.confidence == CONFIRMED:
        out.confidence = PROBABLE
    out.contradicts = claim_of_launcher(waits, ranks)
    out.explains = [("host-stall", r) for r in ranks]
    if how == KILLED:
        out.missing, out.next = missing_of_a_killer(ranks)
    elif how == UNKNOWN:
        out.confidence = min(out.confidence, PROBABLE, key=(POSSIBLE, PROBABLE, CONFIRMED).index)
        out.missing = [Text("stack, log or exit code of {who}", "{who} 的调用栈、日志或退出码", who=who(ranks))]
    elif how == EXITED:
        out.rule = "uneven-loop"
    else:
        out.rule = "stranded-by-exception"
    return out
