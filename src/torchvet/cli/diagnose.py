"""`torchvet diagnose`: what ended a job. Paths in, reports and an exit code out."""

from __future__ import annotations

import os

from torchvet.diagnose.outputs import FORMATS
from torchvet.findings import Text, UserError, language

from . import terminal
from .arguments import FLAG, LIST, NUMBER, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torchvet.diagnose.model import Diagnosis

GROUPS = {
    "evidence": Text("Evidence", "证据"),
    "output": Text("Output", "输出"),
    "run": Text("This run", "运行"),
}

ARGUMENTS = (
    Argument("code", VALUE, Text("the job's code: shows the lines meant and what check finds there",
             "作业的代码目录：显示相关代码行及 check 的结果"), group="evidence", metavar="DIR"),
    Argument("ranks", NUMBER, Text("ranks that the job had, where the evidence does not say",
             "作业的 rank 数（材料中没有说明时）"), group="evidence", metavar="N"),
    Argument("output-format", LIST, Text("form of the report; may be repeated", "报告格式，可重复"), group="output",
             choices=FORMATS),
    Argument("output", LIST, Text("write the report to a file: PATH or FORMAT=PATH; may be repeated",
             "把报告写入文件：PATH 或 FORMAT=PATH，可重复"), group="output", metavar="PATH", short="o", whole=True),
    Argument("facts", FLAG, Text("print all that was read as JSON lines (--output-format facts)",
             "以 JSON 行输出读到的全部事实（等同 --output-format facts）"), group="output"),
    Argument("reduce", FLAG, Text("write what was read, small, for a later diagnose of all nodes (with -o FILE)",
             "把读到的内容精简写出，供之后对所有节点统一诊断（配合 -o FILE）"), group="output"),
    Argument("verbose", FLAG, Text("everything that speaks for and against, stacks, times, files",
             "显示全部支持与反对的依据、调用栈、时间和文件"), group="output", short="v"),
    Argument("color", VALUE, Text("colour the output", "彩色输出"), group="output",
             choices=("auto", "always", "never")),
    Argument("lang", VALUE, Text("language of the messages", "消息语言"), group="output", choices=("en", "zh")),
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="run", short="h"),
)  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Read what a job left, say what ended it: 0 nothing found, 1 a cause found, 2 wrong use."""
    given, words = parse(argv, ARGUMENTS)
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text(
            "Say what ended a job, from its logs, recorder dumps, stacks and kernel logs (folders, files, archives; "
            "- is standard input).",
            "根据日志、记录器转储、调用栈和内核日志（文件夹、文件、归档；- 为标准输入）判断作业失败的原因。",
        )
        terminal.say(help_text("torchvet diagnose [OPTIONS] PATH ...", purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    if not words:
        raise UserError(
            Text("diagnose needs a path", "diagnose 需要一个路径"),
            Text("a folder with what the job left: torchvet diagnose runs/a",
                 "给出作业留下的文件夹：torchvet diagnose runs/a"),
        )  # fmt: skip
    if given.get("reduce"):
        return reduce(given.get("output", []), words, spoken)
    return Run(given, words, spoken).main()


def reduce(outputs: list[str], paths: list[str], spoken: str) -> int:
    """Write the facts of one node's files: 0."""
    from torchvet.diagnose.reduce import reduced

    progress = Progress(spoken) if terminal.show_progress() else None
    try:
        text = "".join(reduced(paths, progress))
    finally:
        if progress:
            progress.erase()
    for path in outputs:
        terminal.write_file(path, text)
    if not outputs:
        terminal.say(text, machine=True)
    return 0


class Run:
    """One invocation."""

    def __init__(self, given: dict[str, Any], paths: list[str], spoken: str) -> None:
        from torchvet.diagnose.outputs import BY_ENDING, FORMATS

        from .targets import targets

        self.given = given
        self.paths = paths
        self.language = spoken
        formats = given.get("output-format", [])
        if given.get("facts"):
            formats = [*formats, "facts"]
        self.targets = targets(formats, given.get("output", []), FORMATS, BY_ENDING)
        for _, path in self.targets:
            folder = os.path.dirname(os.path.realpath(path))
            if path and not os.path.isdir(folder):
                raise UserError(
                    Text("cannot write {path}: there is no folder {folder}", "无法写入 {path}：文件夹 {folder} 不存在",
                         path=path, folder=os.path.dirname(path) or folder)
                )  # fmt: skip
        self.code = given.get("code", "")
        if self.code and not os.path.isdir(self.code):
            raise UserError(
                Text("{path} is not a folder", "{path} 不是文件夹", path=self.code),
                Text("--code needs the folder with the job's code", "--code 需要作业代码所在的文件夹"),
            )

    def main(self) -> int:
        diagnosis = self.diagnosed()
        if not diagnosis.inventory.files and not diagnosis.inventory.problems:
            raise UserError(
                Text("there is no file in {path}", "{path} 中没有文件", path=", ".join(self.paths)),
                Text("give a folder with logs and dumps", "请给出含日志与转储的文件夹"),
            )
        self.write(diagnosis)
        return 1 if diagnosis.verdicts else 0

    def diagnosed(self) -> Diagnosis:
        from torchvet.diagnose.engine import diagnose

        progress = Progress(self.language) if terminal.show_progress() else None
        try:
            return diagnose(self.paths, progress, self.given.get("ranks"))
        finally:
            if progress:
                progress.erase()

    def about_code(self, diagnosis: Diagnosis) -> dict[str, Any]:
        """What the code at hand adds: that of --code, else what lies in the evidence itself."""
        if not self.code:
            from torchvet.diagnose.code import located

            return {"places": located(diagnosis, [p for p in self.paths if os.path.isdir(p)])}
        from .joined import join

        joined = join(diagnosis, self.code)
        return {"places": joined.places, "candidates": joined.candidates}

    def write(self, diagnosis: Diagnosis) -> None:
        from torchvet.diagnose.outputs import Style, render

        common: dict[str, Any] = {
            "verbose": bool(self.given.get("verbose")), "paths": self.paths, "code": self.code,
            **self.about_code(diagnosis),
        }  # fmt: skip
        for name, path in self.targets:
            if path:
                terminal.write_file(path, render(name, diagnosis, Style(self.language, **common)))
                continue
            style = Style(
                self.language,
                color=terminal.use_color(self.given.get("color", "auto")),
                width=terminal.width(),
                unicode=terminal.can_draw(),
                **common,
            )
            terminal.say(render(name, diagnosis, style), machine=name != "text")


class Progress:
    """A line on standard error that names the file being read, for those who wait in front of a terminal."""

    def __init__(self, spoken: str) -> None:
        from time import monotonic

        self.language = spoken
        self.now = monotonic
        self.last = 0.0
        self.count = 0

    def __call__(self, name: str) -> None:
        self.count += 1
        if self.now() - self.last < 0.1:
            return
        from torchvet.findings.columns import visible, width

        self.last = self.now()
        text = Text("reading {n}: {name}", "正在读取第 {n} 个：{name}", n=f"{self.count:,}", name=visible(name))
        said = f"torchvet: {text.render(self.language)}"
        while width(said) > 78:
            said = said[: len(said) - max(1, width(said) - 78)]
        terminal.complain(f"\r\x1b[K{said}")

    def erase(self) -> None:
        if self.last:
            terminal.complain("\r\x1b[K")
