"""A class whose copies release the same resource."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV509",
    name="owner-copied",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "a class that releases in its destructor and can be copied",
        "在析构函数中释放资源却可以被复制的类",
    ),
)


@RULE.faults("native.copies", Text("copied here", "在此被复制"))
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    if fault.kind == "copied":
        return (
            Text(
                "~{cls}() releases {name}, and copies of {cls} release it again",
                "~{cls}() 释放 {name}，而 {cls} 的副本会再次释放它",
                **words,
            ),
            Text(
                "delete the copy constructor and assignment, and write a move constructor",
                "删除拷贝构造与拷贝赋值，并编写移动构造函数",
                **words,
            ),
        )
    if fault.kind == "copyable":
        return (
            Text(
                "~{cls}() releases {name}, and nothing forbids copies of {cls}",
                "~{cls}() 释放 {name}，而 {cls} 可以被复制",
                **words,
            ),
            Text("delete the copy constructor and assignment", "删除拷贝构造与拷贝赋值", **words),
        )
    return (
        Text(
            "the moved-from {cls} still points at {name}, and its destructor releases it too",
            "被移动的 {cls} 仍指向 {name}，其析构函数会再次释放",
            **words,
        ),
        Text(
            "set it to nullptr in the source: std::exchange(other.{name}, nullptr)",
            "把源对象置空：std::exchange(other.{name}, nullptr)",
            **words,
        ),
    )
