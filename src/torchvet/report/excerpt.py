"""The source lines of a finding and the marks under them, ready to be drawn."""

from __future__ import annotations

from torchvet.findings.columns import cells, width
from torchvet.report.place import split_cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding, Span
    from torchvet.report import Report

LONGEST_FIX = 80
"""Columns: a longer line of code says less than the title of its fix."""


class Mark:
    """A stretch of one line, columns 1-based and end-exclusive, with what happens there ("" says nothing)."""

    __slots__ = ("column", "end", "label", "primary")

    def __init__(self, column: int, end: int, label: str, primary: bool) -> None:
        self.column = column
        self.end = end
        self.label = label
        self.primary = primary


class Line:
    """A line of source with its marks; `text` is None when the file cannot be read any more."""

    __slots__ = ("marks", "number", "text")

    def __init__(self, number: int, text: str | None) -> None:
        self.number = number
        self.text = text
        self.marks: list[Mark] = []


class Block:
    """Lines of one file that are drawn under one heading `path:line:column`."""

    __slots__ = ("cell", "column", "line", "lines", "path", "primary")

    def __init__(self, path: str, cell: int, line: int, column: int) -> None:
        self.path = path
        self.cell = cell
        self.line = line
        self.column = column
        self.lines: list[Line] = []
        self.primary = False


def blocks(report: Report, finding: Finding) -> list[Block]:
    """All places of a finding in the order to read them, neighbours in one file under one heading."""
    out: list[Block] = []
    for span, label, primary in places(report, finding):
        path, cell = split_cell(finding, span)
        block = out[-1] if out else None
        if block is None or (block.path, block.cell) != (path, cell) or span.line < block.lines[-1].number:
            block = Block(path, cell, span.line, span.column)
            out.append(block)
        if not block.lines or block.lines[-1].number != span.line:
            block.lines.append(Line(span.line, report.source(path, span.line, cell)))
        if primary and not block.primary:
            block.primary, block.line, block.column = True, finding.span.line, finding.span.column
        line = block.lines[-1]
        line.marks.append(Mark(span.column, _end(span, line.text), label, primary))
    for block in out:
        for line in block.lines:
            line.marks.sort(key=lambda m: m.column)
    return out


def places(report: Report, finding: Finding) -> list[tuple[Span, str, bool]]:
    """(span, label, is it the finding's own place) in the order to read them.

    Notes of a chain stand in order of execution and lead to the finding's own place, unless one of them is about that
    place or a part of it (the condition of an `if`). Other notes stand by line around it, those in further files last.
    """
    own = finding.span
    at_own = next((n for n in finding.notes if n.span == own), None)
    if at_own is None:
        at_own = next((n for n in finding.notes if _on_first_line(own, n.span)), None)
    rows = [(n.span, report.say(n.message), n is at_own) for n in finding.notes]
    if any(n.chain for n in finding.notes):
        if at_own is None:
            last = max(i for i, n in enumerate(finding.notes) if n.chain)
            rows.insert(last + 1, (own, "", True))
        return rows
    if at_own is None:
        rows.append((own, "", True))
    here = [r for r in rows if r[0].path == own.path]
    here.sort(key=lambda r: (r[0].line, r[0].column))
    return here + [r for r in rows if r[0].path != own.path]


def repaired(report: Report, finding: Finding) -> str:
    """The line of code that the fix leaves, if it changes one line and the line is short enough to show; else ""."""
    edits = finding.fix.edits if finding.fix is not None else []
    if not edits or any((e.line, e.end_line) != (edits[0].line, edits[0].line) or "\n" in e.text for e in edits):
        return ""
    path, cell = split_cell(finding, finding.span)
    text = report.source(path, edits[0].line, cell)
    if text is None:
        return ""
    for e in sorted(edits, key=lambda e: e.column, reverse=True):
        text = text[: e.column - 1] + e.text + text[e.end_column - 1 :]
    text = text.strip()
    return text if width(text) <= LONGEST_FIX else ""


def _on_first_line(own: Span, part: Span) -> bool:
    """Is `part` on the first line of `own`, and inside it?"""
    if (part.path, part.line) != (own.path, own.line) or part.column < own.column:
        return False
    return own.end_line > own.line or part.column < own.end_column


def _end(span: Span, text: str | None) -> int:
    """Exclusive end column on the span's first line."""
    if span.end_line == span.line:
        return max(span.end_column, span.column + 1)
    return max(len((text or "").rstrip()) + 1, span.column + 1)


def drawn(text: str, marks: list[Mark], room: int) -> tuple[str, list[tuple[int, int]]]:
    """A source line for `room` columns and, per mark, (first column, columns) of its underline, 0-based.

    A longer line is cut to a window around its marks, with … at the cut ends.
    """
    shown = cells(text.rstrip())
    offsets = [0]
    for _, w in shown:
        offsets.append(offsets[-1] + w)
    total = offsets[-1]

    def at(column: int) -> int:
        return offsets[min(column - 1, len(shown))]

    spans = [(at(m.column), max(at(m.end), at(m.column) + 1)) for m in marks]
    if total < room:
        return "".join(c for c, _ in shown), [(a, b - a) for a, b in spans]
    chief = next((s for m, s in zip(marks, spans) if m.primary), spans[0] if spans else (0, 1))
    left = 0 if chief[1] < room else max(0, min(chief[0] - room // 4, total - room + 1))
    first = next((i for i, o in enumerate(offsets) if o >= left), 0)
    left = offsets[first]
    head = "…" if first else ""
    space = room - len(head)
    last = first
    while last < len(shown) and offsets[last + 1] - left <= space - (last + 1 < len(shown)):
        last += 1
    tail = "…" if last < len(shown) else ""
    out = head + "".join(c for c, _ in shown[first:last]) + tail
    edge = width(out)
    moved = []
    for a, b in spans:
        start = min(max(a - left + len(head), 0), edge - 1)
        end = min(max(b - left + len(head), start + 1), edge)
        moved.append((start, max(1, end - start)))
    return out, moved
