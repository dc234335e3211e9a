"""`torchvet tune`: the DataLoader settings that are best here, by measurement."""

from __future__ import annotations

import os
import sys
import time

from torchvet.findings import Text, UserError, language

from . import terminal
from .arguments import FLAG, NUMBER, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torchvet.tune.search import Trial

ARGUMENTS = (
    Argument("script", FLAG, Text("the target is a training script (words behind -- are its own)",
                                  "目标是训练脚本（-- 之后是它自己的参数）"), group="options"),
    Argument("step-time", VALUE, Text("seconds of a training step (default: as fast as the loader gives)",
                                      "一个训练步的秒数（默认：加载多快就多快）"), group="options", metavar="SECONDS"),
    Argument("ranks", NUMBER, Text("ranks on this node (default: $LOCAL_WORLD_SIZE, else 1)",
                                   "本节点的 rank 数（默认 $LOCAL_WORLD_SIZE，否则 1）"), group="options"),
    Argument("most-workers", NUMBER, Text("try no more workers than this", "尝试的工作进程数上限"), group="options"),
    Argument("budget", VALUE, Text("seconds that all trials may take (default: 120)", "全部试验的总秒数（默认 120）"),
             group="options", metavar="SECONDS"),
    Argument("seconds", VALUE, Text("seconds of one measurement of a setting (default: 1)", "一次测量的秒数（默认 1）"),
             group="options", metavar="SECONDS"),
    Argument("contexts", VALUE, Text("also try these start methods (spawn, forkserver)", "同时尝试这些启动方式"),
             group="options", metavar="NAMES"),
    Argument("json", FLAG, Text("print JSON", "输出 JSON"), group="options"),
    Argument("plot", VALUE, Text("write a plot: FILE.svg or FILE.html", "写出图形：FILE.svg 或 FILE.html"),
             group="options", metavar="FILE"),
    Argument("lang", VALUE, Text("language of messages", "消息语言"), group="options", choices=("en", "zh")),
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="options", short="h"),
)  # fmt: skip
GROUPS = {"options": Text("Options", "选项")}
USAGE = "torchvet tune [OPTIONS] module:make_loader\ntorchvet tune [OPTIONS] --script train.py [-- WORDS ...]"


def run(argv: Sequence[str]) -> int:
    """Measure, and print the setting to take. 1 when no setting worked."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    given, targets = parse(words[:cut], ARGUMENTS)
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text(
            "The DataLoader settings that are best here, by measurement.", "通过测量得出最佳的 DataLoader 设置。"
        )
        terminal.say(help_text(USAGE, purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    if len(targets) != 1:
        raise UserError(
            Text("tune wants one target", "tune 需要一个目标"),
            Text("torchvet tune data:make_loader, or torchvet tune --script train.py",
                 "torchvet tune data:make_loader，或 torchvet tune --script train.py"),
        )  # fmt: skip
    script = [targets[0], *words[cut + 1 :]] if given.get("script") else None
    if script and not os.path.isfile(script[0]):
        raise UserError(Text("{path} does not exist", "{path} 不存在", path=script[0]))
    plot = str(given.get("plot") or "")
    if plot and not plot.endswith((".svg", ".html", ".htm")):
        raise UserError(Text("--plot wants a file that ends in .svg or .html, not {path}",
                             "--plot 需要以 .svg 或 .html 结尾的文件，而不是 {path}", path=plot))  # fmt: skip
    from torchvet.tune.outputs import as_json, plot_page, summary, table
    from torchvet.tune.plan import room
    from torchvet.tune.runner import Runner
    from torchvet.tune.search import MOST_WORKERS, Search

    ranks = int(given.get("ranks") or os.environ.get("LOCAL_WORLD_SIZE") or 1)
    step = number(given, "step-time", 0.0)
    end = time.monotonic() + number(given, "budget", 120.0)
    with Runner("" if script else targets[0], script, number(given, "seconds", 1.0), step) as runner:
        batch = runner.cost()
        search = Search(
            runner.measure, lambda: room(ranks), batch, gpu=runner.gpu, batches=runner.batches,
            most=int(given.get("most-workers") or MOST_WORKERS),
            contexts=tuple(x for x in str(given.get("contexts") or "").split(",") if x),
            spent=lambda: time.monotonic() > end, tell=teller(spoken),
        )  # fmt: skip
        chosen = search.run()
    teller(spoken)(None)
    trials = list(search.trials.values())
    if given.get("json"):
        terminal.say(as_json(trials, chosen, batch, room(ranks), search.race.noise), machine=True)
    else:
        said = summary(chosen, batch, room(ranks), spoken, bool(step or script), search.race.noise)
        terminal.say(f"{table(trials, chosen, spoken)}\n{said}\n")
    if plot:
        terminal.write_file(plot, plot_page(trials, chosen, spoken, html=not plot.endswith(".svg")))
    return 0 if chosen is not None else 1


def number(given: dict[str, Any], name: str, default: float) -> float:
    """A positive number of seconds. UserError for what is none."""
    if name not in given:
        return default
    try:
        value = float(given[name])
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise UserError(
            Text(
                "--{name} wants seconds, not {value}", "--{name} 需要秒数，而不是 {value}", name=name, value=given[name]
            )
        )
    return value


def teller(spoken: str) -> Any:
    """Shows the trial that just ended on a terminal; None clears the line."""
    if not sys.stderr.isatty() or os.environ.get("CI"):
        return lambda trial: None

    def tell(trial: Trial | None) -> None:
        text = ""
        if trial is not None:
            text = Text(
                "workers {n}: {rate} batches/s", "工作进程 {n}：{rate} 批/秒", n=trial.setting.workers,
                rate=f"{trial.rate:.1f}" if trial.failed is None else "-",
            ).render(spoken)  # fmt: skip
        terminal.complain(f"\r\x1b[K{text}")

    return tell
