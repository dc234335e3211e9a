"""`torchvet preflight`: will this machine, container and fleet let the job run?"""

from __future__ import annotations

import os
from contextlib import contextmanager
from time import monotonic

from torchvet.findings import Text, UserError, language
from torchvet.preflight.outputs import FORMATS

from . import fleet, terminal
from .arguments import FLAG, LIST, NUMBER, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from torchvet.preflight.host import Host
    from torchvet.preflight.node import NodeReport
    from torchvet.preflight.outputs import Style
    from torchvet.preflight.plan import Loader, Plan

GROUPS = {
    "job": Text("The job", "作业"),
    "probes": Text("Probes", "探针"),
    "output": Text("Output", "输出"),
    "fleet": fleet.GROUP,
    "run": Text("Run", "运行"),
}
DEFAULT_SECONDS = 60
SHARE = 0.5
"""Share of the time that reading the code of `--project` may take."""

ARGUMENTS = (
    Argument("workers", NUMBER, Text("DataLoader workers of a rank", "每个 rank 的 DataLoader worker 数"), group="job",
             metavar="N"),
    Argument("prefetch", NUMBER, Text("prefetch_factor of the loader (2)",
             "加载器的 prefetch_factor（2）"), group="job",
             metavar="N"),
    Argument("batch-bytes", VALUE, Text("size of a batch, such as 31MB", "一个批次的大小，例如 31MB"), group="job",
             metavar="SIZE"),
    Argument("ranks-per-node", NUMBER, Text("ranks on a node (as the launcher or the GPUs say)",
             "每个节点的 rank 数（默认取自启动器或 GPU 数）"), group="job", metavar="N"),
    Argument("nodes", NUMBER, Text("nodes of the job (as the launcher says)",
             "作业的节点数（默认取自启动器）"), group="job",
             metavar="N"),
    Argument("checkpoint-bytes", VALUE, Text("size of a checkpoint, such as 140GB", "一个检查点的大小，例如 140GB"),
             group="job", metavar="SIZE"),
    Argument("checkpoint-dir", VALUE, Text("where checkpoints go; a small file is written there and removed",
             "检查点目录；会写入并删除一个小文件"), group="job", metavar="DIR"),
    Argument("data-dir", VALUE, Text("where the data lies", "数据目录"), group="job", metavar="DIR"),
    Argument("project", VALUE, Text("take workers and batch size from the code in DIR",
             "从 DIR 中的代码获取 worker 数与批次大小"),
             group="job", metavar="DIR"),
    Argument("only", LIST, Text("run these probes or areas only",
             "只运行这些探针或领域"), group="probes", metavar="NAME"),
    Argument("skip", LIST, Text("leave these probes or areas out",
             "跳过这些探针或领域"), group="probes", metavar="NAME"),
    Argument("list", FLAG, Text("list all probes", "列出所有探针"), group="probes"),
    Argument("output-format", LIST, Text("form of the report", "报告格式"), group="output", choices=FORMATS),
    Argument("output", LIST, Text("write to a file; FORMAT=PATH for a further format",
             "写入文件；FORMAT=PATH 可另写一种格式"),
             group="output", metavar="PATH", whole=True),
    Argument("verbose", FLAG, Text("list what passed too", "同时列出通过项"), group="output", short="v"),
    Argument("color", VALUE, Text("colour the output",
             "彩色输出"), group="output", choices=("auto", "always", "never")),
    Argument("lang", VALUE, Text("language of the messages", "消息语言"), group="output", choices=("en", "zh")),
    Argument("fail-on", VALUE, Text("what stops the job: exit code 1 (fail)",
             "以退出码 1 阻止作业的级别（fail）"), group="run",
             choices=("warn", "fail")),
    Argument("timeout", NUMBER, Text("seconds for the whole run (60)", "整个运行的时限，秒（60）"), group="run",
             metavar="SECONDS"),
    Argument("watch", NUMBER, Text("look again every so many seconds, print what changes",
             "每隔若干秒重新检查，并显示变化"), group="run", metavar="SECONDS"),
    Argument("host", VALUE, Text("judge a recorded machine", "判断一台已记录的机器"), group="run", metavar="FOLDER"),
    Argument("record", VALUE, Text("write down what was read, for a support request or a test",
             "记录读取到的内容，用于求助或测试"), group="run", metavar="FOLDER"),
    Argument("print-entrypoint", VALUE, Text("print a ready start that asks first",
             "打印一个先行检查的启动脚本"), group="run",
             choices=("docker", "kubernetes", "slurm", "github")),
    *fleet.ARGUMENTS,
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="run", short="h"),
)  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Examine this machine, report, and say whether the job may start: 0, 1 or 2."""
    given, words = parse(argv, ARGUMENTS)
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text(
            "Will this machine, container and fleet let the job run?", "这台机器、容器和集群能否运行该作业？"
        )
        terminal.say(help_text("torchvet preflight [OPTIONS]", purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    if words[:1] == ["merge"]:
        return fleet.merge(Run(given, spoken), words[1:])
    if words:
        raise UserError(
            Text("preflight takes no {word}", "preflight 不接受 {word}", word=words[0]),
            Text("--project {word} takes the plan from code", "--project {word} 从代码获取作业信息", word=words[0])
            if os.path.exists(words[0])
            else Text("--only {word} runs one probe",
                                                  "--only {word} 只运行一个探针", word=words[0]),
        )  # fmt: skip
    if "print-entrypoint" in given:
        from torchvet.preflight.entrypoints import ENTRYPOINTS

        terminal.say(ENTRYPOINTS[given["print-entrypoint"]], machine=True)
        return 0
    if given.get("list"):
        terminal.say(listing(spoken, given.get("output-format", ["text"])[-1]))
        return 0
    with _ending_its_commands():
        return Run(given, spoken).main()


@contextmanager
def _ending_its_commands() -> Iterator[None]:
    """Commands do not outlive the run, also when it is ended from outside."""
    import signal

    from torchvet.preflight.command import kill_running

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        before = None
    try:
        yield
    finally:
        kill_running()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class Run:
    """One invocation."""

    def __init__(self, given: dict[str, Any], spoken: str) -> None:
        from torchvet.preflight.outputs import BY_ENDING, FORMATS

        from .targets import targets

        self.given = given
        self.language = spoken
        self.seconds: float = given.get("timeout", DEFAULT_SECONDS)
        if self.seconds < 1:
            raise UserError(Text("--timeout needs at least 1 second", "--timeout 至少为 1 秒"))
        if given.get("watch") == 0:
            raise UserError(Text("--watch needs at least 1 second", "--watch 至少为 1 秒"))
        if "host" in given and "record" in given:
            raise UserError(Text("--host and --record do not go together", "--host 与 --record 不能同时使用"))
        self.targets = targets(given.get("output-format", []), given.get("output", []), FORMATS, BY_ENDING)
        for _, path in self.targets:
            folder = os.path.dirname(os.path.realpath(path))
            if path and not os.path.isdir(folder):
                raise UserError(
                    Text("cannot write {path}: there is no folder {folder}", "无法写入 {path}：文件夹 {folder} 不存在",
                         path=path, folder=os.path.dirname(path) or folder)
                )  # fmt: skip
        began = monotonic()
        self.plan = self.planned()
        self.seconds = max(1.0, self.seconds - (monotonic() - began))

    def planned(self) -> Plan:
        given, loaders = self.given, None
        if "project" in given:
            if "workers" in given or "batch-bytes" in given or "prefetch" in given:
                raise UserError(
                    Text("--project and --workers, --prefetch, --batch-bytes do not go together",
                         "--project 不能与 --workers、--prefetch、--batch-bytes 同时使用"),
                )  # fmt: skip
            from .project_plan import loaders_of

            limit = self.seconds * SHARE
            loaders = loaders_of(given["project"], limit)
            if loaders is None:
                said = Text("{folder} was not read in {n} s: workers and batch size are not known",
                            "{n} 秒内未读完 {folder}：worker 数与批次大小未知",
                            folder=given["project"], n=round(limit))  # fmt: skip
                terminal.complain(f"torchvet: {said.render(self.language)}\n")
        return plan_of(given, loaders)

    def host(self) -> Host:
        if "host" in self.given:
            from torchvet.preflight.recorded import Recorded

            return Recorded(self.given["host"])
        if "record" in self.given:
            from torchvet.preflight.recorded import Recorder

            return Recorder()
        from torchvet.preflight.host import Host

        return Host()

    def main(self) -> int:
        host = self.host()
        if "watch" in self.given:
            return self.watch(host)
        if fleet.applies(self.given):
            return fleet.run(self, host)
        report = self.examine(host)
        self.write(report)
        if "record" in self.given:
            host.save(self.given["record"])  # type: ignore[attr-defined]
            said = Text("wrote what was read to {folder}; it names hosts and folders, look at it before you send it",
                        "已将读取的内容写入 {folder}；其中有主机名、目录与挂载点，发送前请检查",
                        folder=self.given["record"])  # fmt: skip
            terminal.complain(f"torchvet: {said.render(self.language)}\n")
        return int(report.blocks(self.fail_on))

    @property
    def fail_on(self) -> str:
        return str(self.given.get("fail-on", "fail"))

    def examine(self, host: Host, seconds: float | None = None) -> NodeReport:
        from torchvet.preflight.node import examine

        limit = self.seconds if seconds is None else seconds
        return examine(host, self.plan, self.given.get("only", ()), self.given.get("skip", ()), limit)

    def style(self, path: str) -> Style:
        from torchvet.preflight.outputs import Style

        verbose = bool(self.given.get("verbose"))
        if path:
            return Style(self.language, verbose=verbose, fail_on=self.fail_on)
        return Style(
            self.language, width=terminal.width(), color=terminal.use_color(self.given.get("color", "auto")),
            verbose=verbose, unicode=terminal.can_draw(), fail_on=self.fail_on,
        )  # fmt: skip

    def write(self, report: NodeReport, *, files_only: bool = False) -> None:
        from torchvet.preflight.outputs import render

        for name, path in self.targets:
            if path:
                terminal.write_file(path, render(name, report, self.style(path)))
            elif not files_only:
                terminal.say(render(name, report, self.style(path)), machine=name not in ("text", "github"))

    def watch(self, host: Host) -> int:
        """Look again and again; ends with the verdict of the last look on SIGTERM or Ctrl-C."""
        import signal
        import time

        from torchvet.preflight.outputs.text import row
        from torchvet.preflight.watch import changes

        def end(*_: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, end)
        before: NodeReport | None = None
        style = self.style("")
        try:
            while True:
                start = time.monotonic()
                host.fresh()
                report = self.examine(host)
                self.write(report, files_only=before is not None)
                if before is not None:
                    for probe, old, new in changes(before, report):
                        said = f"{time.strftime('%H:%M:%S')}  {probe}: {old and old.verdict} → {new and new.verdict}\n"
                        terminal.say(said + "".join(line + "\n" for line in (row(new, style) if new else [])))
                before = report
                time.sleep(max(0.0, self.given["watch"] - (time.monotonic() - start)))
        except KeyboardInterrupt:
            return int(before is not None and before.blocks(self.fail_on))


def plan_of(given: dict[str, Any], loaders: list[Loader] | None) -> Plan:
    """The job as the options describe it, with the loaders of the code. UserError: a size that is none."""
    from torchvet.preflight.plan import Plan

    return Plan(
        given.get("workers"), given.get("prefetch"), _size(given, "batch-bytes"), given.get("ranks-per-node"),
        given.get("nodes"), _size(given, "checkpoint-bytes"), _folder(given, "checkpoint-dir"),
        _folder(given, "data-dir"), loaders, "--workers",
    )  # fmt: skip


def _folder(given: dict[str, Any], name: str) -> str | None:
    return (given[name] if "host" in given else os.path.abspath(given[name])) if name in given else None


def _size(given: dict[str, Any], name: str) -> int | None:
    from torchvet.preflight.quantity import parse_size

    if name not in given:
        return None
    size = parse_size(given[name])
    if size is None:
        raise UserError(
            Text(
                "--{name} needs a size, not {text}", "--{name} 需要一个大小，而不是 {text}", name=name, text=given[name]
            ),
            Text("such as 31MB, 2.4GiB or 65536", "例如 31MB、2.4GiB 或 65536"),
        )
    return size


def listing(spoken: str, form: str) -> str:
    """All probes: area, name, summary."""
    from torchvet.preflight.probe import AREAS, load, probe_names

    probes = sorted((load(n) for n in probe_names()), key=lambda p: (AREAS.index(p.area), p.name))
    if form == "json":
        import json

        rows = [{"name": p.name, "area": p.area, "summary": p.summary.render(spoken)} for p in probes]
        return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    wide = max(len(p.name) for p in probes)
    return "".join(f"{p.area:<10} {p.name:<{wide}}  {p.summary.render(spoken)}\n" for p in probes)
