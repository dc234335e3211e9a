"""For people: what stops the job first, each with its fix; what passed is only counted."""

from __future__ import annotations

from torchvet.findings import Text
from torchvet.findings.columns import visible, width, wrap

from ..probe import FAIL, PASS, UNKNOWN, WARN
from ..surroundings import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport
    from ..probe import Result
    from . import Style

LABELS = {
    FAIL: Text("FAIL", "失败"),
    WARN: Text("WARN", "警告"),
    UNKNOWN: Text("  ? ", " ?  "),
    PASS: Text("ok", "通过"),
}
COLORS = {FAIL: "1;31", WARN: "1;33", UNKNOWN: "1;36", PASS: "32", "fix": "32", "strong": "1"}
FIX = Text("fix", "修复")
ASCII = str.maketrans({"×": "x", "·": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<="})
UNKNOWNS = 6
"""So many unknown results are listed without --verbose."""
NAME = 18


def render(report: NodeReport, style: Style) -> str:
    lines = [*wrap(visible(headline(report, style)), style.width), ""]
    listed = report.worst_first()
    unknown = [r for r in listed if r.verdict == UNKNOWN]
    hidden = 0
    for result in listed:
        if not style.verbose and result.verdict == PASS:
            continue
        if not style.verbose and result.verdict == UNKNOWN and result in unknown[UNKNOWNS:]:
            hidden += 1
            continue
        lines += row(result, style)
    if hidden:
        more = Text("{n} more that cannot be told", "另有 {n} 项无法判断", n=hidden)
        lines.append(f"{_label(UNKNOWN, style)}  {more.render(style.language)}")
    if not style.verbose and (report.count(PASS) or report.counts.get("not_applicable")):
        lines += wrap(passed(report, style), style.width)
    last = wrap(verdict(report, style.fail_on).render(style.language), style.width)
    lines += ["", *(_paint(line, "strong", style) for line in last)]
    text = "\n".join(lines) + "\n"
    return text if style.unicode else text.translate(ASCII)


def headline(report: NodeReport, style: Style) -> str:
    """ "gpu-07 · docker container · 8 × H100, driver 570.86 · 61 probes in 0.9 s"."""
    node, n = report.node, report.counts.get("probes", 0)
    parts: list[object] = [node.get("hostname") or "?"]
    if node.get("container") in NAMES:
        parts.append(NAMES[str(node["container"])])
    if node.get("launcher"):
        parts.append(node["launcher"])
    if node.get("gpus"):
        parts.append(node["gpus"])
    parts.append(
        Text(
            "1 probe in {t} s" if n == 1 else "{n} probes in {t} s",
            "{n} 个探针，{t} 秒",
            n=n,
            t=f"{report.seconds:.1f}",
        )
    )
    return " · ".join(p.render(style.language) if isinstance(p, Text) else str(p) for p in parts)


def row(result: Result, style: Style) -> list[str]:
    """The lines of one result: label, probe, message; its fix below."""
    name = result.probe + " " * max(1, NAME - len(result.probe))
    head = f"{_label(result.verdict, style)}  {name}"
    left = 6 + len(name) if len(name) <= NAME else 6 + NAME
    said = wrap(visible(result.message.render(style.language)), style.width - left)
    lines = [head + said[0], *(" " * left + s for s in said[1:])]
    if len(name) > NAME:
        said = wrap(visible(result.message.render(style.language)), style.width - left)
        lines = [head.rstrip(), *(" " * left + s for s in said)]
    if result.fix is not None:
        word = FIX.render(style.language)
        fixes = wrap(visible(result.fix.render(style.language)), style.width - left - 5)
        lines.append(" " * left + _paint(word, "fix", style) + " " * (5 - width(word)) + fixes[0])
        lines += [" " * (left + 5) + s for s in fixes[1:]]
    return lines


def passed(report: NodeReport, style: Style) -> str:
    n, absent = report.count(PASS), report.counts.get("not_applicable", 0)
    others = Text("{n} others" if len(report.results) > n else "{n} probes", "{n} 项", n=n)
    if n == 1:
        others = Text("1 probe", "1 项")
    tail = Text("--verbose lists them", "--verbose 列出全部")
    if absent:
        tail = Text("{n} do not apply here; {x}", "{n} 项不适用于此；{x}", n=absent, x=tail)
    label = _label(PASS, style)
    said = others.render(style.language)
    return f"{label}  {said}{' ' * max(1, NAME - width(said))}{tail.render(style.language)}"


def verdict(report: NodeReport, fail_on: str) -> Text:
    """The last line: counts, and whether the job should start."""
    fails, warns, unknown = (report.count(v) for v in (FAIL, WARN, UNKNOWN))
    parts = []
    if fails:
        parts.append(Text("{n} failed", "{n} 项失败", n=fails))
    if warns:
        parts.append(Text("{n} warning" if warns == 1 else "{n} warnings", "{n} 项警告", n=warns))
    if unknown:
        parts.append(Text("{n} unknown", "{n} 项未知", n=unknown))
    if not parts:
        parts.append(Text("nothing found", "没有发现问题"))
    counted = parts[0]
    for part in parts[1:]:
        counted = Text("{a}, {b}", "{a}，{b}", a=counted, b=part)
    if report.blocks(fail_on):
        return Text("{x}: do not start this job", "{x}：不要启动此作业", x=counted)
    if fails or warns:
        return Text("{x}: the job can start", "{x}：作业可以启动", x=counted)
    if unknown:
        return Text("{x}: nothing that could be read speaks against this job", "{x}：已读取的部分没有妨碍此作业的问题",
                    x=counted)  # fmt: skip
    return Text("{x}: nothing speaks against this job", "{x}：没有妨碍此作业的问题", x=counted)


def _label(verdict: str, style: Style) -> str:
    word = LABELS[verdict].render(style.language)
    return _paint(word, verdict, style) + " " * (4 - width(word))


def _paint(text: str, kind: str, style: Style) -> str:
    return f"\x1b[{COLORS[kind]}m{text}\x1b[0m" if style.color else text
