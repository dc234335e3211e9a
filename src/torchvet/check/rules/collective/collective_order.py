"""Ranks make different collective calls at the same point."""

from __future__ import annotations

from .._api import ERROR, LIKELY, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV408",
    name="collective-order",
    severity=ERROR,
    confidence=LIKELY,
    since="0.1",
    summary=Text("ranks make different collective calls at the same point", "各 rank 在同一处调用不同的集合通信"),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = (
        Text("ranks run {name}() in different orders", "各 rank 以不同顺序执行 {name}()", name=d.op.name)
        if d.why
        else Text(
            "{who} run {name}() where the others run another call",
            "{who} 执行 {name}()，而其他 rank 执行另一个调用",
            who=d.runner,
            name=d.op.name,
        )
    )
    return message, Text(
        "let every rank make the same calls in the same order; sort names before looping over them",
        "让每个 rank 以相同顺序做相同调用；遍历名称前先排序",
    )
