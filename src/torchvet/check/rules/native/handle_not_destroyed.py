"""A library handle, descriptor, plan, communicator or graph that nothing destroys."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV503",
    name="handle-not-destroyed",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "a library handle, descriptor, plan, graph or mapping that nothing destroys",
        "没有被销毁的库句柄、描述符、计划、图或映射",
    ),
)


@RULE.faults("native.handles")
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "local":
        return (
            Text("{name} is created by {call} and never destroyed", "{name} 由 {call} 创建，从未销毁", **words),
            Text("call {free} on every path", "在每条路径上调用 {free}", **words),
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
