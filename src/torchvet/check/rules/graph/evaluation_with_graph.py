"""A forward in evaluation that records a graph."""

from __future__ import annotations

from .._api import ERROR, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV104",
    name="evaluation-with-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("an evaluation forward with gradients on", "评估时的前向计算仍打开梯度"),
    fixable="unsafe",
)


@RULE.asking("graphs.evaluations")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    graphs = project.graphs
    keeping = {id(k.function) for k in graphs.kept() if k.alive and k.evaluation}
    for found in answers:
        fix = graphs.switching_off(found)
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{name}() records a graph in evaluation that nobody uses",
                "{name}() 在评估中记录了没人用的计算图",
                name=found.name,
            ),
            function=found.function,
            severity=ERROR if id(found.function) in keeping else WARNING,
            help=Text(
                "decorate {function} with @torch.no_grad(), or put the forward under with torch.no_grad():",
                "给 {function} 加上 @torch.no_grad()，或把前向放进 with torch.no_grad():",
                function=found.function.name,
            )
            if found.function.name != "<module>"
            else Text("put the forward under with torch.no_grad():", "把前向放进 with torch.no_grad():"),
            notes=[
                note_at(
                    project,
                    *found.eval_at,
                    Text("eval() changes layers, not gradients", "eval() 只改变层的行为，不关闭梯度"),
                )
            ],
            fix=fix,
        )
