"""Suppressions: comments with which a person says that a finding is known and meant.

    total += loss  # torchvet: ignore[accumulated-graph] backward runs on the sum
    # torchvet: ignore[TV401, TV402] the launcher starts one rank     (on a line of its own: the statement below)
    # torchvet: file-ignore[too-many-workers] generated              (anywhere: the whole file)
    barrier()  # noqa: TV401

A suppression names its rules: without names it would hide what nobody has looked at.
"""

from __future__ import annotations

import re

from torchvet.findings import CERTAIN, ERROR, NOTE, Edit, Finding, Fix, Span, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torchvet.check.config import Options

    from .comments import Comment

_PRAGMA = re.compile(r"torchvet:\s*([A-Za-z-]+)[ \t]*(\[[^\]]*\]?)?", re.IGNORECASE)
_NOQA = re.compile(r"noqa:[ \t]*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)", re.IGNORECASE)
_OUR_NOQA = re.compile(r"noqa:[^\n]*?\bTV[0-9]", re.IGNORECASE)
_ACTIONS = ("ignore", "file-ignore")
_DECORATION = " \t-–—:：，,"

UNUSED = "unused-suppression"
_CODES = {UNUSED: "TV001", "bad-suppression": "TV002"}
_NEVER = frozenset(("bad-suppression", "internal-error"))
"""What no comment can hide."""


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


def apply(
    findings: list[Finding],
    read_text: Callable[[str], str],
    options: Options,
    *,
    files: Iterable[str] | None = None,
    only: Iterable[str] | None = None,
    rules: Mapping[str, object] | None = None,
) -> tuple[list[Finding], int]:
    """Take away what comments suppress: (the findings that stay, how many were taken away).

    `read_text(path)` is the text that was analysed. Suppressions without effect and broken ones come back as findings
    of their own. They are looked for in `files` (those analysed; default: the files of the findings), and only names
    in `only` (the rules that ran; default: all) can be without effect. `rules` is name -> rule, default all rules.
    """
    by_path: dict[str, list[Finding]] = {}
    for f in findings:
        by_path.setdefault(f.span.path, []).append(f)
    ran = None if only is None else frozenset(only)
    kept: list[Finding] = []
    count = 0
    for path in sorted({*by_path, *(files or ())}):
        here = by_path.get(path, [])
        try:
            text = read_text(path)
        except (OSError, LookupError, ValueError):  # unreadable or undecodable: a finding says so already
            text = ""
        if not _relevant(text):
            kept += here
            continue
        if rules is None:
            from torchvet.check.rules import all_rules

            rules = all_rules()
        suppressions, problems = read(path, text, rules, options.require_reason)
        for f in here:
            hit = [s for s in suppressions if s.covers(f)] if f.name not in _NEVER else []
            for s in hit:
                s.used.add(f.name)
            if hit:
                count += 1
            else:
                kept.append(f)
        kept += problems
        if options.unused_suppressions:
            for f in [f for s in suppressions for f in _unused(s, ran)]:
                if any(s.covers(f) for s in suppressions):
                    count += 1
                else:
                    kept.append(f)
    return kept, count


def _relevant(text: str) -> bool:
    """Cheap: most files have no suppression of ours, and many a `noqa` of somebody else's; only ours are worth the
    tokenizer (a second for a megabyte)."""
    if "torchvet:" in text or "TORCHVET:" in text or "Torchvet:" in text:
        return True
    return ("noqa" in text or "NOQA" in text) and _OUR_NOQA.search(text) is not None


def read(
    path: str, text: str, rules: Mapping[str, object], require_reason: bool = False
) -> tuple[list[Suppression], list[Finding]]:
    """The suppressions of a file, and findings about those that cannot be meant."""
    from .comments import comments

    reader = _Reader(path, rules, require_reason)
    for comment in comments(path, text, _relevant):
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
        self.problems.append(_finding("bad-suppression", ERROR, span, comment.text, message, help))


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


def _unused(s: Suppression, ran: frozenset[str] | None) -> list[Finding]:
    idle = [w for w, name in s.names if name not in s.used and name != UNUSED and (ran is None or name in ran)]
    if not idle:
        return []
    said = Text("nothing to suppress here: {names}", "此处没有可抑制的问题：{names}", names=", ".join(idle))
    help = Text("remove it", "请删除")
    fix = None
    if s.removal and len(idle) == len(s.names) and not s.span.path.endswith(".ipynb"):
        fix = Fix(Text("remove the suppression", "删除该抑制注释"), [s.removal], safe=True)
    return [_finding(UNUSED, NOTE, s.span, ", ".join(w for w, _ in s.names), said, help, fix)]


def _finding(
    name: str, severity: str, span: Span, source: str, message: Text, help: Text, fix: Fix | None = None
) -> Finding:
    return Finding(_CODES[name], name, severity, CERTAIN, span, message, help, fix=fix, source=source)


def _write(action: str) -> Text:
    return Text("write # torchvet: {action}[rule-name]", "请写 # torchvet: {action}[rule-name]", action=action)
