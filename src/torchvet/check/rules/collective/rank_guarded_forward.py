"""Forward or backward of a wrapped model on some ranks only."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV403",
    name="rank-guarded-forward",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text(
        "forward or backward of a wrapped model on some ranks only", "只在部分 rank 上执行已包装模型的前向或反向"
    ),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = Text(
        "{name} of the wrapped model runs on {who} only",
        "已包装模型的 {name} 只在 {who} 上执行",
        name=d.op.name,
        who=d.runner,
    )
    return message, Text(
        "run it on every rank, or use the inner module (model.module) under the guard",
        "让每个 rank 都执行，或在条件内使用内部模块（model.module）",
    )
