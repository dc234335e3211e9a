"""A value with its autograd graph, handed to an object that keeps it."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Kept

RULE = Rule(
    code="TV103",
    name="metered-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("a meter, metric or buffer is given a value with its graph", "把带计算图的值交给计量器、指标或缓冲区"),
    fixable="safe",
)


@RULE.keeping("meter")
def say(kept: Kept, detached: str) -> tuple[Text, Text, Text]:
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
    help = (
        Text("pass {value}", "改为传入 {value}", value=detached)
        if detached
        else Text("pass its tensors detached", "传入 detach 之后的张量")
    )
    return message, help, Text("detach the argument", "先 detach 参数")
