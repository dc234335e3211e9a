"""A state dict without the wrapper's prefix, loaded into the wrapper."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV312",
    name="state-prefix-mismatch",
    severity=WARNING,
    since="0.1",
    summary=Text("a state without its prefix loaded into a wrapped model", "把去掉前缀的状态载入包装后的模型"),
)


@RULE.asking("wrapping.stripped_states")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        wrap, load = order.first, order.second
        yield RULE.at(
            project,
            load.function.module,
            load.pos,
            Text(
                'the "module." prefix was removed, but the keys of the DDP model have it',
                "已去掉 “module.” 前缀，但 DDP 模型的键带有该前缀",
            ),
            function=load.function,
            help=Text("load into model.module, or before wrapping", "载入 model.module，或在包装之前载入"),
            notes=[note_at(project, wrap.function.module, wrap.pos, Text("wrapped here", "在此包装"))],
        )
