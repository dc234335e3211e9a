"""Where a finding points, in the terms of a format: paths from the top of the repository, lines of a notebook's file.

Inside torchvet a position in a notebook counts lines of its cell. People read it so (`nb.ipynb:cell 3:12:5`); machines
open the .ipynb file, whose lines are JSON, so their formats get the line and column of that file.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding, Span
    from torchvet.report import Report

Region = tuple[str, int, int, int, int]
"""(path, line, column, end line, end column): 1-based, columns in characters, end column exclusive."""


def split_cell(finding: Finding, span: Span) -> tuple[str, int]:
    """(path of the file, cell) of a span that belongs to a finding; cell 0 outside notebooks."""
    path, sign, cell = span.path.rpartition(":cell ")
    if sign and cell.isdecimal() and path.lower().endswith(".ipynb"):
        return path, int(cell)
    return span.path, finding.cell if span.path == finding.span.path else 0


def spoken(finding: Finding, span: Span | None = None) -> str:
    """`train.py:41:9`, or `nb.ipynb:cell 3:12:5`."""
    span = span or finding.span
    path, cell = split_cell(finding, span)
    return f"{spoken_file(path, cell)}:{span.line}:{span.column}"


def spoken_file(path: str, cell: int) -> str:
    return f"{path}:cell {cell}" if cell else path


def region(report: Report, finding: Finding, span: Span | None = None) -> Region:
    """The span as a region of the file on disk."""
    span = span or finding.span
    path, cell = split_cell(finding, span)
    if not cell:
        return (path, span.line, span.column, span.end_line, span.end_column)
    line, column = _on_disk(report, finding, path, cell, span.line, span.column)
    end_line, end_column = _on_disk(report, finding, path, cell, span.end_line, span.end_column)
    if not column or not end_column or (end_line, end_column) <= (line, column):
        # The text of the cell is not found in the line (an unusual way to write the JSON): the whole line is meant.
        raw = report.source(path, line, 0) or ""
        return (path, line, 1, line, max(2, len(raw) + 1))
    return (path, line, column, end_line, end_column)


def edits(report: Report, finding: Finding) -> list[tuple[int, int, int, int, str]] | None:
    """The edits of the finding's fix for the file on disk (for a notebook: as JSON text); None when there are none, or
    when they cannot be expressed there."""
    if finding.fix is None:
        return None
    if not finding.cell:
        return [e.plain() for e in finding.fix.edits]
    import json

    path = split_cell(finding, finding.span)[0]
    out = []
    for e in finding.fix.edits:
        line, column = _on_disk(report, finding, path, finding.cell, e.line, e.column)
        end_line, end_column = _on_disk(report, finding, path, finding.cell, e.end_line, e.end_column)
        if not column or not end_column:
            return None
        out.append((line, column, end_line, end_column, json.dumps(e.text, ensure_ascii=False)[1:-1]))
    return out


def from_root(report: Report, path: str) -> str:
    """The path as CI systems count it: from `report.root`, POSIX, without `./`."""
    if not report.root or not report.base or report.root == report.base:
        return path
    from os.path import relpath

    try:
        way = relpath(report.base, report.root).replace("\\", "/")
    except ValueError:  # two drives
        return path
    if way == "." or way.startswith("../") or way == "..":
        return path
    from posixpath import normpath

    return normpath(f"{way}/{path}")


def _on_disk(report: Report, finding: Finding, path: str, cell: int, line: int, column: int) -> tuple[int, int]:
    """(line, column) in the .ipynb of a position in a cell; column 0 when it is not known."""
    if report.raw_line is not None:
        raw_line = report.raw_line(path, line, cell)
    elif path == split_cell(finding, finding.span)[0] and cell == finding.cell:
        # nbformat writes one JSON string a line, so lines of a cell are lines of the file.
        raw_line = finding.raw_line + line - finding.span.line
    else:
        raw_line = finding.raw_line
    text = report.source(path, line, cell)
    raw = report.source(path, raw_line, 0)
    if text is None or raw is None:
        return raw_line, 0
    import json

    for plain in (False, True):
        start = raw.find(json.dumps(text, ensure_ascii=plain)[1:-1])
        if start >= 0:
            return raw_line, start + len(json.dumps(text[: column - 1], ensure_ascii=plain)) - 1
    return raw_line, 0
