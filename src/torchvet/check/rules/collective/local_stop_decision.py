"""Ranks decide by themselves when to leave a loop that holds collectives."""

from __future__ import annotations

from .._api import ERROR, LIKELY, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV405",
    name="local-stop-decision",
    severity=ERROR,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "ranks decide by themselves when to leave a loop with collectives", "各 rank 自行决定何时离开含集合通信的循环"
    ),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = Text(
        "{who} can leave the loop alone; the others wait in {name}()",
        "{who} 可能独自离开循环；其他 rank 在 {name}() 中等待",
        who=d.runner,
        name=d.op.name,
    )
    return message, Text(
        "agree first: broadcast the decision, or all_reduce a flag, then let every rank leave",
        "先达成一致：广播该决定或 all_reduce 一个标志，再让所有 rank 一起离开",
    )
