"""A value with its autograd graph, stored in a container that outlives the step."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Kept

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


@RULE.keeping("append", "comp", "item", "cat")
def say(kept: Kept, detached: str) -> tuple[Text, Text, Text]:
    what = kept.name or kept.value
    if kept.alive:
        message = Text(
            "{name} holds on to the graph and the activations of every step",
            "{name} 一直持有每一步的计算图和激活",
            name=what,
        )
    else:
        message = Text(
            "{name} holds on to the graph nodes of every step", "{name} 一直持有每一步的计算图节点", name=what
        )
    help = (
        Text("store {value}", "改为存放 {value}", value=detached)
        if detached
        else Text("store its tensors detached", "存放 detach 之后的张量")
    )
    return message, help, Text("detach what is stored", "存放前先 detach")
