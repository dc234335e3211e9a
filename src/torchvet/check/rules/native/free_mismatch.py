"""Memory of one allocator that another frees."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV510",
    name="free-mismatch",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "memory that the function of another allocator frees",
        "用另一种分配器的函数释放的内存",
    ),
)


@RULE.faults("native.mismatches", Text("created here", "在此创建"))
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "twice":
        return (
            Text("{name} is freed a second time by {by}", "{name} 被 {by} 第二次释放", **words),
            Text("set {name} to nullptr where it is freed first", "首次释放后把 {name} 置为 nullptr", **words),
        )
    return (
        Text("{name} comes from {call} and is freed by {by}", "{name} 来自 {call}，却由 {by} 释放", **words),
        Text("free it with {free}", "用 {free} 释放", **words),
    )
