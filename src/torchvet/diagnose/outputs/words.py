"""Labels and small sentences that several formats say."""

from __future__ import annotations

from torchvet.findings import Text
from torchvet.findings.columns import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Diagnosis, Hypothesis, Link
    from . import Style

HERE = Text("Here", "材料")
VERDICT = Text("Verdict", "结论")
OR = Text("Or", "或者")
LINE = Text("Line", "代码")
FOR = Text("For", "支持")
AGAINST = Text("Against", "反对")
MISSING = Text("Missing", "缺失")
UNREAD = Text("Unread", "未读")
RANKS = Text("Ranks", "各 rank")
ALSO = Text("Also", "另外")
NEXT = Text("Next", "下一步")
TIMELINE = Text("Time", "时间")
CLUSTERS = Text("Stacks", "调用栈")
FILES = Text("Files", "文件")

CONFIDENCE = {
    "confirmed": Text("confirmed", "已确认"),
    "likely": Text("likely", "很可能"),
    "possible": Text("possible", "有可能"),
}

PER_RANK = {
    "log": (Text("log", "份日志"), Text("logs", "份日志")),
    "recorder": (Text("recorder dump", "份记录器转储"), Text("recorder dumps", "份记录器转储")),
    "stack": (Text("stack", "份调用栈"), Text("stacks", "份调用栈")),
    "snapshot": (Text("memory snapshot", "份显存快照"), Text("memory snapshots", "份显存快照")),
    "trace": (Text("profiler trace", "份性能跟踪"), Text("profiler traces", "份性能跟踪")),
    "series": (Text("series of measurements", "组测量数据"), Text("series of measurements", "组测量数据")),
}
"""What a rank leaves, by the key in `Rank.has`: the word for one and for several."""

OF_RANKS = {"log", "recorder", "stack", "stacks", "snapshot", "trace", "unknown", "source"}
"""Readers of files that the ranks' own counts tell of, or that say nothing."""
KINDS_OF_FILES = {
    "kernel-log": Text("kernel log", "内核日志"),
    "run": Text("records of torchvet run", "torchvet run 的记录"),
    "exit-record": Text("exit codes", "退出码"),
    "slurm": Text("Slurm records", "Slurm 记录"),
    "kubernetes": Text("Kubernetes records", "Kubernetes 记录"),
    "surroundings": Text("environment", "环境信息"),
    "scheduler": Text("scheduler records", "调度器记录"),
    "space": Text("disk space", "磁盘空间"),
}
"""Files that belong to no rank, by the name of their reader; a reader that is not here has its own name shown."""

LONGEST_LIST = 8


def listed(numbers: Iterable[int], most: int = LONGEST_LIST) -> str:
    """ "0-3, 5": runs are joined; of a long list the beginning is shown."""
    rows: list[list[int]] = []
    for n in sorted(set(numbers)):
        if rows and n == rows[-1][1] + 1:
            rows[-1][1] = n
        else:
            rows.append([n, n])
    parts = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in rows]
    return ", ".join(parts) if len(parts) <= most else ", ".join(parts[:most]) + ", …"


def ranks(numbers: Iterable[int], most: int = LONGEST_LIST) -> Text:
    """ "rank 5", "ranks 0-3, 5 (5 ranks)"."""
    numbers = sorted(set(numbers))
    shown = listed(numbers, most)
    if len(numbers) == 1:
        return Text("rank {n}", "rank {n}", n=shown)
    if shown.endswith("…"):
        return Text("{k} ranks ({n})", "{k} 个 rank（{n}）", k=f"{len(numbers):,}", n=shown)
    return Text("ranks {n}", "rank {n}", n=shown)


def joined(parts: Iterable[Text | str], style: Style) -> str:
    """Parts of a list as a sentence has them."""
    return ("，" if style.language == "zh" else ", ").join(style.say(p) for p in parts)


def here(diagnosis: Diagnosis, style: Style) -> str:
    """ "8 ranks: 8 logs, 7 recorder dumps (rank 5 missing), 8 stacks, kernel log"."""
    inventory, known = diagnosis.inventory, diagnosis.case.ranks
    world = inventory.world if inventory.world is not None else len(known) or None
    parts: list[Text | str] = []
    for key, (one, many) in PER_RANK.items():
        have = [n for n, r in known.items() if key in r.has]
        if not have:
            continue
        said = Text("{n} {what}", "{n} {what}", n=f"{len(have):,}", what=one if len(have) == 1 else many)
        lacking = sorted(set(range(world)) - set(have)) if world and world < 1_000_000 else []
        if lacking and len(lacking) * 2 <= (world or 0):
            said = Text("{x} ({who} missing)", "{x}（缺 {who}）", x=said, who=ranks(lacking, 3))
        parts.append(said)
    for name in dict.fromkeys(kind for _, kind, _, _ in inventory.files):
        if name not in OF_RANKS:
            parts.append(KINDS_OF_FILES.get(name) or Text("{name}", name=name.replace("-", " ")))
    logs = sum(kind == "log" for _, kind, _, _ in inventory.files)
    if logs and not any("log" in r.has for r in known.values()):
        parts.insert(0, Text("{n} {what}", "{n} {what}", n=f"{logs:,}", what=PER_RANK["log"][logs > 1]))
    total = Text("{n} file" if len(inventory.files) == 1 else "{n} files", "{n} 个文件", n=f"{len(inventory.files):,}")
    if not parts:
        parts.append(total)
    said_parts = joined(parts, style)
    if world:
        head = Text("{n} rank" if world == 1 else "{n} ranks", "{n} 个 rank", n=f"{world:,}")
        if len(inventory.nodes) > 1:
            head = Text("{x} on {n} nodes", "{x}，{n} 个节点", x=head, n=len(inventory.nodes))
        return style.say(Text("{x}: {y}", "{x}：{y}", x=head, y=said_parts))
    return said_parts


def headline(hypothesis: Hypothesis) -> Text:
    """The summary with its confidence."""
    sure = CONFIDENCE.get(hypothesis.confidence, Text(hypothesis.confidence))
    return Text("{x} ({sure})", "{x}（{sure}）", x=hypothesis.summary, sure=sure)


def classified(hypothesis: Hypothesis, style: Style) -> str:
    """ "rank-absent: left loop · rank 5"."""
    kind = style.say(
        Text("{kind}: {sub}", "{kind}：{sub}", kind=hypothesis.cause, sub=hypothesis.sub)
        if hypothesis.sub
        else Text("{kind}", kind=hypothesis.cause)
    )
    return f"{kind} · {style.say(ranks(hypothesis.ranks))}" if hypothesis.ranks else kind


def reason(link: Link, style: Style) -> str:
    return visible(style.say(link.reason))


def gathered(links: Iterable[Link], style: Style) -> list[tuple[str, list[str]]]:
    """(reason, places of the facts that say so), each reason once, in the order of the links."""
    out: dict[str, list[str]] = {}
    for link in links:
        places = out.setdefault(reason(link, style), [])
        if link.fact is not None and link.fact.source and link.fact.place not in places:
            places.append(link.fact.place)
    return list(out.items())


def some(places: list[str], style: Style) -> str:
    """The first place, and how many more there are."""
    if len(places) < 2:
        return "".join(places)
    return style.say(Text("{x} and {n} more", "{x} 等 {n} 处", x=places[0],
                          n=len(places) - 1 if style.language == "en" else len(places)))  # fmt: skip


def where(hypothesis: Hypothesis, style: Style) -> str:
    """ "train.py:63, accumulated-graph": the place of a side finding in few words."""
    if hypothesis.site is None:
        found = style.candidates.get((hypothesis.cause, hypothesis.sub), [])
        return ", ".join(f"{r.path}:{r.line} {r.name}" for r in found)
    place = style.places.get((hypothesis.site[0], hypothesis.site[1]))
    said = f"{place.path}:{place.line}" if place is not None else "{}:{}".format(*hypothesis.site)
    return f"{said}, {place.rules[0].name}" if place is not None and place.rules else said


def nothing(diagnosis: Diagnosis) -> Text:
    """What is said when there is no verdict."""
    if any(facts for _, _, _, facts in diagnosis.inventory.files):
        return Text("no cause of a failure found: nothing here says that this job failed",
                    "未发现失败原因：这些材料没有显示该作业失败")  # fmt: skip
    return Text("cannot tell: no file here is evidence that torchvet knows",
                "无法判断：这里没有 torchvet 认识的证据")  # fmt: skip


def quoted(path: str) -> str:
    """A path as a shell needs it."""
    import shlex

    return shlex.quote(path)


def commands(diagnosis: Diagnosis, style: Style) -> list[str]:
    """What to type next: the page of the cause, the report with everything."""
    out = []
    verdict = diagnosis.verdicts[0] if diagnosis.verdicts else None
    if verdict is not None:
        place = style.places.get(verdict.site) if verdict.site is not None else None
        if place is not None and place.full and place.full.endswith(".py"):
            out.append(f"torchvet check {quoted(place.full)}")
        elif candidates := style.candidates.get((verdict.cause, verdict.sub)):
            out.append(f"torchvet explain {candidates[0].name}")
        else:
            out.append(f"torchvet explain {verdict.cause}")
        if verdict.site is not None and place is None and not style.code and style.paths:
            out.append(f"torchvet diagnose {quoted(style.paths[0])} --code DIR")
    paths = " ".join(quoted(p) for p in style.paths[:3]) + (" …" if len(style.paths) > 3 else "")
    if verdict is not None and paths:
        out.append(f"torchvet diagnose {paths} -o report.html")
    return out
