"""A launch on the default stream inside PyTorch."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...flow.native import Fault
    from .._api import Answers, Finding
    from ..project import Project

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


@RULE.asking("native.default_streams")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for fault in answers:
        message, help = said(fault)
        notes = [note_at(project, m, pos, Text("also here", "此处同样")) for m, pos, _ in fault.notes[:20]]
        yield RULE.at(project, fault.module, fault.pos, message, severity=fault.severity, help=help, notes=notes)


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
