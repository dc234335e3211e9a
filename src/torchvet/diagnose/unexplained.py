"""A job that failed, and nothing says why: that is said, with what would tell. Silence would read as health."""

from __future__ import annotations

from torchvet.findings import Text

from .model import MEDIUM, POSSIBLE, Hypothesis, Link
from .ranks import failed, listed
from .said import call, who
from .silence import silent_node, store_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact

MOST = 4


def unexplained(case: Case) -> list[Hypothesis]:
    """The verdict "unknown" when the job is known to have failed; nothing otherwise."""
    ended = [f for f in case.of("exit", "launcher-exit") if f.values.get("code") not in (None, 0)]
    lost = [f for f in case.of("exception") if f.values.get("victim")]
    state = failed(case)
    together = case.waits.joined() if state is not False and case.waits.stood and not lost else []
    together = [j for j in together if j.facts and j.facts[0].kind == "call"]  # lines do not tell all members
    if state is False or not (state or lost or case.of("watchdog") or together):
        return []
    if (found := silent_node(case) or store_lost(case)) is not None:
        return [found]
    own = sorted(n for n, r in case.ranks.items() if r.code not in (None, 0) and not r.closed)
    summary = Text("the job failed; nothing here says why", "作业失败；这些材料没有说明原因")
    if own:
        summary = Text("the job failed: ranks {ranks} ended with an error, nothing here says why" if len(own) > 1
                       else "the job failed: rank {ranks} ended with an error, nothing here says why",
                       "作业失败：rank {ranks} 以错误结束，这些材料没有说明原因", ranks=listed(own))  # fmt: skip
    elif together and not together[0].unseen:
        one = together[0]
        summary = Text("the job stood still: {who} made {call} and none finished it; nothing here says why",
                       "作业停住：{who} 都发起了 {call}，但均未完成；这些材料没有说明原因", who=who(one.ranks),
                       call=call(one.op, one.seq, one.group))  # fmt: skip
    elif case.of("watchdog") and not lost:
        summary = Text("the job stood still: ranks waited too long for others, and nothing here says why",
                       "作业停住：有 rank 等待其他 rank 超时，这些材料没有说明原因")  # fmt: skip
    elif lost and all(f.values.get("type") == "KeyboardInterrupt" for f in lost):
        summary = Text(
            "the job was interrupted from outside (KeyboardInterrupt)", "作业被外部中断（KeyboardInterrupt）"
        )
    elif lost:
        summary = Text("the job failed: ranks lost a peer or waited for it, and nothing here says why",
                       "作业失败：有 rank 失去了对端或在等待它，这些材料没有说明原因")  # fmt: skip
    out = Hypothesis("unknown", "failed without a word", summary, [], POSSIBLE)
    out.supports = [Link(f, _said(f), MEDIUM) for f in [*ended, *lost, *case.of("watchdog")][:MOST]]
    for joined in together[:1]:
        text = Text("recorder: {who} in {call}, unfinished", "记录器：{who} 正在 {call}，未完成", who=who(joined.ranks),
                    call=call(joined.op, joined.seq, joined.group))  # fmt: skip
        out.supports.append(Link(joined.facts[0], text, MEDIUM))
    has = {key for rank in case.ranks.values() for key in rank.has}
    world = case.world or 0
    silent = [n for n in range(min(world, 65536)) if n not in case.ranks or "log" not in case.ranks[n].has]
    if silent or not case.ranks:
        out.missing.append(Text("standard error of every rank: torchrun --log-dir logs -r 3 -t 3",
                                "每个 rank 的标准错误输出：torchrun --log-dir logs -r 3 -t 3"))  # fmt: skip
    if "recorder" not in has:
        out.missing.append(Text("flight recorder dumps: who called what", "flight recorder 转储：谁调用了什么"))
    if not case.of("kernel-log"):
        out.missing.append(Text("kernel log of the nodes (dmesg -T)", "各节点的内核日志（dmesg -T）"))
    out.next.append(Text("torchvet run --out runs/a -- <command> keeps all of it",
                         "torchvet run --out runs/a -- <command> 会保存以上全部内容"))  # fmt: skip
    return [out]


def _said(fact: Fact) -> Text:
    words = " ".join(fact.text.split())[:120]
    if fact.kind == "exception" and fact.rank is not None:
        return Text("rank {r} waited or lost the connection: {words}", "rank {r} 等待或失去连接：{words}", r=fact.rank,
                    words=words)  # fmt: skip
    return Text("{words}", "{words}", words=words)
