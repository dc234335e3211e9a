"""A launcher for all GPUs of a node that is started once for each task."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV615",
    name="launcher-per-task",
    severity=ERROR,
    since="0.1",
    summary=Text("torchrun started by every task of a node", "节点上的每个任务都启动一次 torchrun"),
)


@RULE.asking("deploy.steps.multiplied")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.each:
            message = Text(
                "{tasks} tasks on a node each start {inner} with {each} processes",
                "节点上的 {tasks} 个任务各自启动 {inner}，每个有 {each} 个进程",
                tasks=found.tasks,
                inner=found.inner,
                each=found.each,
            )
        else:
            message = Text(
                "{tasks} tasks on a node each start {inner} for all GPUs of the node",
                "节点上的 {tasks} 个任务各自为全部 GPU 启动 {inner}",
                tasks=found.tasks,
                inner=found.inner,
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            help=Text(
                "one task for each node (--ntasks-per-node=1), or {head} alone without {inner}",
                "每个节点一个任务（--ntasks-per-node=1），或只用 {head} 而不用 {inner}",
                head=found.head,
                inner=found.inner,
            ),
            notes=[note_at(project, found.module, found.other, Text("tasks are set here", "任务数在此设置"))]
            if found.other
            else (),
        )
