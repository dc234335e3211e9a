"""An entry point that launches on whatever device is current."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV505",
    name="device-guard-missing",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "a bound function that launches kernels without a device guard",
        "绑定到 Python 的函数在没有设备保护的情况下启动核函数",
    ),
)


@RULE.faults("native.unguarded", Text("also here", "此处同样"))
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    return (
        Text(
            "{name} launches on the current device, not on the device of {argument}",
            "{name} 在当前设备而非 {argument} 所在设备上启动核函数",
            **words,
        ),
        Text(
            "begin it with const at::cuda::CUDAGuard guard({argument}.device());",
            "在函数开头加上 const at::cuda::CUDAGuard guard({argument}.device());",
            **words,
        ),
    )
