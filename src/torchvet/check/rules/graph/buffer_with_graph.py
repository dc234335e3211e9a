"""Running statistics of a module that take the graph of their input with them."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV109",
    name="buffer-with-graph",
    severity=ERROR,
    since="0.1",
    summary=Text("running statistics updated with the graph of their input", "运行统计量在更新时带上了输入的计算图"),
)


@RULE.asking("graphs.statistics")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text("{name} collects the graph of every forward", "{name} 累积了每次前向的计算图", name=found.name),
            function=found.function,
            help=Text(
                "update it under torch.no_grad(), or from detached values",
                "在 torch.no_grad() 下更新，或使用 detach 之后的值",
            ),
        )
