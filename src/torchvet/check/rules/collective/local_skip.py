"""A rank skips collectives because of its own data."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

RULE = Rule(
    code="TV406",
    name="local-skip",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("a rank skips collectives because of its own data", "某个 rank 因自己的数据跳过集合通信"),
)


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    name = d.op.name
    if d.kind == "leaves":
        message = Text(
            "a rank that leaves the loop here leaves the others waiting in {name}()",
            "在此离开循环的 rank 会让其他 rank 在 {name}() 中等待",
            name=name,
        )
    elif d.kind != "guarded":
        message = Text(
            "a rank that skips here leaves the others waiting in {name}()",
            "在此跳过的 rank 会让其他 rank 在 {name}() 中等待",
            name=name,
        )
    elif d.why == "exception":
        message = Text(
            "only a rank that meets the exception calls {name}()", "只有遇到异常的 rank 会调用 {name}()", name=name
        )
    else:
        message = Text(
            "only ranks whose own data pass this test call {name}()",
            "只有自己的数据通过此判断的 rank 会调用 {name}()",
            name=name,
        )
    return message, Text(
        "reduce the flag over all ranks first (all_reduce with MAX), then skip on every rank",
        "先对所有 rank 归约该标志（all_reduce，MAX），再让每个 rank 一起跳过",
    )
