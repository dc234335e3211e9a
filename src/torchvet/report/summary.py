"""The sentences of a report itself: the summary line, counts, the words around a finding."""

from __future__ import annotations

from torchvet.findings import ERROR, NOTE, WARNING, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchvet.report import Report

FIX = Text("fix", "修复")
HELP = Text("help", "帮助")
POSSIBLE = Text(" (possible)", "（可能）")
DOT = " · "
SEVERITY = {ERROR: Text("error", "错误"), WARNING: Text("warning", "警告"), NOTE: Text("note", "提示")}
NO_FINDINGS = Text("no findings", "没有发现问题")

_COUNTS = {
    ERROR: (Text("1 error", "1 个错误"), "{n} errors", "{n} 个错误"),
    WARNING: (Text("1 warning", "1 个警告"), "{n} warnings", "{n} 个警告"),
    NOTE: (Text("1 note", "1 个提示"), "{n} notes", "{n} 个提示"),
}


def counted(counts: Mapping[str, int], language: str) -> str:
    """`2 errors, 1 warning`; `no findings` when all are zero."""
    parts = []
    for severity, (one, en, zh) in _COUNTS.items():
        n = counts.get(severity, 0)
        if n:
            parts.append((one if n == 1 else Text(en, zh, n=f"{n:,}")).render(language))
    if not parts:
        return NO_FINDINGS.render(language)
    return ("，" if language == "zh" else ", ").join(parts)


def labelled(report: Report, word: Text, sentence: Text | str) -> str:
    """`fix: call it on every rank`."""
    return f"{report.say(word)}{'：' if report.language == 'zh' else ': '}{report.say(sentence)}"


def flags(safe: bool) -> str:
    """The options that apply a fix."""
    return "--fix" if safe else "--fix --unsafe-fixes"


def summary_line(report: Report) -> str:
    """`2 errors, 1 warning · 214 files read, 37 parsed, 0.24 s · 1 can be fixed with --fix`."""
    parts: list[Text | str] = [counted(report.counts(), report.language), _work(report)]
    safe = sum(f.fix is not None and f.fix.safe for f in report.findings)
    unsafe = sum(f.fix is not None and not f.fix.safe for f in report.findings)
    if safe and unsafe:
        parts.append(
            Text(
                "{safe} can be fixed with --fix, {unsafe} more with --unsafe-fixes",
                "{safe} 处可用 --fix 修复，另 {unsafe} 处需加 --unsafe-fixes",
                safe=f"{safe:,}",
                unsafe=f"{unsafe:,}",
            )
        )
    elif safe or unsafe:
        n = f"{safe or unsafe:,}"
        parts.append(Text("{n} can be fixed with {flags}", "{n} 处可用 {flags} 修复", n=n, flags=flags(bool(safe))))
    if report.baselined:
        parts.append(Text("{n} in the baseline", "基线中已有 {n} 个", n=f"{report.baselined:,}"))
    if report.suppressed:
        parts.append(Text("{n} suppressed", "已忽略 {n} 个", n=f"{report.suppressed:,}"))
    if not report.complete:
        parts.append(Text("torchvet failed on some files", "torchvet 在部分文件上出错"))
    return DOT.join(report.say(p) for p in parts)


def _work(report: Report) -> Text:
    one = report.files == 1
    return Text(
        "{files} file read, {parsed} parsed, {time} s" if one else "{files} files read, {parsed} parsed, {time} s",
        "读取 {files} 个文件，解析 {parsed} 个，{time} 秒",
        files=f"{report.files:,}",
        parsed=f"{report.parsed:,}",
        time=f"{report.seconds:.2f}" if report.seconds < 100 else f"{report.seconds:.0f}",
    )
