"""Parameters unfrozen, frozen or replaced after DDP has registered those of the model."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV310",
    name="compiled-or-frozen-after-wrap",
    severity=WARNING,
    since="0.1",
    summary=Text("parameters changed after DDP has registered them", "DDP 登记参数之后又改动参数"),
)

SAYS = {
    "unfrozen": Text(
        "DDP has not registered these frozen parameters: their gradients stay different on each rank",
        "DDP 未登记这些被冻结的参数：它们的梯度在各 rank 上不同步",
    ),
    "frozen": Text(
        "DDP goes on waiting for the gradients of these parameters: the second step fails",
        "DDP 仍会等待这些参数的梯度：第二步会失败",
    ),
    "new": Text(
        "DDP does not know these new parameters: each rank trains its own",
        "DDP 不知道这些新参数：每个 rank 各自训练",
    ),
}


@RULE.asking("wrapping.parameters.late")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for late in answers:
        wrap, change = late.wrap, late.change
        notes = [note_at(project, wrap.function.module, wrap.pos, Text("wrapped here", "在此包装"))]
        if late.before is not None:
            text = Text("frozen here, before", "此前在此冻结")
            notes.append(note_at(project, late.before.function.module, late.before.pos, text))
        yield RULE.at(
            project,
            change.function.module,
            change.pos,
            SAYS[late.kind],
            function=change.function,
            help=Text("change the parameters first, then wrap (again)", "先改动参数，再（重新）包装"),
            notes=notes,
        )
