"""A review checklist for a pull-request comment: what was looked at in each family, and what was found."""

from __future__ import annotations

import re

from torchvet.findings import Text
from torchvet.report import CHECK, place, summary
from torchvet.report.excerpt import repaired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchvet.findings import Finding
    from torchvet.report import Report

LIMIT = 65_000
"""Characters: GitHub refuses comments of more than 65,536, GitLab takes more."""

FAMILIES = {
    "graph": (Text("Graphs", "计算图"), Text("what keeps an autograd graph alive", "什么让 autograd 图一直存活")),
    "loader": (Text("Loaders", "数据加载"), Text("workers, shared memory, host memory", "worker、共享内存、主机内存")),
    "wrap": (Text("Wrapping", "包装"), Text("order of wrapping, devices, checkpoints", "包装顺序、设备、检查点")),
    "collective": (Text("Collectives", "集合通信"), Text("ranks in step", "各 rank 步调一致")),
    "native": (Text("Native code", "原生代码"), Text("CUDA and C++", "CUDA 与 C++")),
    "deploy": (Text("Deployment", "部署"), Text("containers and clusters", "容器与集群")),
    CHECK: (Text("The check itself", "检查本身"), Text("unreadable files, suppressions", "无法读取的文件、忽略注释")),
}
"""Family -> (title, what it is about), in the order of the checklist."""

_NOT_USED = Text("nothing of the kind here", "这里没有此类代码")
_CLEAN = Text("nothing found", "未发现问题")


def render(report: Report) -> str:
    body: list[str] = []
    grouped: dict[str, list[Finding]] = {}
    for finding in report.worst_first():
        grouped.setdefault(report.rule(finding).family, []).append(finding)
    for family in _in_order(grouped):
        body.append(f"\n### {_title(report, family)}\n")
        body += [_item(report, f) for f in grouped[family]]
    return compose(report, body, LIMIT, len)


def compose(report: Report, body: Iterable[str], limit: int, size: Callable[[str], int]) -> str:
    """Heading and checklist, then as much of the body as the limit leaves room for, and how much is left out."""
    counts = summary.counted(report.counts(), report.language)
    head = "\n".join(
        [f"## torchvet: {counts}", "", *checklist(report), "", f"<sub>{summary.summary_line(report)}</sub>"]
    )
    out = [head]
    rest = list(body)
    left_out = Text(
        "… and {n} more lines; `torchvet check` lists all", "……另有 {n} 行，完整列表见 `torchvet check`", n=len(rest)
    )
    room = limit - size(head) - size(report.say(left_out)) - 16
    while rest and size(rest[0]) + 1 <= room:
        room -= size(rest[0]) + 1
        out.append(rest.pop(0))
    if rest:
        left_out.fields["n"] = f"{len(rest):,}"
        out.append("\n" + report.say(left_out))
    return "\n".join(out) + "\n"


def checklist(report: Report) -> list[str]:
    """One line a family: ticked when nothing that blocks was found there."""
    found: dict[str, dict[str, int]] = {}
    for finding in report.findings:
        counts = found.setdefault(report.rule(finding).family, {})
        counts[finding.severity] = counts.get(finding.severity, 0) + 1
    asked = {r.family for r in report.rules.values()} | set(report.families) | set(found)
    rows = []
    for family in _in_order(asked):
        counts = found.get(family, {})
        looked = report.families.get(family)
        parts = []
        if looked is not None and (n := looked.get("looked_at")):
            what = looked.get("what") or Text("place" if n == 1 else "places", "处")
            parts.append(report.say(Text("{n} {what} looked at", "查看了 {n} {what}", n=f"{n:,}", what=what)))
        if counts:
            parts.append(f"**{summary.counted(counts, report.language)}**")
        elif looked is not None and not looked.get("looked_at"):
            parts.append(report.say(_NOT_USED))
        else:
            parts.append(report.say(_CLEAN))
        mark = " " if set(counts) - {"note"} else "x"
        comma = "，" if report.language == "zh" else ", "
        label = Text("**{title}**{about}", title=_title(report, family), about=_about(report, family))
        rows.append(f"- [{mark}] {summary.labelled(report, label, comma.join(parts))}")
    return rows


def table(report: Report) -> list[str]:
    """All findings as rows of a table, worst first."""
    heads = (Text("severity", "级别"), Text("rule", "规则"), Text("place", "位置"), Text("message", "说明"))
    rows = []
    for f in report.worst_first():
        message = plain(report.say(f.message))
        if f.help is not None:
            message += "<br>" + summary.labelled(report, summary.FIX, plain(report.say(f.help)))
        place_ = code(place.spoken(f)).replace("|", "\\|")
        rows.append(f"| {report.say(summary.SEVERITY[f.severity])} | [{f.name}]({f.url}) | {place_} | {message} |")
    if not rows:
        return []
    return ["", "| " + " | ".join(report.say(h) for h in heads) + " |", "|---|---|---|---|", *rows]


def _item(report: Report, finding: Finding) -> str:
    label = report.say(summary.SEVERITY[finding.severity])
    rule = f"[{finding.name}]({finding.url})"
    rows = [f"- **{label}** {code(place.spoken(finding))} {rule}: {plain(report.say(finding.message))}"]
    rows += [f"  - {code(place.spoken(finding, n.span))} {plain(report.say(n.message))}" for n in finding.notes]
    rows += [f"  - {plain(report.say(who))}: {plain(report.say(what))}" for who, what in finding.trace]
    word = summary.FIX
    if finding.fix is not None:
        line = repaired(report, finding)
        what = code(line) if line else plain(report.say(finding.fix.title))
        rows.append("  - " + summary.labelled(report, word, f"{what} ({code(summary.flags(finding.fix.safe))})"))
        word = summary.HELP
    if finding.help is not None and not (finding.fix is not None and finding.fix.safe):
        rows.append("  - " + summary.labelled(report, word, plain(report.say(finding.help))))
    return "\n".join(rows)


def _title(report: Report, family: str) -> str:
    return report.say(FAMILIES[family][0]) if family in FAMILIES else family.capitalize()


def _about(report: Report, family: str) -> str:
    if family not in FAMILIES:
        return ""
    return report.say(Text(" ({about})", "（{about}）", about=FAMILIES[family][1]))


def _in_order(families: Iterable[str]) -> list[str]:
    order = list(FAMILIES)
    return sorted(families, key=lambda f: (order.index(f) if f in FAMILIES else len(order), f))


def plain(text: str) -> str:
    """Text that stays what it is in Markdown: no markup, no mention of a user, no link to an issue."""
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", " ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([@#])(?=\w)", "\\1\u200b", text)


def code(text: str) -> str:
    """Text as inline code, whatever backquotes it holds."""
    text = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
