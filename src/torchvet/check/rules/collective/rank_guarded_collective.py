"""A collective that only some ranks reach, because it stands under a guard that depends on the rank."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV401",
    name="rank-guarded-collective",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a collective that only some ranks reach", "只有部分 rank 会到达的集合通信"),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = (
        Text("only {who} reach {name}()", "只有 {who} 会到达 {name}()", who=d.runner, name=d.op.name)
        if d.many
        else Text("only {who} reaches {name}()", "只有 {who} 会到达 {name}()", who=d.runner, name=d.op.name)
    )
    return message, Text(
        "call it on every rank; keep only rank-local work such as printing or writing under the guard",
        "让每个 rank 都调用它；条件内只保留打印、写文件等本地工作",
    )
