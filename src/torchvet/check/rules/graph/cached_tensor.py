"""A cache that keeps tensors with their graph, or a whole module."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV108",
    name="cached-tensor",
    severity=WARNING,
    since="0.1",
    summary=Text("a function cache keeps tensors or a module", "函数缓存留住了张量或模块"),
)


@RULE.asking("graphs.cached")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.kind == "self":
            message = Text(
                "the cache of {name} keeps the module itself alive", "{name} 的缓存使模块本身无法释放", name=found.name
            )
            help = Text("keep the value in an attribute of the module", "把值存到模块的属性里")
        else:
            message = Text(
                "the cache of {name} keeps results with their graph",
                "{name} 的缓存留住了带计算图的结果",
                name=found.name,
            )
            help = Text("cache a detached value", "缓存 detach 之后的值")
        yield RULE.at(project, found.module, found.pos, message, function=found.function, help=help)
