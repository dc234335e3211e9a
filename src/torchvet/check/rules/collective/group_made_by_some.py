"""A process group that not every rank helps to make."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV409",
    name="group-made-by-some",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a process group that not every rank helps to make", "并非所有 rank 都参与创建的进程组"),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = Text(
        "{name}() has to be called by every rank, but runs on {who} only",
        "{name}() 必须由每个 rank 调用，但只在 {who} 上执行",
        name=d.op.name,
        who=d.runner,
    )
    return message, Text(
        "make every group on every rank in the same order, then keep the one this rank belongs to",
        "在每个 rank 上以相同顺序创建所有组，再保留本 rank 所属的组",
    )
