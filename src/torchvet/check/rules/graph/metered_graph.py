"""A value with its autograd graph, handed to an object that keeps it."""

from __future__ import annotations

from .._api import ERROR, WARNING, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV103",
    name="metered-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("a meter, metric or buffer is given a value with its graph", "把带计算图的值交给计量器、指标或缓冲区"),
    fixable="safe",
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for kept in project.graphs.kept():
        if kept.how != "meter":
            continue
        if kept.alive:
            message = Text(
                "{name} keeps its argument with the graph and the activations",
                "{name} 保留了参数的计算图和激活",
                name=kept.name,
            )
        else:
            message = Text(
                "{name} keeps its argument with the graph nodes of every step",
                "{name} 保留了参数每一步的计算图节点",
                name=kept.name,
            )
        notes = []
        if kept.store_at:
            notes.append(note_at(project, *kept.store_at, Text("kept here", "在这里被保留")))
        if kept.source:
            notes.append(note_at(project, *kept.source, Text("the graph starts here", "计算图从这里开始")))
        edits = project.graphs.detaching(kept)
        yield RULE.at(
            project,
            kept.module,
            kept.pos,
            message,
            function=kept.function,
            severity=ERROR if kept.alive else WARNING,
            help=Text("pass {value}", "改为传入 {value}", value=project.graphs.detached_text(kept))
            if kept.plain
            else Text("pass its tensors detached", "传入 detach 之后的张量"),
            notes=notes,
            fix=Fix(Text("detach the argument", "先 detach 参数"), edits) if edits else None,
        )
