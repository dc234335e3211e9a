"""`torchvet run`: run a job and keep the evidence that a crash would destroy."""

from __future__ import annotations

import os
import sys
import time

from torchvet.findings import Text, UserError, language

from . import terminal
from .arguments import FLAG, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ARGUMENTS = (
    Argument("out", VALUE, Text("folder of the run (default: torchvet-run)", "运行文件夹（默认 torchvet-run）"),
             group="options", short="o", metavar="DIR"),
    Argument("status", FLAG, Text("show what the ranks of a run are doing", "显示各 rank 正在做什么"), group="options"),
    Argument("recorder", FLAG, Text("dumps of the flight recorder (on)", "飞行记录器转储（默认开）"),
             group="record", negatable=True),
    Argument("stacks", FLAG, Text("stacks of all threads when a rank stalls (on)", "停滞时所有线程的堆栈（默认开）"),
             group="record", negatable=True),
    Argument("graphs", FLAG, Text("lines whose autograd graphs pile up (on)", "计算图不断堆积的代码行（默认开）"),
             group="record", negatable=True),
    Argument("output", FLAG, Text("what the job prints (on)", "作业的输出（默认开）"), group="record", negatable=True),
    Argument("host", FLAG, Text("memory, files, workers (on)", "内存、文件、工作进程（默认开）"),
             group="record", negatable=True),
    Argument("cuda-history", FLAG, Text("history of CUDA memory, a snapshot when it runs out",
                                        "CUDA 内存历史，内存耗尽时保存快照"), group="record"),
    Argument("profile", VALUE, Text("profiler trace of COUNT steps from STEP on", "从 STEP 起 COUNT 步的性能追踪"),
             group="record", metavar="STEP:COUNT"),
    Argument("stall", VALUE, Text("seconds without progress that are a stall (60 % of the group's time-out)",
                                  "多少秒没有进展算停滞（默认为超时的 60 %）"), group="record", metavar="SECONDS"),
    Argument("interval", VALUE, Text("seconds between two looks (default: 2)", "两次查看的间隔秒数（默认 2）"),
             group="record", metavar="SECONDS"),
    Argument("lang", VALUE, Text("language of messages", "消息语言"), group="options", choices=("en", "zh")),
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="options", short="h"),
)  # fmt: skip
GROUPS = {"options": Text("Options", "选项"), "record": Text("What is recorded", "记录内容")}
USAGE = "torchvet run [OPTIONS] -- COMMAND ...\ntorchvet run --status DIR"


def run(argv: Sequence[str]) -> int:
    """Run a command; its exit code is ours."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    given, rest = parse(words[:cut], ARGUMENTS)
    command = words[cut + 1 :]
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text(
            "Run a job and keep the evidence that a crash would destroy.", "运行任务，并保留崩溃会毁掉的证据。"
        )
        terminal.say(help_text(USAGE, purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    if given.get("status"):
        return status(rest, spoken)
    if rest or not command:
        raise UserError(
            Text("the command to run stands behind --", "要运行的命令写在 -- 之后"),
            Text("torchvet run --out runs/a -- torchrun --nproc-per-node 8 train.py",
                 "torchvet run --out runs/a -- torchrun --nproc-per-node 8 train.py"),
        )  # fmt: skip
    from torchvet.run.launcher import Run, end_as

    settings = settings_of(given)
    out = str(given.get("out") or "torchvet-run")

    def tell(text: Text) -> None:
        terminal.complain(f"torchvet: {text.render(spoken)}\n")

    where = Text(
        "keeping evidence in {out} ({what}) - torchvet run --status {out}",
        "证据保存在 {out}（{what}） - torchvet run --status {out}",
        out=out, what=kept(settings, spoken),
    )  # fmt: skip
    job = Run(command, out, settings, tell)
    tell(where)
    return end_as(job.run())


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """The switches as the recorder takes them. UserError for a value that is none."""
    out: dict[str, Any] = {}
    for name in ("recorder", "stacks", "graphs", "host", "output"):
        out[name] = bool(given.get(name, True))
    out["cuda_history"] = bool(given.get("cuda-history"))
    for name in ("stall", "interval"):
        if name in given:
            try:
                out[name] = float(given[name])
            except ValueError:
                out[name] = -1.0
            if not out[name] > 0:
                raise UserError(
                    Text("--{name} wants seconds, not {value}", "--{name} 需要秒数，而不是 {value}", name=name,
                         value=given[name])
                )  # fmt: skip
    profile = str(given.get("profile") or "")
    if profile:
        first, _, count = profile.partition(":")
        if not (first.isdigit() and (count or "1").isdigit()):
            raise UserError(Text("--profile wants STEP:COUNT, not {value}", "--profile 需要 STEP:COUNT，而不是 {value}",
                                 value=profile))  # fmt: skip
        out["profile"] = profile
    return out


def kept(settings: dict[str, Any], spoken: str) -> str:
    names = {
        "recorder": Text("flight recorder", "飞行记录器"), "stacks": Text("stacks", "堆栈"),
        "graphs": Text("live graphs", "存活计算图"), "host": Text("memory", "内存"), "output": Text("output", "输出"),
    }  # fmt: skip
    return ("、" if spoken == "zh" else ", ").join(t.render(spoken) for k, t in names.items() if settings[k])


def status(words: list[str], spoken: str) -> int:
    """Show the ranks of a run: once, or again every two seconds on a terminal."""
    from torchvet.run.status import ranks_of, table

    if len(words) != 1 or not os.path.isdir(words[0]):
        raise UserError(
            Text("--status wants the folder of a run", "--status 需要一个运行文件夹"),
            Text("torchvet run --status runs/a", "torchvet run --status runs/a"),
        )
    live = sys.stdout.isatty()
    while True:
        ranks = ranks_of(words[0])
        if not ranks:
            raise UserError(Text("no rank has reported in {out} yet", "{out} 中还没有 rank 报告", out=words[0]))
        lines = [text.render(spoken) for text in table(ranks)]
        terminal.say(("\x1b[2J\x1b[H" if live else "") + "\n".join(lines) + "\n")
        if not live or all(r.end is not None for r in ranks):
            return 0
        time.sleep(2.0)
