"""Calls of the runtime whose status is dropped."""

from __future__ import annotations

from .._api import NOTE, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV508",
    name="unchecked-cuda-call",
    severity=NOTE,
    since="0.1",
    summary=Text(
        "calls of the CUDA runtime whose status is dropped",
        "丢弃返回状态的 CUDA 运行时调用",
    ),
)


@RULE.faults("native.unchecked")
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    return (
        Text(
            "the status of {call} is dropped (calls like this in the file: {count})",
            "{call} 的返回状态被丢弃（此文件中此类调用：{count} 处）",
            **words,
        ),
        Text("wrap the call in C10_CUDA_CHECK(…)", "用 C10_CUDA_CHECK(…) 包裹该调用", **words),
    )
