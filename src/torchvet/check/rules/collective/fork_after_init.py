"""A process is forked after CUDA or a process group was used, and uses them too."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV415",
    name="fork-after-init",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "a process forked after CUDA or NCCL was initialised uses it", "在 CUDA 或 NCCL 初始化之后 fork 的进程使用了它"
    ),
)


@RULE.asking("ranks.forked")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for f in answers:
        yield RULE.at(
            project,
            f.module,
            f.pos,
            Text(
                "this process is forked after its parent began to use {what}, which does not survive a fork",
                "此进程在父进程开始使用 {what} 之后 fork，而 {what} 无法跨 fork 使用",
                what=f.what,
            ),
            function=f.function,
            help=Text(
                'start it with multiprocessing.get_context("spawn"), or before the first use',
                '使用 multiprocessing.get_context("spawn") 启动，或在首次使用之前启动',
            ),
            notes=[note_at(project, f.module, f.first, Text("the parent begins here", "父进程从这里开始使用"))],
        )
