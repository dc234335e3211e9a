"""What torchvet says: a finding, where it points, how sure it is, how to repair it.

Lines and columns are 1-based; columns count characters (code points); an end column is exclusive. The classes are
plain `__slots__` classes: defining a dataclass costs more start-up time than a whole small check may take.
"""

from __future__ import annotations

from .language import Text

ERROR = "error"
WARNING = "warning"
NOTE = "note"
SEVERITIES = (NOTE, WARNING, ERROR)
"""From mild to grave; `SEVERITIES.index(s)` orders them."""

CERTAIN = "certain"
LIKELY = "likely"
POSSIBLE = "possible"
CONFIDENCES = (POSSIBLE, LIKELY, CERTAIN)


class Span:
    """A stretch of one file: `path` relative to the project in POSIX form, 1-based, end column exclusive."""

    __slots__ = ("column", "end_column", "end_line", "line", "path")

    def __init__(self, path: str, line: int, column: int = 1, end_line: int = 0, end_column: int = 0) -> None:
        self.path = path
        self.line = line
        self.column = column
        self.end_line = end_line or line
        self.end_column = end_column or (column + 1 if self.end_line == line else 1)

    def plain(self) -> tuple[str, int, int, int, int]:
        return (self.path, self.line, self.column, self.end_line, self.end_column)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class Note:
    """A further place that belongs to a finding, with what happens there (`chain` notes are in order of execution)."""

    __slots__ = ("chain", "message", "span")

    def __init__(self, span: Span, message: Text, chain: bool = False) -> None:
        self.span = span
        self.message = message
        self.chain = chain


class Edit:
    """Replace `span` (in the finding's own file) by `text`; an empty span inserts."""

    __slots__ = ("column", "end_column", "end_line", "line", "text")

    def __init__(self, line: int, column: int, end_line: int, end_column: int, text: str) -> None:
        self.line = line
        self.column = column
        self.end_line = end_line
        self.end_column = end_column
        self.text = text

    def plain(self) -> tuple[int, int, int, int, str]:
        return (self.line, self.column, self.end_line, self.end_column, self.text)


class Fix:
    """Edits that repair a finding. `safe` means: the training result is the same bit for bit."""

    __slots__ = ("edits", "safe", "title")

    def __init__(self, title: Text, edits: list[Edit], safe: bool = True) -> None:
        self.title = title
        self.edits = edits
        self.safe = safe


class Finding:
    """One fault at one place.

    `name` is primary (`accumulated-graph`), `code` stable (`TV101`). `scope` is the qualified name of the enclosing
    function ("" for module level); `source` the text of the first line; both feed the fingerprint, which therefore
    survives moved lines. `trace` rows are (who, what they run), for findings about ranks. `cell` is the 1-based
    notebook cell (0: no notebook); `span.line` then counts inside the cell and `raw_line` is the line in the .ipynb.
    """

    __slots__ = (
        "_fingerprint", "_identity", "cell", "code", "confidence", "fix", "help", "message", "name", "notes",
        "raw_line", "scope", "severity", "source", "span", "trace",
    )  # fmt: skip

    def __init__(
        self,
        code: str,
        name: str,
        severity: str,
        confidence: str,
        span: Span,
        message: Text,
        help: Text | None = None,
        notes: list[Note] | None = None,
        fix: Fix | None = None,
        scope: str = "",
        source: str = "",
        trace: list[tuple[Text, Text]] | None = None,
        cell: int = 0,
        raw_line: int = 0,
        fingerprint: str = "",
    ) -> None:
        self.code = code
        self.name = name
        self.severity = severity
        self.confidence = confidence
        self.span = span
        self.message = message
        self.help = help
        self.notes = notes or []
        self.fix = fix
        self.scope = scope
        self.source = source
        self.trace = trace or []
        self.cell = cell
        self.raw_line = raw_line
        self._fingerprint = fingerprint
        self._identity = ""

    @property
    def fingerprint(self) -> str:
        """Its identity (see `fingerprints`) in 20 digits; "" before it has one. Made when it is asked for: what is
        printed for people shows none."""
        if self._identity:
            self._fingerprint = digest(self._identity)
            self._identity = ""
        return self._fingerprint

    @property
    def identified(self) -> bool:
        """Does it have a fingerprint?"""
        return bool(self._identity or self._fingerprint)

    @property
    def url(self) -> str:
        return rule_url(self.name)

    def sort_key(self) -> tuple[str, int, int, str]:
        return (self.span.path, self.cell * 1_000_000 + self.span.line, self.span.column, self.code)

    def __repr__(self) -> str:
        return f"<{self.severity} {self.name} at {self.span}>"

    def plain(self) -> tuple[object, ...]:
        """The finding as values that `marshal` can hold."""
        fix = self.fix and (self.fix.title.plain(), [e.plain() for e in self.fix.edits], self.fix.safe)
        return (
            self.code, self.name, self.severity, self.confidence, self.span.plain(), self.message.plain(),
            self.help and self.help.plain(), [(n.span.plain(), n.message.plain(), n.chain) for n in self.notes], fix,
            self.scope, self.source, [(a.plain(), b.plain()) for a, b in self.trace], self.cell, self.raw_line,
            self.fingerprint,
        )  # fmt: skip

    @classmethod
    def from_plain(cls, row: tuple) -> Finding:  # type: ignore[type-arg]
        text = Text.from_plain
        fix = row[8] and Fix(text(row[8][0]), [Edit(*e) for e in row[8][1]], row[8][2])
        return cls(
            row[0], row[1], row[2], row[3], Span(*row[4]), text(row[5]), row[6] and text(row[6]),
            [Note(Span(*s), text(m), c) for s, m, c in row[7]], fix, row[9], row[10],
            [(text(a), text(b)) for a, b in row[11]], *row[12:],
        )  # fmt: skip


def rule_url(name: str) -> str:
    """Where the rule's page can be read on the web."""
    return f"https://torchvet.github.io/rules/{name}"


def fingerprints(findings: list[Finding]) -> None:
    """Give each finding its identity: rule, file, enclosing function, the line's text without blanks, and its number
    among equals. Line numbers take no part, so code added above does not change it."""
    seen: dict[str, int] = {}
    for f in sorted(findings, key=Finding.sort_key):
        base = "\0".join((f.name, f.span.path, f.scope, "".join(f.source.split())))
        seen[base] = n = seen.get(base, 0) + 1
        f._identity = f"{base}\0{n}"


def digest(identity: str) -> str:
    try:
        from _blake2 import blake2b  # importing hashlib loads OpenSSL: 5 ms
    except ImportError:
        from hashlib import blake2b
    return str(blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest())
