"""The outline of a large source: function bodies that hold no subject word are blanked before it is parsed.

Those bodies are left out of the rows anyway and lowered from their own lines when something calls into them
(`collect.lower_function`); parsing and dropping them is half the cost of a large module. Lines keep their numbers, and
what is left its columns, so that the rows are the same as those of the whole source.

Bodies are found by indentation, outside of triple-quoted strings. Wherever a source is written in a way that makes
this unsure (tabs, other line ends, a quote or a comment before a triple quote), there is no outline; a blanked
statement that was not what it seemed leaves a bracket or a quote open, so that the outline does not parse and the
whole source is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from re import Pattern

LONG_HEAD = 6_000
"""Bytes in which the parameters of a definition have to end."""

_DEFINITION = Later(rb"def \w+\(([^\n]*)")
_COLON = Later(rb":[ \t]*(?:#[^\n]*)?\Z")
_closing: dict[int, tuple[Pattern[bytes], Pattern[bytes]]] = {}


def outline(data: bytes, word_lines: Sequence[int]) -> bytes | None:
    """`data` with the bodies blanked that hold none of `word_lines` (sorted line numbers from 1); None when there is
    nothing to gain, or no sure way."""
    if b"\r" in data or b"\f" in data:
        return None
    strings = triple_quoted(data)
    if strings is None:
        return None
    starts, ends = strings
    tab = data.find(b"\n\t")
    while tab >= 0:  # only in strings
        k = bisect_right(starts, tab) - 1
        if k < 0 or tab >= ends[k]:
            return None
        tab = data.find(b"\n\t", ends[k])
    out: list[bytes] = []
    kept_from = 0
    beyond = 0  # the end of the function before
    line, counted = 1, 0
    for m in _DEFINITION.finditer(data):
        at = m.start()
        if at < beyond:
            continue
        row = data.rfind(b"\n", 0, at) + 1
        before = data[row:at]
        indent = len(before) - len(before.lstrip(b" "))
        if len(before) != indent and before[indent:] != b"async ":
            continue
        k = bisect_right(starts, at) - 1
        if k >= 0 and at < ends[k]:
            continue
        body, stop = _extent(data, m, indent, starts, ends)
        if not body:
            continue  # what stands in it is looked at by itself, and kept when it is not plain either
        line += data.count(b"\n", counted, beyond)  # decorators belong to it
        last = line + data.count(b"\n", beyond, stop)
        counted = beyond
        beyond = stop
        i = bisect_left(word_lines, line)
        if i < len(word_lines) and word_lines[i] <= last:
            continue
        end = _without_comments(data, body, stop, ends)
        rows = data.count(b"\n", body, end)
        width = end - data.rfind(b"\n", body, end) - 1
        if rows < 2 or width < indent + 4:
            continue
        out += (data[kept_from:body], b"\n" * rows, b" " * (width - 3), b"...")
        kept_from = end
    if not out:
        return None
    out.append(data[kept_from:])
    return b"".join(out)


def triple_quoted(data: bytes) -> tuple[list[int], list[int]] | None:
    """(starts, ends) of the triple-quoted strings; None when what stands before one leaves it unsure."""
    starts: list[int] = []
    ends: list[int] = []
    find = data.find
    end = 0
    double, single = find(b'"""'), find(b"'''")
    while double >= 0 or single >= 0:
        if single < 0 or 0 <= double < single:
            at, quote = double, b'"""'
        else:
            at, quote = single, b"'''"
        before = data[max(data.rfind(b"\n", end, at) + 1, end) : at]
        if b"#" in before or b"'" in before or b'"' in before:
            return None
        close = find(quote, at + 3)
        if close < 0 or data[close - 1] == 92:  # a backslash
            return None
        starts.append(at)
        end = close + 3
        ends.append(end)
        if 0 <= double < end:
            double = find(b'"""', end)
        if 0 <= single < end:
            single = find(b"'''", end)
    return starts, ends


def _extent(data: bytes, m: object, indent: int, starts: list[int], ends: list[int]) -> tuple[int, int]:
    """(start, end) of the body of a definition, from the end of its head to the end of its last line; (0, 0) when it
    is not plainly to see."""
    head: bytes = m.group(1)  # type: ignore[attr-defined]
    e: int = m.end()  # type: ignore[attr-defined]
    patterns = _closing.get(indent)
    if patterns is None:
        from re import compile

        patterns = _closing[indent] = compile(rb"\n {0,%d}[^\s#]" % indent), compile(rb"\n {%d}\)[^\n]*" % indent)
    if not (head.count(b"(") + 1 == head.count(b")") and _COLON.search(head)):
        closed = patterns[1].search(data, e, e + LONG_HEAD)
        if closed is None or not _COLON.search(closed.group()):
            return 0, 0
        other = patterns[0].search(data, e, closed.end())
        if other is None or other.start() != closed.start():
            return 0, 0
        e = closed.end()
    body = e
    while True:
        found = patterns[0].search(data, e)
        if found is None:
            return body, len(data)
        stop = found.start()
        k = bisect_right(starts, stop) - 1
        if k >= 0 and stop < ends[k]:
            e = ends[k]
            continue
        return (body, stop) if data[stop - 1] != 92 else (0, 0)  # a statement goes on behind a backslash


def _without_comments(data: bytes, body: int, stop: int, ends: list[int]) -> int:
    """The end of the last line of a body that is code."""
    text = data[body:stop].rstrip()
    while True:
        end = body + len(text)
        i = text.rfind(b"\n")
        if i < 0 or not text[i:].lstrip().startswith(b"#"):
            return end
        k = bisect_left(ends, end)
        if k < len(ends) and ends[k] == end:
            return end
        text = text[:i].rstrip()
