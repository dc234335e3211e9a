"""A collective that comes after some ranks have left the function, the loop or the program."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text, line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV402",
    name="collective-after-rank-exit",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text(
        "some ranks leave before a collective that the others enter", "部分 rank 在其他 rank 进入集合通信之前离开"
    ),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    at = d.exit if d.exit is not None else d.guard[1]
    message = Text(
        "{name}() is not reached by {who} after the exit at line {line}",
        "{who} 在第 {line} 行离开，不会到达 {name}()",
        name=d.op.name,
        who=d.leaver,
        line=line_of(at),
    )
    return message, Text(
        "move the exit behind the collective, or let every rank leave together",
        "把退出移到集合通信之后，或让所有 rank 一起退出",
    )
