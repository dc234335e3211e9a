"""An optimizer that makes its state in the constructor, before the model is moved."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV303",
    name="optimizer-before-device",
    severity=NOTE,
    since="0.1",
    summary=Text("an optimizer with state made before the model is moved", "模型移动之前创建了带状态的优化器"),
)


@RULE.asking("wrapping.left_behind")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        moved, made = order.first, order.second
        yield RULE.at(
            project,
            made.function.module,
            made.pos,
            Text(
                "this optimizer makes its state on the CPU; the model is moved afterwards",
                "该优化器在 CPU 上创建状态，之后模型才移动",
            ),
            function=made.function,
            help=Text("move the model first", "先移动模型"),
            notes=[note_at(project, moved.function.module, moved.pos, Text("moved here", "在此移动"))],
        )
