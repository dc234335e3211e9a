"""JUnit XML: a case for each result; what does not block passes, what is unknown is skipped."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from ..probe import FAIL, UNKNOWN, WARN
from . import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport
    from ..probe import Result
    from . import Style

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: NodeReport, style: Style) -> str:
    blocking = (FAIL, WARN) if style.fail_on == WARN else (FAIL,)
    failed = sum(r.verdict in blocking for r in report.results)
    skipped = report.count(UNKNOWN)
    counts = f'tests="{len(report.results)}" failures="{failed}" errors="0" skipped="{skipped}"'
    name = _attribute(f"torchvet preflight {report.node.get('hostname', '')}".strip())
    out = ['<?xml version="1.0" encoding="UTF-8"?>']
    out.append(f'<testsuites name="torchvet" {counts} time="{report.seconds:.3f}">')
    out.append(f'  <testsuite name={name} {counts} time="{report.seconds:.3f}">')
    for r in report.worst_first():
        out += _case(r, style, r.verdict in blocking)
    return "\n".join([*out, "  </testsuite>", "</testsuites>"]) + "\n"


def _case(r: Result, style: Style, blocks: bool) -> list[str]:
    message = r.message.render(style.language)
    head = f'    <testcase name={_attribute(r.probe)} classname="preflight"'
    if blocks:
        fix = f"\n{text.FIX.render(style.language)}: {r.fix.render(style.language)}" if r.fix is not None else ""
        body = escape(_NOT_XML.sub("\ufffd", message + fix))
        inner = f'      <failure type="{r.verdict}" message={_attribute(message)}>{body}</failure>'
    elif r.verdict == UNKNOWN:
        inner = f"      <skipped message={_attribute(message)}/>"
    elif r.verdict == WARN:
        inner = f"      <system-out>{escape(_NOT_XML.sub(chr(0xFFFD), message))}</system-out>"
    else:
        return [head + "/>"]
    return [head + ">", inner, "    </testcase>"]


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", value))
