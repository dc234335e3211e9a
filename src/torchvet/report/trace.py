"""The trace of one function (`torchvet check --trace`), as text for people and as JSON for programs. A pure function of
a `TracePage`, which holds plain values.

A column for each abstract rank stands before the lines: `●` runs it, `?` when its own data decides, `·` does not. The
guards that are the same on every rank are not decided; what stands under them counts as run.
"""

from __future__ import annotations

from torchvet.findings import POSSIBLE, Text
from torchvet.findings.columns import visible, width
from torchvet.report.json import SCHEMA, dump
from torchvet.report.summary import SEVERITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torchvet.findings import Finding

DOTS = ("·", "?", "●")
ASCII = str.maketrans({"·": "-", "●": "x", "◆": "!", "│": "|", "…": "~"})
_STYLES = {"parts": "1;33", "op": "1", "faint": "2", "error": "1;31", "warning": "1;33", "note": "1;36"}
_WIDEST_TEXT = 64
_SAID = {"no": 0, "perhaps": 1, "yes": 2}


class TracePage:
    """What is said about one function.

    name, path, line      the function
    heads                 one for each column: the number of the rank, or its name on its axis
    legend                what the columns stand for
    rows                  objects with kind, path, line, depth, runs, name, group, text, note, parts
    reported              the findings about it
    silent                (name of a rule, path, line, Text why not) of each difference that is not reported
    limits                what was not followed
    verdict               one sentence when neither list says anything
    """

    __slots__ = (
        "heads", "legend", "limits", "line", "name", "path", "reported", "rows", "silent", "verdict", "version",
    )  # fmt: skip

    def __init__(self, name: str, path: str, line: int) -> None:
        from torchvet import __version__

        self.name = name
        self.path = path
        self.line = line
        self.heads: list[str] = []
        self.legend = Text("")
        self.rows: Sequence[Any] = ()
        self.reported: list[Finding] = []
        self.silent: list[tuple[str, str, int, Text]] = []
        self.limits: list[Text] = []
        self.verdict = Text("")
        self.version = __version__


def render(page: TracePage, language: str = "en", *, color: bool = False, unicode: bool = True, room: int = 100) -> str:
    def say(text: Text | None) -> str:
        return visible(text.render(language)) if text is not None else ""

    def paint(style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if color and text and style in _STYLES else text

    head = Text("{name} · {path}:{line}", name=page.name, path=page.path, line=page.line)
    out = [paint("op", say(head)), ""]
    if page.rows:
        columns = [max(1, width(h)) for h in page.heads]
        lines = max(len(str(r.line)) for r in page.rows)
        bodies = [text_of(r) for r in page.rows]
        text_room = min(_WIDEST_TEXT, max(width(b) for b in bodies))
        names = "  ".join(h + " " * (c - width(h)) for h, c in zip(page.heads, columns))
        out.append(paint("faint", f"  {names}"))
        for r, body in zip(page.rows, bodies):
            cells = "  ".join(DOTS[n] + " " * (c - 1) for n, c in zip(r.runs, columns))
            mark = "◆" if r.parts else " "
            shown = cut(visible(body), text_room)
            note = say(r.group) if r.kind == "op" else say(r.note)
            if r.kind == "op" and r.note is not None:
                note += ", " + say(r.note)
            style = "parts" if r.parts else "op" if r.kind == "op" else "faint" if not any(r.runs) else ""
            where = r.line
            row = f"{paint('parts', mark) if r.parts else mark} {cells} "
            row += paint("faint", f"{where:>{lines}} │") + " " + paint(style, shown)
            if note:
                row += " " * (text_room - width(shown) + 2) + paint("parts" if r.parts else "faint", note)
            out.append(row.rstrip())
        out += ["", say(page.legend)] if page.legend.en else []
        out.append(
            say(Text("● runs it  ? its own data decides  · does not run it  ◆ ranks part here",
                     "● 执行  ? 由该 rank 自己的数据决定  · 不执行  ◆ 各 rank 在此分开"))
        )  # fmt: skip
        out.append("")
    for f in page.reported:
        word = paint(f.severity, f"{say(SEVERITY[f.severity])}[{f.name}]")
        hidden = Text(" (possible: shown with --confidence possible)", "（可能：加 --confidence possible 才显示）")
        said = f"{f.code} {f.span.path}:{f.span.line}: {say(f.message)}"
        out.append(f"{word} {said}" + (say(hidden) if f.confidence == POSSIBLE else ""))
    for name, path, line, why in page.silent:
        unsaid = Text("not reported: {name} {path}:{line}: {why}", "未报告：{name} {path}:{line}：{why}",
                      name=name, path=path, line=line, why=why)  # fmt: skip
        out.append(say(unsaid))
    if not page.reported and not page.silent:
        out.append(say(page.verdict))
    out += [say(Text("limit: {text}", "限制：{text}", text=t)) for t in page.limits]
    text = "\n".join(out) + "\n"
    return text if unicode else text.translate(ASCII)


def text_of(row: Any) -> str:
    """The row itself: the name of a collective, else the source line."""
    indent = "  " * row.depth
    if row.kind == "op":
        return f"{indent}{row.name}()"
    if row.kind == "call":
        return f"{indent}{row.name or '…'}()"
    if row.kind == "more":
        return f"{indent}…"
    return indent + (row.text or "…")


def cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    while text and width(text) > room - 1:
        text = text[:-1]
    return text + "…"


def render_json(page: TracePage, language: str = "en") -> str:
    """One object, schema 1; each row on a line of its own."""

    def say(text: Text | None) -> str:
        return text.render(language) if text is not None else ""

    rows = [
        dump({
            "kind": r.kind, "path": r.path, "line": r.line, "depth": r.depth, "name": r.name, "group": say(r.group),
            "text": r.text, "note": say(r.note), "parts": r.parts,
            "runs": {h: next(k for k, v in _SAID.items() if v == n) for h, n in zip(page.heads, r.runs)},
        })
        for r in page.rows
    ]  # fmt: skip
    reported = [
        {"severity": f.severity, "confidence": f.confidence, "code": f.code, "name": f.name, "path": f.span.path,
         "line": f.span.line, "message": say(f.message)}
        for f in page.reported
    ]  # fmt: skip
    silent = [{"name": n, "path": p, "line": line, "why": say(why)} for n, p, line, why in page.silent]
    head = {"name": page.name, "path": page.path, "line": page.line}
    body = "[\n" + ",\n".join(rows) + "\n]" if rows else "[]"
    return (
        f'{{"schema": {SCHEMA}, "tool": {dump({"name": "torchvet", "version": page.version})},\n'
        f'"function": {dump(head)}, "ranks": {dump(page.heads)}, "legend": {dump(say(page.legend))},\n'
        f'"rows": {body},\n"reported": {dump(reported)},\n"not_reported": {dump(silent)},\n'
        f'"verdict": {dump(say(page.verdict))}, "limits": {dump([say(t) for t in page.limits])}}}\n'
    )
