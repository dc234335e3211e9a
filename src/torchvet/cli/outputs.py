"""Where reports go: formats to standard output and files, statistics, timings, the summary of a CI step."""

from __future__ import annotations

import os
from time import perf_counter

from torchvet.findings import Finding, Text, UserError
from torchvet.report import CHECK, FORMATS, Report, RuleInfo, render

from . import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchvet.check.config import Options

    from .check import Run

TEXTUAL = ("full", "concise")
"""Formats for people: they follow the terminal's encoding, and `--statistics` takes their place."""

_EVERY_RULE = ("sarif", "markdown", "html")
"""Formats that tell about rules without findings too."""

_BY_ENDING = {
    "sarif": "sarif", "json": "json", "jsonl": "jsonl", "md": "markdown", "html": "html", "htm": "html", "xml": "junit",
}  # fmt: skip


class Outputs:
    """The (format, path) pairs that were asked for; path "" is standard output. Raises UserError for what cannot be
    written before anything is checked."""

    def __init__(self, options: Options, formats: Sequence[str]) -> None:
        self.pairs: list[tuple[str, str]] = []
        main = list(formats) or [options.output_format]
        plain = []
        for text in options.output:
            name, equals, path = text.partition("=")
            if equals and name in FORMATS and path:
                self.pairs.append((name, "" if path == "-" else path))
            elif equals and name.isalnum() and not os.path.exists(text):
                from torchvet.check.config import did_you_mean

                raise UserError(
                    Text("unknown output format {name} in --output", "--output 中有未知的输出格式 {name}", name=name),
                    did_you_mean(name, FORMATS) or Text("one of: {names}", "可选：{names}", names=", ".join(FORMATS)),
                )
            else:
                plain.append(text)
        for path in plain:
            if path == "-":
                continue
            ending = path.rpartition(".")[2].lower()
            self.pairs.append((main[0] if formats else _BY_ENDING.get(ending, main[0]), path))
        if not any(path != "-" for path in plain):  # a plain PATH takes the place of standard output
            self.pairs = [*((name, "") for name in main if (name, "") not in self.pairs), *self.pairs]
        for _, path in self.pairs:
            folder = os.path.dirname(os.path.realpath(path))
            if path and not os.path.isdir(folder):
                raise UserError(
                    Text("cannot write {path}: there is no folder {folder}", "无法写入 {path}：文件夹 {folder} 不存在",
                         path=path, folder=os.path.dirname(path) or folder)
                )  # fmt: skip

    def write(self, run: Run, findings: list[Finding]) -> None:
        """All reports of a run."""
        result, given = run.result, run.given
        assert result is not None
        lines = Lines(result.root, result.read_text)
        names = {name for name, _ in self.pairs}
        every = bool(names.intersection(_EVERY_RULE)) or ("github" in names and _step_summary_file() != "")
        common = {
            "language": run.language,
            "files": result.files,
            "parsed": result.parsed,
            "seconds": perf_counter() - run.started,
            "base": result.root,
            "root": _repository(result.root),
            "rules": rule_infos(run.options) if every else {},
            "source": lines.source,
            "raw_line": lines.raw_line,
            "baselined": run.baselined,
            "suppressed": result.suppressed,
            "families": {
                family: {"looked_at": n, "what": Text("files", "个文件")} for family, n in result.looked_at.items()
            },
            "complete": not result.internal_errors,
        }
        for name, path in self.pairs:
            if path:
                terminal.write_file(path, render(name, Report(findings, **common)))  # type: ignore[arg-type]
                continue
            if name in TEXTUAL and (given.get("statistics") or (given.get("quiet") and not findings)):
                continue
            report = Report(
                findings,
                **common,  # type: ignore[arg-type]
                color=terminal.use_color(given.get("color", "auto")),
                width=terminal.width(),
                unicode=terminal.can_draw(),
            )
            terminal.say(render(name, report), machine=name not in TEXTUAL)
        if given.get("statistics"):
            table = statistics(findings)
            if any(name not in TEXTUAL and not path for name, path in self.pairs):
                terminal.complain(table)
            else:
                terminal.say(table)
        if given.get("timing"):
            terminal.complain(timing(result.timing, result.given_up))
        if "github" in names and _step_summary_file():
            _append_step_summary(Report(findings, **common))  # type: ignore[arg-type]


def _step_summary_file() -> str:
    """The file whose Markdown GitHub shows on a run's page; "" elsewhere. It has room for what annotations drop."""
    return os.environ.get("GITHUB_STEP_SUMMARY", "") if os.environ.get("GITHUB_ACTIONS") else ""


def _append_step_summary(report: Report) -> None:
    from torchvet.report import step_summary

    path = _step_summary_file()
    try:
        with open(path, "ab") as f:
            f.write(step_summary(report).encode("utf-8", "backslashreplace"))
    except OSError as error:
        terminal.complain(f"torchvet: {path}: {error.strerror}\n")


def rule_infos(options: Options) -> dict[str, RuleInfo]:
    """What reports may tell about the rules that were asked for."""
    from torchvet.check.gate.select import selected
    from torchvet.check.rules import all_rules

    asked = frozenset(selected(options))
    return {
        name: RuleInfo(
            r.code, name, CHECK if r.family == "tool" else r.family, r.severity, r.confidence, r.summary, _page(r),
        )
        for name, r in all_rules().items()
        if name in asked
    }  # fmt: skip


def _page(rule: object) -> str:
    try:
        page: str = rule.page()  # type: ignore[attr-defined]
        return page
    except OSError:
        return ""


def _repository(folder: str) -> str:
    """The top of the git repository, which CI systems count paths from; `folder` itself outside one."""
    top = folder
    while not os.path.exists(os.path.join(top, ".git")):
        above = os.path.dirname(top)
        if above == top:
            return folder
        top = above
    return top


class Lines:
    """Source lines for excerpts: of files as analysed, of notebooks by cell, or (cell 0) as they lie on disk."""

    def __init__(self, root: str, read_text: Callable[[str], str]) -> None:
        self.root = root
        self.read_text = read_text
        self._lines: dict[tuple[str, bool], list[str]] = {}
        self._cells: dict[str, dict[tuple[int, int], tuple[str, int]]] = {}

    def source(self, path: str, line: int, cell: int = 0) -> str | None:
        if cell:
            return self._notebook(path).get((cell, line), (None, 0))[0]
        lines = self._of(path, raw=path.endswith(".ipynb"))
        return lines[line - 1] if 0 < line <= len(lines) else None

    def raw_line(self, path: str, line: int, cell: int) -> int:
        return self._notebook(path).get((cell, line), ("", line))[1]

    def _of(self, path: str, raw: bool) -> list[str]:
        lines = self._lines.get((path, raw))
        if lines is None:
            from torchvet.check.source.text import lines_of

            try:
                if raw:
                    with open(os.path.join(self.root, path), "rb") as f:
                        text = f.read().decode("utf-8-sig", "replace")
                else:
                    text = self.read_text(path)
            except (OSError, ValueError):
                text = ""
            lines = self._lines[(path, raw)] = lines_of(text)
        return lines

    def _notebook(self, path: str) -> dict[tuple[int, int], tuple[str, int]]:
        """(cell, line in the cell) -> (its text, line in the .ipynb)."""
        rows = self._cells.get(path)
        if rows is None:
            from torchvet.check.source.notebook import load

            rows = self._cells[path] = {}
            try:
                with open(os.path.join(self.root, path), "rb") as f:
                    notebook = load(f.read())
            except (OSError, SyntaxError, ValueError):
                return rows
            for number, text in enumerate(notebook.text.split("\n"), 1):
                cell, line, raw = notebook.place(number)
                rows.setdefault((cell, line), (text, raw))
        return rows


def statistics(findings: Sequence[Finding]) -> str:
    """How often each rule fired, the most frequent first."""
    counts: dict[tuple[str, str, str], int] = {}
    for f in findings:
        key = (f.severity, f.code, f.name)
        counts[key] = counts.get(key, 0) + 1
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{n:6}  {code}  {severity:<8} {name}\n" for (severity, code, name), n in rows)


def timing(stages: Sequence[tuple[str, float]], given_up: Sequence[tuple[str, str]] = ()) -> str:
    """Milliseconds and share of each stage and rule, in the order in which they ran; then what was not finished."""
    total = sum(seconds for _, seconds in stages) or 1.0
    rows = [*stages, ("total", total)]
    times = "".join(f"{seconds * 1000:10.1f} ms {seconds / total:6.1%}  {name}\n" for name, seconds in rows)
    return times + "".join(f"not finished: {place}: {why}\n" for place, why in sorted(set(given_up)))
