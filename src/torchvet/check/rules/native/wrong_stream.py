"""A launch on the default stream inside PyTorch."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV506",
    name="wrong-stream",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "a kernel launch on the default stream instead of the current one",
        "核函数在默认流而非当前流上启动",
    ),
)


@RULE.faults("native.default_streams", Text("also here", "此处同样"))
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    return (
        Text(
            "{name} runs on the default stream, not on the current stream of PyTorch",
            "{name} 在默认流上运行，而不是 PyTorch 的当前流",
            **words,
        ),
        Text(
            "launch with <<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>",
            "使用 <<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>> 启动",
            **words,
        ),
    )
