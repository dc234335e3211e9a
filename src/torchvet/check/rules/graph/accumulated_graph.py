"""A sum over steps of values that still carry their autograd graph."""

from __future__ import annotations

from .._api import ERROR, WARNING, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV101",
    name="accumulated-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("a sum over steps of values that carry their autograd graph", "跨步累加仍带有计算图的值"),
    fixable="safe",
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for kept in project.graphs.kept():
        if kept.how not in ("add", "inplace"):
            continue
        if kept.alive:
            message = Text(
                "{name} keeps the graph and the activations of every step",
                "{name} 保留了每一步的计算图和激活",
                name=kept.name,
            )
            why = Text("no backward frees what this value was computed from", "没有反向传播会释放这个值的计算图")
        else:
            message = Text(
                "{name} keeps the graph nodes of every step", "{name} 保留了每一步的计算图节点", name=kept.name
            )
            why = Text(
                "backward frees the activations, the nodes stay in host memory",
                "反向传播释放激活，图节点仍留在主机内存",
            )
        edits = project.graphs.detaching(kept)
        yield RULE.at(
            project,
            kept.module,
            kept.pos,
            message,
            function=kept.function,
            severity=ERROR if kept.alive else WARNING,
            help=Text("add {value}", "改为累加 {value}", value=project.graphs.detached_text(kept))
            if kept.plain
            else Text("add its tensors detached", "累加 detach 之后的张量"),
            notes=[note_at(project, *kept.source, why)] if kept.source else (),
            fix=Fix(Text("detach what is added", "累加前先 detach"), edits) if edits else None,
        )
