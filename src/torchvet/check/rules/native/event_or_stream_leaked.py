"""An event or stream that nothing destroys."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV504",
    name="event-or-stream-leaked",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "an event or stream that is created and never destroyed",
        "创建后从未销毁的事件或流",
    ),
)


@RULE.faults("native.events")
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "local":
        return (
            Text(
                "{name} is created by {call} on each call and never destroyed",
                "每次调用都由 {call} 创建 {name}，从未销毁",
                **words,
            ),
            Text(
                "call {free}, or use at::cuda::CUDAEvent or a stream of the pool",
                "调用 {free}，或使用 at::cuda::CUDAEvent 与流池",
                **words,
            ),
        )
    if fault.kind == "member":
        return (
            Text(
                "{cls}::{name} is created by {call} and no destructor destroys it",
                "{cls}::{name} 由 {call} 创建，析构函数没有销毁它",
                **words,
            ),
            Text("call {free} in ~{cls}() or in what it calls", "在 ~{cls}() 或其调用的函数中调用 {free}", **words),
        )
    if fault.kind == "overwritten":
        return (
            Text(
                "{call} overwrites {name} while it still holds the old one",
                "{call} 覆盖了 {name}，而它仍持有旧对象",
                **words,
            ),
            Text("call {free} before a new one is created", "创建新对象之前先调用 {free}", **words),
        )
    return (
        Text(
            "{name} is set to null while it still holds what {call} made",
            "{name} 被置空，而它仍持有 {call} 创建的对象",
            **words,
        ),
        Text("call {free} first", "先调用 {free}", **words),
    )
