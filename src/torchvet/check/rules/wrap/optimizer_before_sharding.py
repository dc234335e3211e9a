"""An optimizer over parameters that FSDP replaces afterwards."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV302",
    name="optimizer-before-sharding",
    severity=ERROR,
    since="0.1",
    summary=Text("an optimizer over parameters that FSDP replaces afterwards", "优化器持有之后被 FSDP 替换的参数"),
)


@RULE.asking("wrapping.stale_optimizers")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        made, wrap = order.first, order.second
        yield RULE.at(
            project,
            made.function.module,
            made.pos,
            Text(
                "the optimizer holds parameters that sharding replaces afterwards: nothing is trained",
                "优化器持有的参数之后被分片替换：模型不会被训练",
            ),
            function=made.function,
            help=Text("make the optimizer after sharding", "在分片之后再创建优化器"),
            notes=[note_at(project, wrap.function.module, wrap.pos, Text("sharded here", "在此分片"))],
        )
