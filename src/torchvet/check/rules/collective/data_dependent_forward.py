"""The forward of a wrapped model does on one rank what it does not do on another."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV413",
    name="data-dependent-forward",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("a wrapped model uses a sub-module for some data only", "被包装的模型只对部分数据使用某个子模块"),
)


@RULE.asking("ranks.partial_forwards")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for p in answers:
        if p.kind == "module":
            message = Text(
                "{name} runs only on a rank whose data passes the test: the others have no gradients for it",
                "只有数据满足该判断的 rank 才会运行 {name}：其他 rank 没有它的梯度",
                name=p.name,
            )
            help = Text(
                "run it on every rank and multiply by 0 where it does not apply",
                "在每个 rank 上都运行它，不适用时结果乘以 0",
            )
            notes = [
                note_at(project, p.module, p.test, Text("decided by this rank's data", "由本 rank 的数据决定")),
                note_at(project, p.where, p.wrap, Text("wrapped here", "在这里被包装")),
            ]
        else:
            message = Text(
                "each rank stops generating by itself, while the sharded model needs all of them in every forward",
                "每个 rank 各自停止生成，而分片的模型每次前向都需要所有 rank",
            )
            help = Text("pass {name}=True", "传入 {name}=True", name=p.name)
            notes = [note_at(project, p.where, p.wrap, Text("sharded here", "在这里被分片"))]
        yield RULE.at(project, p.module, p.pos, message, function=p.function, help=help, notes=notes)
