"""The baseline: findings that a project knows and lives with, so that the gate blocks new ones only.

torchvet-baseline.json is made to be merged by git: sorted, one finding per line, no line numbers. An entry fits a
finding with the same fingerprint; else one of the same rule in the same file and function with the same text.
"""

from __future__ import annotations

import os

from torchvet.findings import CERTAIN, NOTE, Finding, Note, Span, Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE_NAME = "torchvet-baseline.json"
STALE = ("TV005", "stale-baseline")


class Entry:
    """One known finding; `path` counts from the folder of the baseline file, `number` is the entry's line there."""

    __slots__ = ("fingerprint", "line", "number", "path", "rule", "scope")

    def __init__(self, rule: str, path: str, scope: str, fingerprint: str, line: str, number: int = 0) -> None:
        self.rule = rule
        self.path = path
        self.scope = scope
        self.fingerprint = fingerprint
        self.line = line
        self.number = number

    @property
    def text_key(self) -> tuple[str, str, str, str]:
        return (self.rule, self.path, self.scope, "".join(self.line.split()))

    def order(self) -> tuple[str, ...]:
        return (self.path, self.rule, self.scope, self.line, self.fingerprint)

    def plain(self) -> dict[str, str]:
        return {"rule": self.rule, "path": self.path, "scope": self.scope, "fingerprint": self.fingerprint,
                "line": self.line}  # fmt: skip


class Baseline:
    """The entries of a baseline file. `base` is the folder that findings' paths count from."""

    def __init__(self, path: str, entries: list[Entry]) -> None:
        self.path = path
        self.folder = os.path.dirname(os.path.abspath(path))
        self.entries = entries

    def match(self, findings: Sequence[Finding], base: str) -> tuple[list[Finding], list[Entry]]:
        """(the findings that are new, the entries that fit nothing)."""
        way = self._way(base)
        by_fingerprint = {e.fingerprint: e for e in self.entries}
        free = {id(e): e for e in self.entries}
        left: list[Finding] = []
        for f in findings:
            entry = by_fingerprint.get(f.fingerprint)
            if entry and entry.rule == f.name and free.pop(id(entry), None):
                continue
            left.append(f)
        by_text: dict[tuple[str, str, str, str], list[Entry]] = {}
        for e in free.values():
            by_text.setdefault(e.text_key, []).append(e)
        new: list[Finding] = []
        for f in left:
            fitting = by_text.get(self.entry(f, way).text_key)
            if fitting:
                del free[id(fitting.pop(0))]
            else:
                new.append(f)
        return new, list(free.values())

    def entry(self, f: Finding, way: str) -> Entry:
        path = os.path.normpath(way + f.span.path).replace(os.sep, "/")
        return Entry(f.name, path, f.scope, f.fingerprint, f.source.strip())

    def _way(self, base: str) -> str:
        way = os.path.relpath(base or ".", self.folder).replace(os.sep, "/")
        return "" if way == "." else way + "/"

    def stale(self, unmatched: Iterable[Entry], base: str, checked: Sequence[str], ran: Iterable[str]) -> list[Entry]:
        """The entries of `unmatched` that this run could have matched: their rule ran, and their file lies under one of
        the `checked` paths (relative to `base`, "" for all of it) or is gone."""
        way = self._way(base)
        rules = frozenset(ran)
        roots = [os.path.normpath(way + p).replace(os.sep, "/") for p in checked]
        out = []
        for e in unmatched:
            gone = not os.path.exists(os.path.join(self.folder, e.path))
            inside = any(r == "." or e.path == r or e.path.startswith(r + "/") for r in roots)
            if gone or (inside and e.rule in rules):
                out.append(e)
        return out

    def rewritten(self, findings: Sequence[Finding], base: str, kept: Iterable[Entry]) -> Baseline:
        """A baseline of `findings` and of the entries `kept` from this one."""
        way = self._way(base)
        known = {(e.rule, e.fingerprint): e for e in [*kept, *(self.entry(f, way) for f in findings)]}
        return Baseline(self.path, list(known.values()))

    def render(self) -> bytes:
        """The file: valid JSON, one entry per line, in an order that does not depend on the run."""
        import json

        rows = [json.dumps(e.plain(), ensure_ascii=False) for e in sorted(self.entries, key=Entry.order)]
        body = ",\n".join(rows) + "\n" if rows else ""
        text = '{"schema": 1, "tool": "torchvet", "findings": [\n' + body + "]}\n"
        return text.encode("utf-8", "backslashreplace")


def read(path: str) -> Baseline:
    """Load a baseline. Raises UserError when there is none or it is not one."""
    import json

    try:
        with open(path, "rb") as f:
            text = f.read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "not UTF-8"
        raise UserError(
            Text(
                "cannot read the baseline {path}: {reason}", "无法读取基线 {path}：{reason}", path=path, reason=reason
            ),
            Text("make one with --write-baseline {path}", "请用 --write-baseline {path} 生成", path=path),
        ) from None
    try:
        rows = json.loads(text)["findings"]
        lines = text.split("\n")
        numbers: dict[str, int] = {}
        for number, line in enumerate(lines, 1):
            at = line.find('"fingerprint": "')
            if at >= 0:
                numbers.setdefault(line[at + 16 : line.find('"', at + 16)], number)
        entries = [
            Entry(str(r["rule"]), str(r["path"]), str(r["scope"]), str(r["fingerprint"]), str(r["line"]),
                  numbers.get(str(r["fingerprint"]), 1))
            for r in rows
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        at = getattr(error, "lineno", 0)
        raise UserError(
            Text(
                "{path}{at} is no torchvet baseline",
                "{path}{at} 不是 torchvet 基线文件",
                path=path,
                at=f":{at}" if at else "",
            ),
            Text("make one with --write-baseline {path}", "请用 --write-baseline {path} 生成", path=path),
        ) from None
    return Baseline(path, entries)


def stale_finding(baseline: Baseline, stale: Sequence[Entry], base: str) -> Finding:
    """One note about all entries that fit nothing any more."""
    path = os.path.relpath(os.path.abspath(baseline.path), base or ".").replace(os.sep, "/")
    n = len(stale)
    said = Text(
        "1 entry of the baseline fits no finding" if n == 1 else "{n} entries of the baseline fit no finding",
        "基线中有 {n} 条记录已不再对应任何问题", n=n,
    )  # fmt: skip
    ordered = sorted(stale, key=lambda e: e.number)
    notes = [
        Note(Span(path, e.number or 1), Text("{rule} in {path}", "{rule}，位于 {path}", rule=e.rule, path=e.path))
        for e in ordered
    ]
    help = Text("--prune-baseline takes them out", "可用 --prune-baseline 清除")
    span = notes[0].span
    return Finding(STALE[0], STALE[1], NOTE, CERTAIN, span, said, help, notes=notes[1:], source=ordered[0].rule)
