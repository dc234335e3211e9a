"""`torchvet check`: arguments to options, findings to reports, an exit code out."""

from __future__ import annotations

import os
from time import perf_counter

from torchvet.check import config
from torchvet.check.gate import verdict
from torchvet.findings import Text, UserError, language

from . import terminal
from .arguments import FLAG, LIST, NUMBER, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torchvet.check.config import Options
    from torchvet.check.engine import Result
    from torchvet.findings import Finding

GROUPS = {
    "rules": Text("Rules", "规则"),
    "files": Text("Files", "文件"),
    "gate": Text("What blocks", "阻断条件"),
    "fix": Text("Repairs", "修复"),
    "output": Text("Output", "输出"),
    "knowledge": Text("About your project", "项目信息"),
    "run": Text("This run", "运行"),
}

_KINDS = {config.LIST: LIST, config.TABLE: LIST, config.BOOL: FLAG, config.INT: NUMBER}


def _of_setting(s: config.Setting) -> Argument:
    return Argument(
        s.name,
        LIST if s.name == "output-format" else _KINDS.get(s.kind, VALUE),
        s.help,
        group=s.group,
        short=s.short,
        metavar=s.metavar,
        choices=s.choices,
        negatable=s.kind == config.BOOL and not s.name.startswith("no-"),
        whole=s.name == "output",
    )


def _flag(name: str, group: str, en: str, zh: str, short: str = "", negatable: bool = False) -> Argument:
    return Argument(name, FLAG, Text(en, zh), group=group, short=short, negatable=negatable)


def _value(name: str, group: str, metavar: str, en: str, zh: str) -> Argument:
    return Argument(name, VALUE, Text(en, zh), group=group, metavar=metavar)


def arguments() -> list[Argument]:
    """Every option of the verb: the settings, and what makes sense on a command line only."""
    return [
        *(_of_setting(s) for s in config.SETTINGS),
        _value("diff", "gate", "BASE", "only findings that touch lines changed since BASE (a git commit)",
               "只报告涉及 BASE（git 提交）之后改动行的问题"),
        _value("write-baseline", "gate", "FILE", "write the findings as the new baseline and exit",
               "把当前问题写成新的基线后退出"),
        _flag("prune-baseline", "gate", "take out baseline entries that fit nothing", "清除基线中已失效的记录"),
        _flag("exit-zero", "gate", "exit with 0 even when findings block", "即使有阻断问题也以 0 退出", "e"),
        _flag("fix", "fix", "apply safe fixes (the training result stays the same)", "应用安全修复（训练结果不变）"),
        _flag("unsafe-fixes", "fix", "with --fix or --show-fixes: unsafe ones too",
              "与 --fix 或 --show-fixes 合用：也包括不安全的修复"),
        _flag("show-fixes", "fix", "print fixes as a diff, write nothing", "以 diff 形式显示修复，不写入文件"),
        _value("stdin-filename", "files", "NAME", "name of what is read from standard input (PATH -)",
               "标准输入内容的文件名（PATH 为 -）"),
        _value("files-from", "files", "FILE", "read paths from FILE, one a line or NUL-separated (- is standard input)",
               "从 FILE 读取路径，每行一个或以 NUL 分隔（- 为标准输入）"),
        _flag("project", "files", "check the whole project; the paths only choose what is reported",
              "检查整个项目，路径只决定报告哪些问题", negatable=True),
        _flag("statistics", "output", "print how often each rule fired", "显示每条规则的命中次数"),
        Argument("color", VALUE, Text("colour the output", "彩色输出"), group="output",
                 choices=("auto", "always", "never")),
        _flag("quiet", "output", "print findings only", "只显示问题", "q"),
        _value("trace", "run", "FUNCTION", "print which collectives each rank runs in a function",
               "显示各 rank 在某函数中执行的集合通信"),
        _flag("timing", "run", "print the time of each stage and rule", "显示各阶段和规则的耗时"),
        _flag("show-files", "run", "list the files that would be checked", "列出将被检查的文件"),
        _flag("show-settings", "run", "print the settings in effect", "显示生效的设置"),
        _value("config", "run", "FILE", "take the settings from FILE", "从 FILE 读取设置"),
        _flag("isolated", "run", "ignore all configuration files", "忽略所有配置文件"),
        _flag("help", "run", "print this page", "显示帮助", "h"),
    ]  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Check, report, and say whether it blocks: 0, 1 or 2."""
    given, words = parse(argv, arguments())
    if given.get("help"):
        purpose = Text(
            "Find lines that leak memory or leave ranks waiting.", "找出泄漏内存或让某些 rank 永远等待的代码。"
        )
        page = help_text(
            "torchvet check [OPTIONS] [PATH ...]", purpose, arguments(), GROUPS, language(given.get("lang"))
        )
        terminal.say(page)
        return 0
    return Run(given, words).main()


class Run:
    """One invocation. `given` are the options of the command line by name, `words` its paths."""

    def __init__(self, given: dict[str, Any], words: list[str]) -> None:
        self.started = perf_counter()
        self.given = given
        self.language = language(given.get("lang"))
        self.formats: list[str] = given.pop("output-format", [])
        if "per-file-ignores" in given:
            given["per-file-ignores"] = config.parse_per_file_ignores(given["per-file-ignores"])
        command = {s.name: given.pop(s.name) for s in config.SETTINGS if s.name in given}
        if self.formats:
            command["output-format"] = self.formats[-1]
        listed = "files-from" in given
        if listed:
            words = [*words, *self._listed(given["files-from"])]
        self.stdin = "-" in words
        _refuse_conflicts(given, words)
        self.paths = words if listed else [] if self.stdin else words or ["."]
        self.only: list[str] | None = None
        if self.paths and not self.stdin and self._whole_project(words):
            self.only = [os.path.abspath(p) for p in self.paths]
            root = project_root(self.only[0])
            self.paths = [os.path.relpath(root), *(p for p in self.paths if not _inside(os.path.abspath(p), root))]
        start = given.get("stdin-filename", ".") if self.stdin else _common(self.paths)
        self.options: Options = config.load(
            start, command, config=given.get("config", ""), isolated=bool(given.get("isolated"))
        )
        self.language = language(self.options.lang or None)
        if "prune-baseline" in given and not self.options.baseline:
            raise UserError(Text("--prune-baseline needs --baseline FILE", "--prune-baseline 需要 --baseline FILE"))
        self.source = b""
        self.overlay: dict[str, bytes] = {}
        self.result: Result | None = None
        self.baselined = 0

    def _whole_project(self, words: list[str]) -> bool:
        asked = self.given.get("project")
        if asked is None:  # pre-commit names the files that changed; hangs and leaks span files
            return bool(os.environ.get("PRE_COMMIT") == "1" and words and all(os.path.isfile(w) for w in words))
        return bool(asked)

    def _listed(self, name: str) -> list[str]:
        """The paths of `--files-from`. Lists come from tools like `git diff --name-only`, which name deleted files."""
        if name == "-":
            data = _standard_input()
        else:
            try:
                with open(name, "rb") as f:
                    data = f.read()
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise UserError(
                    Text("cannot read {path}: {reason}", "无法读取 {path}：{reason}", path=name, reason=reason)
                ) from None
        rows = data.split(b"\0") if b"\0" in data else data.splitlines()
        paths = [os.fsdecode(row) for row in rows if row.strip()]
        for path in paths:
            if not os.path.lexists(path):
                self.note(Text("{path} does not exist", "{path} 不存在", path=path))
        return [path for path in paths if os.path.lexists(path)]

    def main(self) -> int:
        if self.given.get("show-settings"):
            from .settings_page import settings_page

            terminal.say(settings_page(self.options))
            return 0
        if self.given.get("show-files"):
            return self.show_files()
        if "trace" in self.given:
            from .trace import show

            return show(self.given["trace"], self.paths, self.options, self.language, self.given.get("color", "auto"))
        from .outputs import Outputs

        outputs = Outputs(self.options, self.formats)
        if self.stdin:
            self.source = _standard_input()
        if self.given.get("fix") or self.given.get("show-fixes"):
            from .repairs import repairs

            return repairs(self, outputs)
        findings = self.find()
        if "write-baseline" in self.given:
            return self.write_baseline()
        outputs.write(self, findings)
        return self.exit_code(findings)

    # ------------------------------------------------------------------------------------------------------- finding
    def find(self) -> list[Finding]:
        """Check the paths and let the gate choose: what is new, selected, wanted, and touched by the change."""
        from torchvet.check.engine import check
        from torchvet.check.gate.select import selected, shown

        options = self.options
        ran = selected(options)
        progress = _Progress(self.language) if terminal.show_progress() and not self.given.get("quiet") else None
        try:
            result = check(
                self.paths, options, stdin=self.source if self.stdin else None,
                stdin_name=self.given.get("stdin-filename") if self.stdin else None, progress=progress,
                overlay=self.overlay,
            )  # fmt: skip
        finally:
            if progress:
                progress.erase()
        self.result = result
        findings: list[Finding] = result.findings
        if options.baseline and "write-baseline" not in self.given:
            findings = self.compare(findings, ran)
        findings = shown(findings, options, result.root)
        if self.only is not None:
            from torchvet.check.gate.changed import concerning

            findings = concerning(findings, [self.relative(p) for p in self.only])
        if "diff" in self.given:
            from torchvet.check.gate.changed import changed_lines, touching

            findings = touching(findings, changed_lines(self.given["diff"], result.root), result.root)
        return sorted(findings, key=lambda f: f.sort_key())

    def compare(self, findings: list[Finding], ran: list[str]) -> list[Finding]:
        """Leave out what the baseline knows; say, or prune, what it knows in vain."""
        from torchvet.check.gate import baseline
        from torchvet.check.gate.select import shown

        assert self.result is not None
        known = baseline.read(self.options.baseline)
        new, unmatched = known.match(findings, self.result.root)
        fresh = {id(f) for f in new}
        self.baselined = len(shown([f for f in findings if id(f) not in fresh], self.options, self.result.root))
        stale = known.stale(unmatched, self.result.root, self.checked(), ran)
        if stale and self.given.get("prune-baseline"):
            from torchvet.check.gate.files import replace_file

            gone = {id(e) for e in stale}
            known.entries = [e for e in known.entries if id(e) not in gone]
            replace_file(known.path, known.render())
            self.note(
                Text("took {n} entries out of {path}", "已从 {path} 中清除 {n} 条记录", n=len(stale), path=known.path)
            )
        elif stale:
            new.append(baseline.stale_finding(known, stale, self.result.root))
        return new

    def write_baseline(self) -> int:
        from torchvet.check.gate import baseline
        from torchvet.check.gate.files import replace_file
        from torchvet.check.gate.select import selected, shown

        assert self.result is not None
        result, path = self.result, self.given["write-baseline"]
        findings = [f for f in shown(result.findings, self.options, result.root) if f.name != "internal-error"]
        old = baseline.read(path) if os.path.exists(path) else baseline.Baseline(path, [])
        unmatched = old.match(result.findings, result.root)[1]
        stale = {id(e) for e in old.stale(unmatched, result.root, self.checked(), selected(self.options))}
        new = old.rewritten(findings, result.root, [e for e in unmatched if id(e) not in stale])
        replace_file(path, new.render())
        self.note(Text("wrote {n} findings to {path}", "已将 {n} 个问题写入 {path}", n=len(new.entries), path=path))
        return verdict.exit_code([], internal_errors=result.internal_errors)

    def checked(self) -> list[str]:
        return [self.relative(os.path.abspath(p)) for p in self.paths]

    def relative(self, path: str) -> str:
        """As the findings' paths are written; "" is their root."""
        assert self.result is not None
        way = os.path.relpath(path, self.result.root).replace(os.sep, "/")
        return "" if way == "." else way

    def exit_code(self, findings: list[Finding]) -> int:
        assert self.result is not None
        return verdict.exit_code(
            findings,
            strict=self.options.strict,
            exit_zero=bool(self.given.get("exit-zero")),
            internal_errors=self.result.internal_errors,
        )

    def note(self, text: Text) -> None:
        if not self.given.get("quiet"):
            terminal.complain(f"torchvet: {text.render(self.language)}\n")

    def show_files(self) -> int:
        from torchvet.check.engine import common_root
        from torchvet.check.source.walk import EXCLUDED, walk

        options = self.options
        found = walk(
            self.paths, exclude=options.exclude or EXCLUDED, extend_exclude=options.extend_exclude,
            respect_gitignore=options.respect_gitignore, force_exclude=options.force_exclude,
            root=common_root(self.paths),
        )  # fmt: skip
        terminal.say("".join(f"{entry[0]}\n" for entry in found.files))
        return 0


_STAGES = {"walk": Text("reading files", "读取文件"), "read and lower": Text("following calls", "分析调用关系")}
"""Stage that has ended -> what happens now."""


class _Progress:
    """A line on standard error that says what is going on, for those who wait in front of a terminal."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.drawn = ""

    def __call__(self, stage: str) -> None:
        said = _STAGES.get(stage, Text("checking rules", "运行规则")).render(self.language)
        if said != self.drawn:
            terminal.complain(f"\r\x1b[Ktorchvet: {said} …")
            self.drawn = said

    def erase(self) -> None:
        if self.drawn:
            terminal.complain("\r\x1b[K")
            self.drawn = ""


def _refuse_conflicts(given: dict[str, Any], words: list[str]) -> None:
    """Options that cannot be meant together."""
    if "-" in words and len(words) > 1:
        raise UserError(Text("- (standard input) goes with no other path", "-（标准输入）不能与其他路径同时使用"))
    if "stdin-filename" in given and "-" not in words:
        raise UserError(Text("--stdin-filename goes with the path -", "--stdin-filename 需与路径 - 一起使用"))
    if "trace" in given and "-" in words:
        raise UserError(Text("--trace needs files, not standard input", "--trace 需要文件，而不是标准输入"))
    if "write-baseline" in given and ("fix" in given or "show-fixes" in given):
        raise UserError(
            Text("--write-baseline and repairs are two runs", "--write-baseline 与修复不能在同一次运行中使用")
        )


def _standard_input() -> bytes:
    import sys

    return sys.stdin.buffer.read()


def _common(paths: list[str]) -> str:
    """The folder that all paths lie in, where the search for settings starts."""
    full = [os.path.abspath(p) for p in paths]
    try:
        return os.path.commonpath(full)
    except ValueError:  # several drives
        return "."


def project_root(path: str) -> str:
    """Top of the git repository around `path`, else the nearest folder with a pyproject.toml, else the current one."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    nearest = ""
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        if not nearest and os.path.exists(os.path.join(folder, "pyproject.toml")):
            nearest = folder
        above = os.path.dirname(folder)
        if above == folder:
            return nearest or os.getcwd()
        folder = above


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
