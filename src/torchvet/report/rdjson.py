"""Reviewdog's diagnostic format. Its columns count bytes of UTF-8, from 1."""

from __future__ import annotations

from torchvet.findings import ERROR, NOTE, WARNING
from torchvet.report import place
from torchvet.report.json import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding, Span
    from torchvet.report import Report

_SEVERITIES = {ERROR: "ERROR", WARNING: "WARNING", NOTE: "INFO"}

Object = dict[str, object]


def render(report: Report) -> str:
    head = dump({"source": {"name": "torchvet", "url": "https://torchvet.github.io"}})[:-1]
    rows = [dump(_diagnostic(report, f)) for f in sorted(report.findings, key=lambda f: f.sort_key())]
    return head + ', "diagnostics": ' + ("[\n" + ",\n".join(rows) + "\n]" if rows else "[]") + "}\n"


def _diagnostic(report: Report, finding: Finding) -> Object:
    out: Object = {
        "message": report.say(finding.message),
        "location": _location(report, finding, finding.span),
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": finding.name, "url": finding.url},
    }
    edits = place.edits(report, finding)
    if edits and len(edits) == 1:  # several suggestions are alternatives, not parts of one
        path = place.region(report, finding)[0]
        out["suggestions"] = [{"range": _range(report, path, *where), "text": text} for *where, text in edits]
    if finding.notes:
        out["relatedLocations"] = [
            {"message": report.say(n.message), "location": _location(report, finding, n.span)} for n in finding.notes
        ]
    return out


def _location(report: Report, finding: Finding, span: Span) -> Object:
    path, *where = place.region(report, finding, span)
    return {"path": place.from_root(report, path), "range": _range(report, path, *where)}


def _range(report: Report, path: str, line: int, column: int, end_line: int, end_column: int) -> Object:
    return {
        "start": {"line": line, "column": _bytes(report, path, line, column)},
        "end": {"line": end_line, "column": _bytes(report, path, end_line, end_column)},
    }


def _bytes(report: Report, path: str, line: int, column: int) -> int:
    text = report.source(path, line, 0)
    if text is None or text.isascii():
        return column
    before = text[: column - 1]
    return column + len(before.encode("utf-8", "surrogatepass")) - len(before)
