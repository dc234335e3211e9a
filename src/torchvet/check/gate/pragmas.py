"""What suppression comments say: names, reason, scope, and what is wrong with them (see `suppress`)."""

from __future__ import annotations

import re

from torchvet.findings import CERTAIN, ERROR, Edit, Finding, Fix, Span, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .comments import Comment

_PRAGMA = re.compile(r"torchvet:\s*([A-Za-z-]+)[ \t]*(\[[^\]]*\]?)?", re.IGNORECASE)
_NOQA = re.compile(r"noqa:[ \t]*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)", re.IGNORECASE)
_OUR_NOQA = re.compile(r"noqa:[^\n]*?\bTV[0-9]", re.IGNORECASE)
_ACTIONS = ("ignore", "file-ignore")
_DECORATION = " \t-–—:：，,"

_CODES = {"unused-suppression": "TV001", "bad-suppression": "TV002"}


class Suppression:
    """One pragma of a comment: (as written, rule name) pairs; it speaks for the lines `first` to `last`, 0 to 0 for the
    whole file. `removal` takes it away, None when the comment says more."""

    __slots__ = ("first", "last", "names", "removal", "span", "used")

    def __init__(self, span: Span, names: list[tuple[str, str]], first: int, last: int, removal: Edit | None) -> None:
        self.span = span
        self.names = names
        self.first = first
        self.last = last
        self.removal = removal
        self.used: set[str] = set()

    def covers(self, finding: Finding) -> bool:
        if all(name != finding.name for _, name in self.names):
            return False
        if not self.last:
            return True
        spans = [finding.span, *(n.span for n in finding.notes if n.span.path == finding.span.path)]
        return any(s.line <= self.last and s.end_line >= self.first for s in spans)


def read(
    path: str, text: str, rules: Mapping[str, object], require_reason: bool = False
) -> tuple[list[Suppression], list[Finding]]:
    """The suppressions of a file, and findings about those that cannot be meant."""
    from .comments import comments

    reader = _Reader(path, rules, require_reason)
    for comment in comments(path, text, relevant):
        reader.read(comment)
    return reader.suppressions, reader.problems


class _Reader:
    def __init__(self, path: str, rules: Mapping[str, object], require_reason: bool) -> None:
        self.path = path
        self.rules = rules
        self.codes = {str(getattr(rule, "code", "")): name for name, rule in rules.items()}
        self.require_reason = require_reason
        self.suppressions: list[Suppression] = []
        self.problems: list[Finding] = []

    def read(self, comment: Comment) -> None:
        for m in _PRAGMA.finditer(comment.text):
            self.pragma(comment, m, _end_of_pragma(comment.text, m.end()))
        noqa = _NOQA.search(comment.text)
        if noqa:
            self.noqa(comment, noqa)

    def pragma(self, comment: Comment, m: re.Match[str], end: int) -> None:
        action, names = m[1].lower(), m[2] or ""
        span = self.span(comment, m.start(), end)
        if action not in _ACTIONS:
            from torchvet.check.config import nearest

            near = "file-ignore" if action == "ignore-file" else nearest(action, _ACTIONS)
            if near or names:  # else it is prose: "torchvet: see the docs"
                said = Text("torchvet: {word} is no instruction", "torchvet: {word} 不是有效指令", word=m[1])
                self.bad(span, comment, said, _write(near or "ignore"))
            return
        if not names.endswith("]") or not names.strip("[] \t,"):
            said = Text(
                "{action} names no rule and suppresses nothing", "{action} 没有写规则名，不起作用", action=action
            )
            self.bad(span, comment, said, _write(action))
            return
        known = self.resolve(names[1:-1].split(","), span, comment)
        reason = comment.text[m.end() : end].strip(_DECORATION)
        self.add(comment, span, known, action == "file-ignore", reason)

    def noqa(self, comment: Comment, m: re.Match[str]) -> None:
        written = re.split(r"[,\s]+", m[1])
        ours = [code for code in written if re.fullmatch("TV[0-9]+", code, re.IGNORECASE)]
        if ours:
            end = _end_of_pragma(comment.text, m.end())
            span = self.span(comment, m.start(), m.end())
            known = self.resolve(ours, span, comment)
            removable = len(ours) == len(written)
            self.add(comment, span, known, False, comment.text[m.end() : end].strip(_DECORATION), removable)

    def span(self, comment: Comment, start: int, end: int) -> Span:
        length = len(comment.text[:end].rstrip())
        return Span(self.path, comment.line, comment.column + start, comment.line, comment.column + length)

    def resolve(self, written: list[str], span: Span, comment: Comment) -> list[tuple[str, str]]:
        known = []
        for word in (w.strip() for w in written):
            name = word.lower() if word.lower() in self.rules else self.codes.get(word.upper())
            if name:
                known.append((word, name))
            elif word:
                from torchvet.check.config import did_you_mean

                said = Text("no rule is called {name}", "没有名为 {name} 的规则", name=word)
                listed = Text("torchvet rules lists all rules", "torchvet rules 列出所有规则")
                near = did_you_mean(word, [*self.rules, *self.codes])
                self.bad(span, comment, said, near if isinstance(near, Text) else listed)
        return known

    def add(
        self, comment: Comment, span: Span, names: list[tuple[str, str]], whole_file: bool, reason: str,
        removable: bool = True,
    ) -> None:  # fmt: skip
        if names:
            first, last = (0, 0) if whole_file else (comment.first, comment.last)
            removal = _removal(comment, span) if removable else None
            self.suppressions.append(Suppression(span, names, first, last, removal))
        if self.require_reason and not reason:
            said = Text("the suppression gives no reason", "抑制注释没有写明理由")
            help = Text(
                "say why behind the names: require-reason is set", "请在规则名之后写明理由：已启用 require-reason"
            )
            self.bad(span, comment, said, help)

    def bad(self, span: Span, comment: Comment, message: Text, help: Text) -> None:
        self.problems.append(finding("bad-suppression", ERROR, span, comment.text, message, help))


def _end_of_pragma(comment: str, start: int) -> int:
    """Where the reason ends: at the end of the comment, or where the next pragma of anybody's begins."""
    m = re.compile(r"\s#\s*\S|\s*\*/").search(comment, start)
    return m.start() if m else len(comment)


def _removal(comment: Comment, span: Span) -> Edit | None:
    """The edit that takes a comment away when it holds this pragma and nothing else."""
    before = comment.text[: span.column - comment.column]
    after = comment.text[span.end_column - comment.column :]
    if before.strip("#/* \t") or after.strip("*/ \t"):
        return None
    if comment.blank == 0:
        return Edit(comment.line, 1, comment.line + 1, 1, "")
    return Edit(comment.line, comment.blank, comment.line, comment.column + len(comment.text), "")


def finding(
    name: str, severity: str, span: Span, source: str, message: Text, help: Text, fix: Fix | None = None
) -> Finding:
    return Finding(_CODES[name], name, severity, CERTAIN, span, message, help, fix=fix, source=source)


def _write(action: str) -> Text:
    return Text("write # torchvet: {action}[rule-name]", "请写 # torchvet: {action}[rule-name]", action=action)


def relevant(text: str) -> bool:
    """Whether a text may hold a suppression of ours. Many files hold a `noqa` of somebody else's: not worth the
    tokenizer, which takes a second for a megabyte."""
    return "torchvet:" in text or _OUR_NOQA.search(text) is not None
