"""Device memory that every call allocates and frees."""

from __future__ import annotations

from .._api import NOTE, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...flow.native import Fault

RULE = Rule(
    code="TV507",
    name="raw-allocation-per-call",
    severity=NOTE,
    since="0.1",
    summary=Text(
        "cudaMalloc and cudaFree on each call instead of the caching allocator",
        "每次调用都 cudaMalloc 和 cudaFree，而不使用缓存分配器",
    ),
)


@RULE.faults("native.per_call")
def said(fault: Fault) -> tuple[Text, Text]:
    words = fault.words
    return (
        Text(
            "{function_name} allocates {name} with {call} on each call and waits for the device to free it",
            "{function_name} 每次调用都用 {call} 分配 {name}，释放时等待设备",
            **words,
        ),
        Text(
            "use torch::empty: the caching allocator reuses the block without a wait",
            "使用 torch::empty：缓存分配器无需等待即可复用内存块",
            **words,
        ),
    )
