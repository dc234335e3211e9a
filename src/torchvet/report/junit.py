"""JUnit XML: a suite for each file, a failed case for each error and warning. Notes never block: their cases pass."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from torchvet.findings import NOTE
from torchvet.report import place, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding
    from torchvet.report import Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    files: dict[str, list[Finding]] = {}
    for f in sorted(report.findings, key=lambda f: f.sort_key()):
        files.setdefault(f.span.path, []).append(f)
    failures = sum(f.severity != NOTE for f in report.findings)
    total = len(report.findings) or 1
    time = f"{report.seconds:.3f}"
    out = ['<?xml version="1.0" encoding="UTF-8"?>']
    out.append(f'<testsuites name="torchvet" tests="{total}" failures="{failures}" errors="0" time="{time}">')
    for path, findings in files.items():
        failed = sum(f.severity != NOTE for f in findings)
        out.append(f'  <testsuite name={_attribute(path)} tests="{len(findings)}" failures="{failed}" errors="0">')
        for finding in findings:
            out += _case(report, finding)
        out.append("  </testsuite>")
    if not files:
        name = _attribute(report.say(summary.NO_FINDINGS))
        out.append('  <testsuite name="torchvet" tests="1" failures="0" errors="0">')
        out.append(f'    <testcase name={name} classname="torchvet"/>')
        out.append("  </testsuite>")
    out.append("</testsuites>")
    return "\n".join(out) + "\n"


def _case(report: Report, finding: Finding) -> list[str]:
    path, line, column = place.region(report, finding)[:3]
    message = report.say(finding.message)
    rows = [f"{place.spoken(finding)}: {message}"]
    rows += [f"{place.spoken(finding, n.span)}: {report.say(n.message)}" for n in finding.notes]
    rows += [f"{report.say(who)}: {report.say(what)}" for who, what in finding.trace]
    if finding.help is not None:
        rows.append(summary.labelled(report, summary.FIX, finding.help))
    rows.append(finding.url)
    body = _text("\n".join(rows))
    name = _attribute(f"{finding.name} ({finding.code})")
    if finding.severity == NOTE:
        inner = f"      <system-out>{body}</system-out>"
    else:
        inner = f'      <failure type="{finding.severity}" message={_attribute(message)}>{body}</failure>'
    file = _attribute(path)
    head = f'    <testcase name={name} classname={file} file={file} line="{line}" column="{column}">'
    return [head, inner, "    </testcase>"]


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))
