"""GitHub Actions: annotations in the log, and the job's step summary.

GitHub keeps 10 annotations of each level per step and drops the rest without a word, in the order of printing. So the
worst come first, the tenth of a level tells how many more there are, and the log and the step summary hold them all.
"""

from __future__ import annotations

import re

from torchvet.findings import ERROR, NOTE, WARNING, Text
from torchvet.report import concise, markdown, place, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding
    from torchvet.report import Report

PER_LEVEL = 10
SUMMARY_BYTES = 1024 * 1024
"""GitHub aborts the upload of a larger step summary."""

_COMMANDS = {ERROR: "error", WARNING: "warning", NOTE: "notice"}


def render(report: Report) -> str:
    out: list[str] = []
    findings = report.worst_first()
    for severity, command in _COMMANDS.items():
        level = [f for f in findings if f.severity == severity]
        for i, finding in enumerate(level[:PER_LEVEL], 1):
            more = len(level) - PER_LEVEL if i == PER_LEVEL else 0
            out.append(_annotation(report, finding, command, more))
    # A line that starts like a workflow command would be one.
    out += [re.sub(r"^\s*(?=::|##\[)", "./", line) for line in concise.render(report).splitlines()]
    out.append(summary.summary_line(report))
    return "\n".join(out) + "\n"


def _annotation(report: Report, finding: Finding, command: str, more: int) -> str:
    path, line, column, end_line, end_column = place.region(report, finding)
    fields: dict[str, object] = {"file": place.from_root(report, path), "line": line}
    if end_line == line:
        # Columns of a region over several lines are refused.
        fields |= {"col": column, "endLine": end_line, "endColumn": end_column}
    else:
        fields["endLine"] = end_line
    fields["title"] = f"{finding.name} ({finding.code})"
    rows = [report.say(finding.message)]
    rows += [f"{place.spoken(finding, n.span)}: {report.say(n.message)}" for n in finding.notes]
    if finding.help is not None:
        rows.append(summary.labelled(report, summary.FIX, finding.help))
    if more:
        rest = Text(
            "and {n} more, see the log or the summary of this job",
            "另有 {n} 个，见日志或本任务的摘要",
            n=summary.counted({finding.severity: more}, report.language),
        )
        rows.append(report.say(rest))
    values = ",".join(f"{k}={_property(str(v))}" for k, v in fields.items())
    return f"::{command} {values}::{_data(chr(10).join(rows))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def step_summary(report: Report) -> str:
    """Markdown for $GITHUB_STEP_SUMMARY with all findings, at most 1 MiB of UTF-8."""
    return markdown.compose(report, markdown.table(report), SUMMARY_BYTES, lambda t: len(t.encode("utf-8", "replace")))
