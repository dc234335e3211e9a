"""A sum over steps of values that still carry their autograd graph."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Kept

RULE = Rule(
    code="TV101",
    name="accumulated-graph",
    severity=WARNING,
    since="0.1",
    summary=Text("a sum over steps of values that carry their autograd graph", "跨步累加仍带有计算图的值"),
    fixable="safe",
)


@RULE.keeping("add", "inplace")
def say(kept: Kept, detached: str) -> tuple[Text, Text, Text]:
    if kept.alive:
        message = Text(
            "{name} keeps the graph and the activations of every step",
            "{name} 保留了每一步的计算图和激活",
            name=kept.name,
        )
    else:
        message = Text("{name} keeps the graph nodes of every step", "{name} 保留了每一步的计算图节点", name=kept.name)
    help = (
        Text("add {value}", "改为累加 {value}", value=detached)
        if detached
        else Text("add its tensors detached", "累加 detach 之后的张量")
    )
    return message, help, Text("detach what is added", "累加前先 detach")
