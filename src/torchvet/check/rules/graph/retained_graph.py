"""A graph retained after backward although nothing runs over it again."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV106",
    name="retained-graph",
    severity=WARNING,
    since="0.1",
    words=("_graph=",),
    summary=Text("backward keeps a graph that is not used again", "反向传播保留了不再使用的计算图"),
)


@RULE.asking("graphs.retained")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.kind == "create_graph":
            message = Text(
                "backward(create_graph=True) ties each parameter to its gradient in a cycle",
                "backward(create_graph=True) 让参数和梯度互相引用成环",
            )
            help = Text(
                "use torch.autograd.grad(..., create_graph=True)", "改用 torch.autograd.grad(..., create_graph=True)"
            )
        else:
            message = Text(
                "retain_graph=True keeps activations that nothing uses again", "retain_graph=True 保留了不再使用的激活"
            )
            help = Text("drop retain_graph=True", "去掉 retain_graph=True")
        yield RULE.at(project, found.module, found.pos, message, function=found.function, help=help)
