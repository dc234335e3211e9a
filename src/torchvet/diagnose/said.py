"""Sentences that several causes say: who, which call, where; and how sure links make a hypothesis."""

from __future__ import annotations

from torchvet.findings import Text

from .model import CONFIRMED, POSSIBLE, PROBABLE, STRONG, WEAK, Link
from .ranks import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .waits import Waits
    from .waits_graph import Wait
    from .waits_votes import Side, Split

SOURCES = {
    "recorder": "recorder", "progress": "recorder", "call": "recorder", "stack": "stack", "exit": "exit",
    "launcher-exit": "exit", "closing": "exit", "process": "process", "xid": "kernel", "oom-kill": "kernel",
}  # fmt: skip
"""Kind of a fact -> where it comes from; everything else comes from logs. Two of these make a conclusion certain."""


def who(ranks: Iterable[int]) -> Text:
    """ "rank 3", "ranks 0-2, 5"."""
    rows = sorted(set(ranks))
    word = "rank {n}" if len(rows) == 1 else "ranks {n}"
    return Text(word, "rank {n}", n=listed(rows))


def plural(ranks: Iterable[int], one: str, many: str) -> str:
    return one if len(set(ranks)) == 1 else many


def number(seq: int | None) -> str:
    return "" if seq is None else f"{seq:,}"


def call(op: str, seq: int | None, group: str) -> Text:
    """ "all_reduce number 8 of group world"."""
    name = op or "collective"
    if seq is None:
        return Text("{op}", "{op}", op=name)
    if not group:
        return Text("{op} number {seq}", "第 {seq} 次集合通信 {op}", op=name, seq=number(seq))
    return Text(
        "{op} number {seq} of group {group}",
        "组 {group} 的第 {seq} 次集合通信 {op}",
        op=name,
        seq=number(seq),
        group=group,
    )


def place(path: str, line: int) -> str:
    return f"{path}:{line}"


def waiting(wait: Wait) -> Link:
    """Who waits in which call, and who never made it."""
    other = Text("elsewhere", "在别处") if wait.by == "stack" else Text("never called it", "从未调用")
    text = Text(
        "{source}: {who} in {call}, {absent} {other}",
        "{source}：{who} 正在 {call}，{absent} {other}",
        source=SAID.get(wait.by, SAID["log"]), who=who(wait.waiters), call=call(wait.op, wait.seq, wait.group),
        absent=who(wait.absent), other=other,
    )  # fmt: skip
    return Link(wait.facts[0] if wait.facts else None, text, STRONG)


def and_waiters(said: Text, wait: Wait) -> Text:
    """A sentence, and who waits in which call."""
    return Text(
        "{said}; {waiters} {wait} in {call}",
        "{said}；{waiters} 在 {call} 中等待",
        said=said,
        waiters=who(wait.waiters),
        wait=plural(wait.waiters, "waits", "wait"),
        call=call(wait.op, wait.seq, wait.group),
    )


SAID = {
    "recorder": Text("recorder", "记录器"), "log": Text("watchdog", "watchdog 日志"), "text": Text("log", "日志"),
    "stack": Text("stacks", "调用栈"),
}  # fmt: skip


def sides(split: Split) -> Text:
    """ "rank 3 in broadcast, ranks 0-2 in all_reduce": the minority first."""
    ordered = sorted(split.sides, key=lambda s: len(s.ranks)) if split.minority else split.sides
    text: Text | None = None
    for side in ordered[:4]:
        part = Text("{who} in {what}", "{who} 在 {what}", who=who(side.ranks), what=side.said)
        text = part if text is None else Text("{a}, {b}", "{a}，{b}", a=text, b=part)
    return text or Text("")


def side_link(split: Split, side: Side) -> Link:
    where = f" ({place(side.row[3][0][0], side.row[3][0][1])})" if side.row[3] else ""
    text = Text(
        "{source}: {who} called {what}{where}",
        "{source}：{who} 调用了 {what}{where}",
        source=SAID.get(split.by, SAID["log"]),
        who=who(side.ranks),
        what=side.said,
        where=where,
    )
    return Link(side.fact, text, STRONG)


def stack_links(waits: Waits, ranks: Iterable[int]) -> list[Link]:
    """Where these ranks stand by their stacks."""
    out = []
    for rank in list(ranks)[:4]:
        at = waits.places.get(rank)
        if at is None or at.site is None:
            continue
        inside = f" → {at.function}" if at.function else ""
        text = Text(
            "stack of rank {rank}: {where} in {name}{inside}",
            "rank {rank} 的调用栈：{where}，函数 {name}{inside}",
            rank=rank,
            where=place(*at.site),
            name=at.name,
            inside=inside,
        )
        out.append(Link(at.fact, text, STRONG))
    return out


def last_words(waits: Waits, ranks: Iterable[int]) -> list[Link]:
    """The last own line of these ranks' logs."""
    case = waits.case
    out = []
    for rank in list(ranks)[:4]:
        known = case.ranks.get(rank)
        if known is None or not known.last:
            continue
        fact = next((f for f in case.of("output", rank=rank) if f.values.get("last") == known.last), None)
        if fact is not None:
            words = known.last[:120]
            text = Text(
                'last line of rank {rank}: "{words}"', "rank {rank} 的最后一行：“{words}”", rank=rank, words=words
            )
            out.append(Link(fact, text, WEAK))
    return out


def sources(links: Iterable[Link]) -> set[str]:
    """The independent sources of links. Last words of a rank only go with others."""
    return {SOURCES.get(l.fact.kind, "log") for l in links if l.fact is not None and l.weight != WEAK}


def sure(links: list[Link], at_most: str = CONFIRMED) -> str:
    """Confirmed needs two independent sources; one strong or two weak ones are likely."""
    found = sources(links)
    best = CONFIRMED if len(found) > 1 else PROBABLE if found else POSSIBLE
    order = (POSSIBLE, PROBABLE, CONFIRMED)
    return min(best, at_most, key=order.index)


def claim_of_launcher(waits: Waits, ranks: Iterable[int]) -> list[Link]:
    """torchelastic's "first observed failure", when it names another rank: by time of observation, often a victim."""
    blamed = set(ranks)
    for fact in waits.case.of("exit"):
        if fact.values.get("first") and fact.rank is not None and fact.rank not in blamed:
            text = Text(
                "the launcher names rank {rank} as the first failure: that rank only ended first (victim)",
                "启动器把 rank {rank} 记为首个失败：它只是最先结束（受害者）",
                rank=fact.rank,
            )
            return [Link(fact, text, WEAK)]
    return []
