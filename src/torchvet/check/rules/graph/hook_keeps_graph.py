"""A hook that stores what it is given with its graph."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV107",
    name="hook-keeps-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("a hook stores outputs or gradients with their graph", "钩子存下了带计算图的输出或梯度"),
)


@RULE.asking("graphs.hooks")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        notes = []
        if found.other:
            notes.append(
                note_at(project, *found.other, Text("registered here and never removed", "在这里注册，从未移除"))
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "the hook keeps the graph of the last forward in {name}",
                "钩子把上次前向的计算图留在 {name} 里",
                name=found.name,
            ),
            function=found.function,
            help=Text("store .detach(), and remove the handle", "存 .detach() 后的值，并移除句柄"),
            notes=notes,
        )
