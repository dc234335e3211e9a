"""A training forward through the module inside the wrapper."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV306",
    name="wrapper-bypassed",
    severity=ERROR,
    since="0.1",
    summary=Text("a training forward that goes around DDP", "训练时的前向绕过了 DDP"),
)


@RULE.asking("wrapping.bypasses")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        wrap, forward = order.first, order.second
        yield RULE.at(
            project,
            forward.function.module,
            forward.pos,
            Text(
                "this forward goes around the wrapper: gradients are not synchronised",
                "该前向绕过了包装器：梯度不会同步",
            ),
            function=forward.function,
            help=Text("call the wrapped model itself", "直接调用包装后的模型"),
            notes=[note_at(project, wrap.function.module, wrap.pos, Text("wrapped here", "在此包装"))],
        )
