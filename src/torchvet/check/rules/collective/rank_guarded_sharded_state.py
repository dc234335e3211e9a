"""State that is spread over the ranks is gathered, saved or loaded by some of them only."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV404",
    name="rank-guarded-sharded-state",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text(
        "sharded state gathered, saved or loaded on some ranks only", "只在部分 rank 上收集、保存或加载分片状态"
    ),
)


def message(d: Divergence) -> Text:
    if d.by_strategy:
        return Text(
            "under FSDP and DeepSpeed {name}() needs every rank, but it runs on {who} only",
            "使用 FSDP 或 DeepSpeed 时 {name}() 需要所有 rank 参与，但只在 {who} 上执行",
            name=d.op.name,
            who=d.runner,
        )
    return Text(
        "{name}() needs every rank, but runs on {who} only",
        "{name}() 需要所有 rank 参与，但只在 {who} 上执行",
        name=d.op.name,
        who=d.runner,
    )


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    return message(d), Text(
        "call it on every rank, then let one rank write the result",
        "让每个 rank 都调用它，再由一个 rank 写结果",
    )
