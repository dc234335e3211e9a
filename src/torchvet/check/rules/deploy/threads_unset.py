"""Several processes on a node whose number of threads nothing limits."""

from __future__ import annotations

from .._api import NOTE, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV616",
    name="threads-unset",
    severity=NOTE,
    since="0.1",
    summary=Text("several processes on a node without OMP_NUM_THREADS", "同一节点启动多个进程却未设置 OMP_NUM_THREADS"),
)


@RULE.asking("deploy.steps.threads")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{head} starts {tasks} processes on a node and sets no OMP_NUM_THREADS",
                "{head} 在一个节点上启动 {tasks} 个进程，但没有设置 OMP_NUM_THREADS",
                head=found.head,
                tasks=found.tasks,
            ),
            help=Text(
                "export OMP_NUM_THREADS = CPUs of the node / processes; torchrun would set 1",
                "请设置 OMP_NUM_THREADS = 节点 CPU 数 / 进程数；torchrun 会设为 1",
            ),
        )
