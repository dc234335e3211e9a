"""Jobs of several nodes of which one ended without a word: it lost power, or was killed as a whole or its launcher."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .evidence.places import place_of
from .model import MEDIUM, POSSIBLE, STRONG, Hypothesis, Link
from .said import who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact

ENDS = ("closing", "exit", "launcher-exit", "exception", "terminated", "lost", "rendezvous", "crash", "scheduler")
"""What a launcher's log, or a rank's, holds when it ended by itself or saw others end."""
_REMOTE = re.compile(r"remote=\[?(?:::ffff:)?([^\s\],)]+)\]?:(\d+)")
MOST = 4


def launchers(case: Case) -> tuple[dict[str, Fact], dict[str, Fact]]:
    """(node -> its launcher's log that breaks off, node -> the last words of its launcher)."""
    logs: dict[str, Fact] = {}
    for fact in case.of("output"):
        place = place_of(fact.source)
        if fact.rank is None and place.node and not place.tree and place.rank is None:
            logs[place.node] = fact
    of = {fact.source: node for node, fact in logs.items()}
    spoke: dict[str, Fact] = {}
    for fact in case.of(*ENDS):
        if fact.source in of:
            spoke.setdefault(of[fact.source], fact)
    return {node: fact for node, fact in logs.items() if node not in spoke}, spoke


def silent_node(case: Case) -> Hypothesis | None:
    """The node whose launcher says nothing of an end that the other nodes saw; None where all or none spoke."""
    silent, spoke = launchers(case)
    lost = case.of("lost")
    if len(silent) != 1 or not spoke or not lost:
        return None
    node, log = next(iter(silent.items()))
    told = {f.rank for f in case.of(*ENDS) if f.rank is not None}
    written = {f.rank for f in case.of("output") if f.values.get("stream") != "stdout"}  # standard error is here
    own = [r for r, known in case.ranks.items() if known.node == node]
    ranks = [r for r in own if r in written and r not in told and case.ranks[r].code is None]
    if case.waits.torn:  # logs that break off within an end: what is not there says nothing
        ranks = []
    text = Text("the log of the launcher of {node} breaks off without an end",
                "{node} 的启动器日志中断，没有结束信息", node=node)  # fmt: skip
    broken = Link(log, text, MEDIUM)
    store = [f for f in lost if f.values.get("how") == "store" and (f.rank is None or f.rank not in own)]
    if ranks:
        summary = Text("{who} on {node} and the launcher there ended without a word, the others lost them; "
                       "why is not known",
                       "{node} 上的 {who} 及其启动器没有留下任何信息就结束了，其他 rank 与它们断开；原因未知",
                       who=who(ranks), node=node)  # fmt: skip
        out = Hypothesis("rank-absent", "ended without a word", summary, ranks, POSSIBLE)
    elif store and own:
        summary = Text("the launcher of {node} ended without a word and with it the store; the others lost it; "
                       "why is not known",
                       "{node} 的启动器没有留下任何信息就结束了，存储随之消失，其他节点与其断开；原因未知",
                       node=node)  # fmt: skip
        out = Hypothesis("unknown", "launcher gone", summary, [], POSSIBLE)
    else:
        return None
    out.supports = [broken, *(Link(f, _words(f), STRONG) for f in _one_of_each(store or lost))]
    for rank in ranks[:MOST]:
        for fact in case.of("output", rank=rank)[-1:]:
            text = Text(
                "the log of rank {r} breaks off: no error, no end",
                "rank {r} 的日志中断：没有错误，也没有结束信息",
                r=rank,
            )
            out.supports.append(Link(fact, text, MEDIUM))
    out.missing = [
        Text("kernel log of {node} (dmesg -T, journalctl -k): OOM kills, a crash, a restart",
             "{node} 的内核日志（dmesg -T、journalctl -k）：OOM kill、崩溃、重启", node=node),
        Text("records of the scheduler: state of the node, end of the step (sacct, kubectl get events)",
             "调度器记录：节点状态、作业步的结束（sacct、kubectl get events）"),
    ]  # fmt: skip
    out.next.append(Text("uptime and last -x on {node}: did it restart?",
                         "在 {node} 执行 uptime 与 last -x：是否重启过？", node=node))  # fmt: skip
    return out


def store_lost(case: Case) -> Hypothesis | None:
    """The store went away under a job that ran, and its host says nothing here."""
    lost = [f for f in case.of("lost") if f.values.get("how") == "store"]
    peers = [f for f in case.of("lost") if f.rank is not None and f.values.get("how") != "store"]
    if not lost or (peers and all(f.rank is not None for f in lost)):
        return None
    where = next((m for f in lost if (m := _REMOTE.search(f.text))), None)
    at = Text(" ({host}:{port})", "（{host}:{port}）", host=where[1], port=where[2]) if where else Text("")
    ranks = sorted({f.rank for f in lost if f.rank is not None})
    loser = who(ranks) if ranks else Text("the launcher", "启动器")
    out = Hypothesis(
        "unknown", "store lost",
        Text("{loser} lost the store{at}: its host ended or is out of reach, and nothing here says why",
             "{loser} 与存储{at}断开：承载存储的进程已结束或无法连接，这些材料没有说明原因", loser=loser, at=at),
        [], POSSIBLE,
    )  # fmt: skip
    out.supports = [Link(f, _words(f), MEDIUM) for f in _one_of_each(lost)]
    out.missing.append(Text("log of the launcher and of rank 0 on the node that hosts the store",
                            "承载存储的节点上启动器与 rank 0 的日志"))  # fmt: skip
    out.missing.append(Text("kernel log of that node (dmesg -T)", "该节点的内核日志（dmesg -T）"))
    return out


def _one_of_each(facts: list[Fact]) -> list[Fact]:
    return list({f.source: f for f in reversed(facts)}.values())[::-1][:MOST]


def _words(fact: Fact) -> Text:
    return Text("{words}", "{words}", words=" ".join(fact.text.split())[:140])
