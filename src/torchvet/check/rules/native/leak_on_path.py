"""A way out of a function between creation and release."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV502",
    name="leak-on-path",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "a return, throw or TORCH_CHECK between allocation and release",
        "分配与释放之间的 return、throw 或 TORCH_CHECK",
    ),
)


PLACES = {"created": Text("created here", "在此创建"), "more": Text("also left here", "此处同样离开")}


@RULE.faults("native.exits", PLACES)
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "return":
        return (
            Text("this return leaves {name} unreleased", "此处返回时 {name} 未释放", **words),
            Text(
                "call {free} before it, or let an owner with a destructor hold {name}",
                "返回前调用 {free}，或由带析构函数的对象持有 {name}",
                **words,
            ),
        )
    if fault.kind == "throw":
        return (
            Text("{exit} leaves {name} unreleased when it throws", "{exit} 抛出异常时 {name} 未释放", **words),
            Text(
                "check before {call}, or let an owner with a destructor hold {name}",
                "在 {call} 之前检查，或由带析构函数的对象持有 {name}",
                **words,
            ),
        )
    if fault.kind == "continue":
        return (
            Text(
                "this continue goes to the next turn and leaves {name} unreleased",
                "continue 进入下一轮，{name} 未释放",
                **words,
            ),
            Text("call {free} before it", "在此之前调用 {free}", **words),
        )
    if fault.kind == "break":
        return (
            Text("this break leaves the loop with {name} unreleased", "break 离开循环，{name} 未释放", **words),
            Text("call {free} before it", "在此之前调用 {free}", **words),
        )
    if fault.kind == "goto":
        return (
            Text("this goto skips the release of {name}", "goto 跳过了 {name} 的释放", **words),
            Text("jump to a label before the release", "跳转到释放之前的标签", **words),
        )
    if fault.kind == "scope":
        return (
            Text(
                "{name} goes out of scope without {free} on one path",
                "在一条路径上 {name} 离开作用域而未调用 {free}",
                **words,
            ),
            Text("call {free} on every path", "在每条路径上调用 {free}", **words),
        )
    if fault.kind == "end":
        return (
            Text(
                "the function ends with {name} unreleased on one path", "在一条路径上函数结束时 {name} 未释放", **words
            ),
            Text("call {free} on every path", "在每条路径上调用 {free}", **words),
        )
    return (
        Text(
            "{exit} in the constructor of {cls} leaves {name}: its destructor does not run",
            "{cls} 的构造函数中 {exit} 抛出后 {name} 泄漏：析构函数不会运行",
            **words,
        ),
        Text(
            "check before {call}, or hold {name} in a member with a destructor of its own",
            "在 {call} 之前检查，或用自带析构函数的成员持有 {name}",
            **words,
        ),
    )
