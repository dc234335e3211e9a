"""SARIF 2.1.0 as GitHub code scanning reads it: rules with their pages, stable fingerprints, call paths, fixes."""

from __future__ import annotations

from torchvet.findings import CERTAIN, ERROR, LIKELY, NOTE, POSSIBLE, WARNING
from torchvet.report import place, summary
from torchvet.report.json import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchvet.findings import Finding, Span
    from torchvet.report import Report, RuleInfo

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

MOST_RESULTS = 25_000
"""GitHub refuses runs with more results."""

_UNREAD = ("syntax-error", "unreadable-file", "internal-error")

_PRECISION = {CERTAIN: "very-high", LIKELY: "high", POSSIBLE: "medium"}
_PROBLEM = {ERROR: "error", WARNING: "warning", NOTE: "recommendation"}
_LANGUAGES = {"en": "en-US", "zh": "zh-CN"}

Object = dict[str, object]


def render(report: Report) -> str:
    findings = report.worst_first()[:MOST_RESULTS]
    rules = _rules(report, findings)
    index = {rule.name: i for i, rule in enumerate(rules)}
    hashes = LineHashes(report)
    driver: Object = {
        "name": "torchvet",
        "version": report.version,
        "semanticVersion": report.version,
        "informationUri": "https://torchvet.github.io",
        "rules": [_rule(report, rule) for rule in rules],
    }
    run: Object = {
        "tool": {"driver": driver},
        "language": _LANGUAGES.get(report.language, "en-US"),
        "columnKind": "utf16CodeUnits",
        "automationDetails": {"id": f"torchvet/{report.category}/" if report.category else "torchvet/"},
        "invocations": [_invocation(report, findings)],
        "results": [_result(report, f, index[f.name], hashes) for f in findings],
    }
    return dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rules(report: Report, findings: list[Finding]) -> list[RuleInfo]:
    rules = dict(report.rules)
    for finding in findings:
        rules.setdefault(finding.name, report.rule(finding))
    return sorted(rules.values(), key=lambda r: (r.code, r.name))


def _rule(report: Report, rule: RuleInfo) -> Object:
    short = report.say(rule.summary) or rule.name
    page = rule.page.strip()
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": short[:1024]},
        "fullDescription": {"text": short[:1024]},
        "helpUri": rule.url,
        "help": {"text": f"{short}\n{rule.url}", "markdown": page or f"{short}\n\n<{rule.url}>"},
        "defaultConfiguration": {"level": rule.severity or WARNING},
        "properties": {
            "tags": ["pytorch", rule.family] if rule.family else ["pytorch"],
            "precision": _PRECISION.get(rule.confidence, "high"),
            "problem.severity": _PROBLEM.get(rule.severity, "warning"),
        },
    }


def _invocation(report: Report, findings: list[Finding]) -> Object:
    """Files that could not be read or checked are notifications too: their silence is not a clean bill."""
    notices: list[object] = [
        {
            "level": f.severity,
            "message": {"text": report.say(f.message)},
            "descriptor": {"id": f.code},
            "locations": [_location(report, f, f.span)],
        }
        for f in findings
        if f.name in _UNREAD
    ]
    out: Object = {"executionSuccessful": report.complete}
    if notices:
        out["toolExecutionNotifications"] = notices
    return out


def _result(report: Report, finding: Finding, rule_index: int, hashes: LineHashes) -> Object:
    related = [
        {"id": i, **_location(report, finding, note.span, report.say(note.message))}
        for i, note in enumerate(finding.notes, 1)
    ]
    path, line = place.region(report, finding)[:2]
    prints: Object = {}
    line_hash = hashes.of(path, line)
    if line_hash:
        prints["primaryLocationLineHash"] = line_hash
    if finding.fingerprint:
        prints["torchvet/v1"] = finding.fingerprint
    properties: Object = {"confidence": finding.confidence}
    if finding.trace:
        properties["trace"] = [f"{report.say(who)}: {report.say(what)}" for who, what in finding.trace]
    out: Object = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": _message(report, finding)},
        "locations": [_location(report, finding, finding.span)],
        "partialFingerprints": prints,
        "properties": properties,
    }
    if related:
        out["relatedLocations"] = related
    flow = [n for n in finding.notes if n.chain]
    if flow:
        steps = [_location(report, finding, n.span, report.say(n.message)) for n in flow]
        if all(n.span != finding.span for n in flow):
            steps.append(_location(report, finding, finding.span, report.say(finding.message)))
        out["codeFlows"] = [{"threadFlows": [{"locations": [{"location": s} for s in steps]}]}]
    fix = _fix(report, finding)
    if fix is not None:
        out["fixes"] = [fix]
    return out


def _message(report: Report, finding: Finding) -> str:
    """The message, the related places as links (code scanning shows those that the message links to), the help."""
    rows = [_no_link(report.say(finding.message))]
    for i, note in enumerate(finding.notes, 1):
        where = place.spoken(finding, note.span).rpartition(":")[0].replace("[", "\\[").replace("]", "\\]")
        rows.append(f"[{where}]({i}): {_no_link(report.say(note.message))}")
    if finding.help is not None:
        rows.append(summary.labelled(report, summary.FIX, _no_link(report.say(finding.help))))
    return "\n".join(rows)


def _no_link(text: str) -> str:
    return text.replace("](", "] (")


def _location(report: Report, finding: Finding, span: Span, message: str = "") -> Object:
    path, line, column, end_line, end_column = place.region(report, finding, span)
    if end_line > line:
        # GitHub shows an annotation only when all lines of the region are in the diff.
        text = report.source(path, line, 0)
        end_column = max(column + 1, len(text.rstrip()) + 1) if text is not None else column + 1
    physical: Object = {
        "artifactLocation": _artifact(report, path),
        "region": _region(report, path, line, column, line, end_column),
    }
    out: Object = {"physicalLocation": physical}
    if message:
        out["message"] = {"text": message}
    return out


def _artifact(report: Report, path: str) -> Mapping[str, object]:
    from urllib.parse import quote

    uri = quote(place.from_root(report, path), safe="/@!$&'()*+,;=~", errors="surrogateescape")
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _region(report: Report, path: str, line: int, column: int, end_line: int, end_column: int) -> Object:
    return {
        "startLine": line,
        "startColumn": _utf16(report, path, line, column),
        "endLine": end_line,
        "endColumn": _utf16(report, path, end_line, end_column),
    }


def _utf16(report: Report, path: str, line: int, column: int) -> int:
    """The column in UTF-16 code units: characters beyond the first plane take two."""
    text = report.source(path, line, 0)
    if text is None or text.isascii():
        return column
    return column + sum(c > "\uffff" for c in text[: column - 1])


def _fix(report: Report, finding: Finding) -> Object | None:
    edits = place.edits(report, finding)
    if finding.fix is None or not edits:
        return None
    path = place.region(report, finding)[0]
    replacements = [
        {"deletedRegion": _region(report, path, *where), "insertedContent": {"text": text}} for *where, text in edits
    ]
    return {
        "description": {"text": f"{report.say(finding.fix.title)} [{summary.flags(finding.fix.safe)}]"},
        "artifactChanges": [{"artifactLocation": _artifact(report, path), "replacements": replacements}],
    }


class LineHashes:
    """`primaryLocationLineHash`, by which code scanning knows an alert again after lines have moved.

    It is a polynomial over 64-bit numbers in 37 of the 100 UTF-16 units that follow the start of the line, blanks and
    tabs left out, line ends read as "\\n", the end of the file as 65535 and zeros after it; then `:n`, the number of
    the line among equal ones.
    """

    WINDOW = 100
    BASE = 37
    END = "\uffff"

    def __init__(self, report: Report) -> None:
        self._report = report
        self._files: dict[str, list[str]] = {}

    def of(self, path: str, line: int) -> str:
        hashes = self._files.get(path)
        if hashes is None:
            lines: list[str] = []
            while (text := self._report.source(path, len(lines) + 1, 0)) is not None:
                lines.append(text)
            if lines and lines[-1]:
                lines.append("")  # source files end in a line end
            hashes = self._files[path] = self.all("\n".join(lines)) if lines else []
        return hashes[line - 1] if 0 < line <= len(hashes) else ""

    @classmethod
    def all(cls, text: str) -> list[str]:
        """The hash of each line of a file's text."""
        lines = text.replace("\r\n", "\n").replace("\r", "\n").replace(" ", "").replace("\t", "").split("\n")
        raw = ("\n".join(lines) + cls.END).encode("utf-16-le", "surrogatepass")
        out = []
        seen: dict[bytes, int] = {}
        known: dict[bytes, str] = {}
        start = 0
        for row in lines:
            window = raw[start : start + 2 * cls.WINDOW]
            start += 2 * (len(row) + sum(c > "\uffff" for c in row) + 1)
            value = known.get(window)
            if value is None:
                number = 0
                for i in range(0, 2 * cls.WINDOW, 2):
                    unit = window[i] | window[i + 1] << 8 if i < len(window) else 0
                    number = number * cls.BASE + unit & 0xFFFF_FFFF_FFFF_FFFF
                value = known[window] = f"{number:x}"
            n = seen[window] = seen.get(window, 0) + 1
            out.append(f"{value}:{n}")
        return out
