"""How findings are said: one module per output format, each a pure function of a `Report`.

    text = render("sarif", Report(findings, language="zh", source=line_of, ...))

A format's module is imported when it is asked for, never before. `Report` holds plain values, so nothing here knows
the rules or the engine.
"""

from __future__ import annotations

from torchvet.findings import ERROR, NOTE, WARNING, Text, UserError, rule_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchvet.findings import Finding

FORMATS = {
    "full": "full",
    "concise": "concise",
    "json": "json",
    "jsonl": "jsonl",
    "sarif": "sarif",
    "github": "github",
    "gitlab": "gitlab",
    "junit": "junit",
    "rdjson": "rdjson",
    "markdown": "markdown",
    "html": "html",
}
"""Name of a format (`--output-format`) -> its module in this package."""

CHECK = "check"
"""The family of findings about the check itself (`syntax-error`, `unused-suppression`, `internal-error`)."""


class RuleInfo:
    """What a report tells about a rule: `summary` is one line, `page` its documentation in Markdown (or a function that
    reads it, called when a format wants it: sarif and html do)."""

    __slots__ = ("_page", "code", "confidence", "family", "name", "severity", "summary", "url")

    def __init__(
        self,
        code: str,
        name: str,
        family: str,
        severity: str,
        confidence: str,
        summary: Text,
        page: str | Callable[[], str] = "",
        url: str = "",
    ) -> None:
        self.code = code
        self.name = name
        self.family = family
        self.severity = severity
        self.confidence = confidence
        self.summary = summary
        self._page = page
        self.url = url or rule_url(name)

    @property
    def page(self) -> str:
        if not isinstance(self._page, str):
            self._page = self._page()
        return self._page


class Report:
    """Everything a format may say.

    findings     to be shown, sorted by `Finding.sort_key`
    files        number of files read; `parsed` of them were parsed; `seconds` wall time
    base         absolute directory that the paths of findings are relative to
    root         absolute directory that CI systems count paths from (top of the repository); sarif, github, gitlab and
                 rdjson put the way from `root` to `base` before each path when `base` lies below it
    rules        name -> RuleInfo of the rules that were asked; only sarif, markdown, github and html look at them
    source       (path, line, cell) -> text of that line without its end, None when there is no such line. `cell` 0
                 means the file as it is on disk (for a notebook: the JSON), else the 1-based cell of a notebook
    raw_line     (path, line, cell) -> line in the .ipynb, for notes in other cells than their finding
    baselined, suppressed   findings left out because of the baseline, or a comment
    families     family -> {"looked_at": int, "what": Text (optional, what was counted, plural)}, for the checklist
    color        write ANSI colours; width: columns to keep to; unicode: the terminal can show box-drawing characters
    complete     False when the tool itself failed somewhere (an `internal-error`)
    category     for several runs over one repository (sarif `automationDetails`)

    A note in a notebook cell other than its finding's has the path `dir/nb.ipynb:cell 3`.
    """

    __slots__ = (
        "base", "baselined", "category", "color", "complete", "families", "files", "findings", "language", "parsed",
        "raw_line", "root", "rules", "seconds", "source", "suppressed", "unicode", "version", "width",
    )  # fmt: skip

    def __init__(
        self,
        findings: Sequence[Finding],
        *,
        language: str = "en",
        files: int = 0,
        parsed: int = 0,
        seconds: float = 0.0,
        root: str = "",
        base: str = "",
        rules: Mapping[str, RuleInfo] | None = None,
        source: Callable[[str, int, int], str | None] | None = None,
        raw_line: Callable[[str, int, int], int] | None = None,
        baselined: int = 0,
        suppressed: int = 0,
        families: Mapping[str, Mapping[str, object]] | None = None,
        color: bool = False,
        width: int = 100,
        unicode: bool = True,
        complete: bool = True,
        category: str = "",
        version: str = "",
    ) -> None:
        from torchvet import __version__

        self.findings = list(findings)
        self.language = language
        self.files = files
        self.parsed = parsed
        self.seconds = seconds
        self.root = root
        self.base = base
        self.rules = rules or {}
        self.source = source or _no_source
        self.raw_line = raw_line
        self.baselined = baselined
        self.suppressed = suppressed
        self.families = families or {}
        self.color = color
        self.width = width
        self.unicode = unicode
        self.complete = complete
        self.category = category
        self.version = version or __version__

    def count(self, severity: str) -> int:
        return sum(f.severity == severity for f in self.findings)

    def counts(self) -> dict[str, int]:
        """Severity -> number of findings, gravest first."""
        return {s: self.count(s) for s in (ERROR, WARNING, NOTE)}

    def worst_first(self) -> list[Finding]:
        """Errors, then warnings, then notes; within one severity in the order of files and lines."""
        grade = {ERROR: 0, WARNING: 1, NOTE: 2}
        return sorted(self.findings, key=lambda f: (grade.get(f.severity, 3), f.sort_key()))

    def rule(self, finding: Finding) -> RuleInfo:
        """The rule of a finding; for one that no rule stands behind (`syntax-error`), what the finding itself knows."""
        known = self.rules.get(finding.name)
        if known is not None:
            return known
        title = finding.name.replace("-", " ")
        return RuleInfo(
            finding.code, finding.name, CHECK, finding.severity, finding.confidence, Text(title), "", finding.url
        )

    def say(self, text: Text | str) -> str:
        return text if isinstance(text, str) else text.render(self.language)


def _no_source(path: str, line: int, cell: int = 0) -> str | None:
    return None


def render(format: str, report: Report) -> str:
    """The report in one of `FORMATS`, ending in a newline unless empty. Unknown names raise UserError."""
    module = FORMATS.get(format)
    if module is None:
        raise UserError(
            Text("unknown output format {name}", "未知的输出格式 {name}", name=format),
            Text("one of: {names}", "可选：{names}", names=", ".join(FORMATS)),
        )
    text: str = __import__(f"{__name__}.{module}", fromlist=["render"]).render(report)
    return text


def step_summary(report: Report) -> str:
    """What belongs into the file that $GITHUB_STEP_SUMMARY names, in Markdown, at most 1 MiB."""
    from torchvet.report.github import step_summary as summary

    return summary(report)
