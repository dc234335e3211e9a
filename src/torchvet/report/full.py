"""For people: each finding with its source, its places in order, the fix. Colour helps, it never carries meaning."""

from __future__ import annotations

from torchvet.findings import ERROR, POSSIBLE, WARNING
from torchvet.findings.columns import visible, width, wrap
from torchvet.report import summary
from torchvet.report.excerpt import blocks, drawn, repaired
from torchvet.report.place import spoken_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding
    from torchvet.report import Report
    from torchvet.report.excerpt import Line

_STYLES = {ERROR: "1;31", WARNING: "1;33", "note": "1;36", "frame": "94", "strong": "1", "fix": "32"}

ASCII = str.maketrans({"│": "|", "┌": "+", "├": "+", "─": "-", "━": "^", "·": "-", "…": "~", "×": "x"})
"""For terminals without box-drawing characters."""

_FLAG_COLUMN = 48


def render(report: Report) -> str:
    out: list[str] = []
    explained: set[str] = set()
    for finding in report.worst_first():
        out += _finding(report, finding, finding.name not in explained)
        out.append("")
        explained.add(finding.name)
    out += _summary(report)
    text = "\n".join(out) + "\n"
    return text if report.unicode else text.translate(ASCII)


def _summary(report: Report) -> list[str]:
    """The summary line; a second one when the first grows too long."""
    rows = [""]
    for part in summary.summary_line(report).split(summary.DOT):
        longer = rows[-1] + summary.DOT + part if rows[-1] else part
        if width(longer) <= report.width or not rows[-1]:
            rows[-1] = longer
        else:
            rows.append(part)
    return [_paint(report, "strong", r) for r in rows] if report.findings else rows


def _finding(report: Report, finding: Finding, explain: bool) -> list[str]:
    out = _heading(report, finding)
    shown = blocks(report, finding)
    gutter = max(2, *(len(str(line.number)) for block in shown for line in block.lines))
    for i, block in enumerate(shown):
        corner = "├─" if i else "┌─"
        place = visible(f"{spoken_file(block.path, block.cell)}:{block.line}:{block.column}")
        out.append(" " * gutter + _paint(report, "frame", corner) + f" {place}")
        for line in block.lines:
            out += _line(report, finding, line, gutter)
    out += _trace(report, finding, gutter)
    out += _fix(report, finding, gutter)
    if explain:
        out += _fact(report, gutter, f"torchvet explain {finding.name}")
    return out


def _heading(report: Report, finding: Finding) -> list[str]:
    sure = report.say(summary.POSSIBLE) if finding.confidence == POSSIBLE else ""
    label = f"{report.say(summary.SEVERITY[finding.severity])}[{finding.name}]"
    rows = _hanging(f"{label} {finding.code}{sure}: {visible(report.say(finding.message))}", report.width, 2)
    if report.color and rows[0].startswith(label):
        rows[0] = _paint(report, finding.severity, label) + _paint(report, "strong", rows[0][len(label) :])
        rows[1:] = [_paint(report, "strong", r) for r in rows[1:]]
    return rows


def _line(report: Report, finding: Finding, line: Line, gutter: int) -> list[str]:
    room = report.width - gutter - 2
    bar = _paint(report, "frame", "│")
    number = _paint(report, "frame", f"{line.number:>{gutter}}│")
    if line.text is None:
        labels = [m.label for m in line.marks if m.label] or ["…"]
        rows = [row for label in labels for row in wrap(visible(label), room)]
        return [f"{number} {rows[0]}"] + [" " * gutter + f"{bar} {row}" for row in rows[1:]]
    text, places = drawn(line.text, line.marks, room)
    out = [f"{number} {text}".rstrip()]
    for mark, (start, columns) in zip(line.marks, places):
        style = finding.severity if mark.primary else "frame"
        underline = ("━" if mark.primary else "─") * columns
        label = visible(mark.label)
        after = start + columns + 1
        if not label:
            rows, first, indent = [], "", 0
        elif width(label) <= room - after or room - after >= 40:
            rows, indent = wrap(label, room - after), after
            first, rows = rows[0], rows[1:]
        else:  # no room beside the underline: the sentence goes below it
            indent = max(0, min(start, room - 60))
            rows, first = wrap(label, room - indent), ""
        row = " " * start + _paint(report, style, underline)
        out.append(" " * gutter + f"{bar} {row}" + (f" {_paint(report, style, first)}" if first else ""))
        out += [" " * gutter + bar + " " * (indent + 1) + _paint(report, style, r) for r in rows]
    return out


def _trace(report: Report, finding: Finding, gutter: int) -> list[str]:
    rows = [(visible(report.say(who)), visible(report.say(what))) for who, what in finding.trace]
    column = max((width(who) for who, _ in rows), default=0)
    out = []
    for i, (who, what) in enumerate(rows):
        head = who + " " * (column - width(who) + 2)
        out += _fact(report, gutter, head + what, "=" if not i else " ", column + 2)
    return out


def _fix(report: Report, finding: Finding, gutter: int) -> list[str]:
    """What the fix does and the option that applies it; the help, unless that says it all."""
    out = []
    word = summary.FIX
    if finding.fix is not None:
        text = visible(summary.labelled(report, word, repaired(report, finding) or finding.fix.title))
        flag = f"[{summary.flags(finding.fix.safe)}]"
        gap = max(2, _FLAG_COLUMN - width(text) - gutter - 3)
        if gutter + 3 + width(text) + gap + len(flag) <= report.width:
            text += " " * gap + flag
        else:
            text += f" {flag}"
        out += _fact(report, gutter, text, hang=width(summary.labelled(report, word, "")), style="fix")
        word = summary.HELP
    if finding.help is not None and not (finding.fix is not None and finding.fix.safe):
        text = visible(summary.labelled(report, word, finding.help))
        out += _fact(report, gutter, text, hang=width(summary.labelled(report, word, "")))
    return out


def _fact(report: Report, gutter: int, text: str, sign: str = "=", hang: int = 2, style: str = "") -> list[str]:
    """A row below the source: `  = text`, continued under itself."""
    room = report.width - gutter - 2
    rows = [text] if width(text) <= room else _hanging(text, room, hang)
    rows = [_paint(report, style, r) for r in rows] if style else rows
    pad = " " * gutter
    head = pad + _paint(report, "frame", sign) + " " if sign.strip() else pad + "  "
    return [head + rows[0]] + [f"{pad}  {r}" for r in rows[1:]]


def _hanging(text: str, room: int, hang: int) -> list[str]:
    """Lines of at most `room` columns, those after the first set in by `hang`."""
    first, *rest = wrap(text, room)
    if not rest:
        return [first]
    return [first, *(" " * hang + r for r in wrap(text[len(first) :].strip(), room - hang))]


def _paint(report: Report, style: str, text: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if report.color and text else text
