"""The contract for other programs: one object, schema 1. Each finding stands on a line of its own."""

from __future__ import annotations

import json

from torchvet.findings import ERROR, NOTE, WARNING
from torchvet.report import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding
    from torchvet.report import Report

SCHEMA = 1


def render(report: Report) -> str:
    tool = {"name": "torchvet", "version": report.version}
    counts = report.counts()
    summary = {
        "files": report.files, "parsed": report.parsed,
        "errors": counts[ERROR], "warnings": counts[WARNING], "notes": counts[NOTE],
    }  # fmt: skip
    rows = [dump(finding_object(report, f)) for f in sorted(report.findings, key=lambda f: f.sort_key())]
    findings = "[\n" + ",\n".join(rows) + "\n]" if rows else "[]"
    head = f'{{"schema": {SCHEMA}, "tool": {dump(tool)}, "summary": {dump(summary)}'
    return f'{head},\n"findings": {findings}}}\n'


def finding_object(report: Report, finding: Finding) -> dict[str, object]:
    """A finding as the contract has it. A finding about ranks also has `trace`, one in a notebook `cell` (the position
    inside the cell; `line` and `column` are those of the .ipynb file)."""
    path, line, column, end_line, end_column = place.region(report, finding)
    out: dict[str, object] = {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "path": path,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "message": report.say(finding.message),
        "help": report.say(finding.help or ""),
        "url": finding.url,
        "related": [_related(report, finding, i) for i in range(len(finding.notes))],
        "fix": _fix(report, finding),
        "fingerprint": finding.fingerprint,
    }
    if finding.trace:
        out["trace"] = [{"who": report.say(who), "runs": report.say(what)} for who, what in finding.trace]
    if finding.cell:
        out["cell"] = {"number": finding.cell, "line": finding.span.line, "column": finding.span.column}
    return out


def _related(report: Report, finding: Finding, index: int) -> dict[str, object]:
    note = finding.notes[index]
    path, line = place.region(report, finding, note.span)[:2]
    return {"path": path, "line": line, "message": report.say(note.message)}


def _fix(report: Report, finding: Finding) -> dict[str, object] | None:
    edits = place.edits(report, finding)
    if finding.fix is None or edits is None:
        return None
    keys = ("line", "column", "end_line", "end_column", "text")
    return {
        "title": report.say(finding.fix.title),
        "safe": finding.fix.safe,
        "edits": [dict(zip(keys, e)) for e in edits],
    }


def dump(value: object) -> str:
    """JSON that can be written as UTF-8: file names with undecodable bytes hold lone surrogates, which are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
