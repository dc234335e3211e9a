"""Device or page-locked memory that nothing frees."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV501",
    name="allocation-not-freed",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "device or page-locked memory that no destructor and no path frees",
        "没有析构函数或路径释放的设备内存或锁页内存",
    ),
)


@RULE.faults("native.allocations")
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "local":
        return (
            Text("{name} is allocated by {call} and never freed", "{name} 由 {call} 分配，从未释放", **words),
            Text(
                "free it with {free} on every path, or use torch::empty, whose memory the caching allocator takes back",
                "在每条路径上用 {free} 释放；或改用 torch::empty，由缓存分配器回收",
                **words,
            ),
        )
    if fault.kind == "member":
        return (
            Text(
                "{cls}::{name} is allocated by {call} and no destructor frees it",
                "{cls}::{name} 由 {call} 分配，析构函数没有释放它",
                **words,
            ),
            Text(
                "free it with {free} in ~{cls}() or in what it calls",
                "在 ~{cls}() 或其调用的函数中用 {free} 释放",
                **words,
            ),
        )
    if fault.kind == "overwritten":
        return (
            Text(
                "{call} overwrites {name} while it still holds the old block",
                "{call} 覆盖了 {name}，而它仍持有旧的内存块",
                **words,
            ),
            Text(
                "free the old block with {free} before the new one is allocated",
                "分配新块之前先用 {free} 释放旧块",
                **words,
            ),
        )
    if fault.kind == "lost":
        return (
            Text(
                "{name} is set to null while it still holds what {call} made",
                "{name} 被置空，而它仍持有 {call} 创建的对象",
                **words,
            ),
            Text("call {free} first", "先调用 {free}", **words),
        )
    return (
        Text(
            "~{name}() is not virtual: deleting through {name} never runs ~{cls}(), which frees",
            "~{name}() 不是虚函数：通过 {name} 删除时不会运行负责释放的 ~{cls}()",
            **words,
        ),
        Text("declare the destructor of {name} virtual", "把 {name} 的析构函数声明为 virtual", **words),
    )
