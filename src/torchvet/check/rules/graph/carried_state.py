"""State carried from step to step with its graph."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV105",
    name="carried-state",
    severity=ERROR,
    since="0.1",
    summary=Text("recurrent state carried over steps with its graph", "循环状态带着计算图跨步传递"),
)


@RULE.asking("graphs.carried")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        notes = []
        if found.back_at:
            notes.append(
                note_at(
                    project,
                    *found.back_at,
                    Text("each backward runs through all earlier steps", "每次反向传播都要走过之前的所有步"),
                )
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text("{name} carries the graph of every earlier step", "{name} 带着之前每一步的计算图", name=found.name),
            function=found.function,
            help=Text("cut it once a step: {name}.detach()", "每步截断一次：{name}.detach()", name=found.name),
            notes=notes,
        )
