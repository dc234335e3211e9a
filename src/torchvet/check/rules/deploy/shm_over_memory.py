"""Shared memory that may grow past the memory limit of its own container."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV609",
    name="shm-over-memory",
    severity=WARNING,
    since="0.1",
    summary=Text("shared memory as large as the container's memory limit", "共享内存不小于容器的内存上限"),
)


@RULE.asking("deploy.shm.over_memory")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        limit = Text("the limit is {limit}", "上限为 {limit}", limit=found.limit())
        if found.kind == "unbounded":
            message = Text(
                "the memory volume of {what} has no sizeLimit and counts against {limit}",
                "{what} 的内存卷没有 sizeLimit，并计入 {limit} 的内存上限",
                what=found.what,
                limit=found.limit(),
            )
        else:
            message = Text(
                "{what} may fill {size} of shared memory, but its memory limit is {limit}",
                "{what} 的共享内存可达 {size}，而内存上限是 {limit}",
                what=found.what,
                size=found.size(),
                limit=found.limit(),
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            severity=found.severity,
            help=Text(
                "it is charged to the container, killed past the limit (exit 137): set {size}, or raise the limit",
                "共享内存计入容器内存：超过上限时容器被终止（退出码 137）；请设为 {size} 或提高上限",
                size=found.half(),
            ),
            notes=[note_at(project, found.module, found.other, limit)] if found.other else (),
        )
