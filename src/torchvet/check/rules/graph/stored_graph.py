"""A value with its autograd graph, stored in a container that outlives the step."""

from __future__ import annotations

from .._api import ERROR, WARNING, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV102",
    name="stored-graph",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "a value stored with its autograd graph, longer than the step", "存下的值带着计算图，且比这一步活得更久"
    ),
    fixable="safe",
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for kept in project.graphs.kept():
        if kept.how not in ("append", "comp", "item", "cat"):
            continue
        what = kept.name or Text("this comprehension", "这个推导式")
        if kept.alive:
            message = Text(
                "{name} holds on to the graph and the activations of every step",
                "{name} 一直持有每一步的计算图和激活",
                name=what,
            )
            why = Text("no backward frees what this value was computed from", "没有反向传播会释放这个值的计算图")
        else:
            message = Text(
                "{name} holds on to the graph nodes of every step", "{name} 一直持有每一步的计算图节点", name=what
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
            help=Text("store {value}", "改为存放 {value}", value=project.graphs.detached_text(kept))
            if kept.plain
            else Text("store its tensors detached", "存放 detach 之后的张量"),
            notes=[note_at(project, *kept.source, why)] if kept.source else (),
            fix=Fix(Text("detach what is stored", "存放前先 detach"), edits) if edits else None,
        )
