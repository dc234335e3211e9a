"""RDMA in a container that may not lock memory."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV610",
    name="memlock-limited",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "RDMA in a container with the default limit of locked memory", "使用 RDMA 的容器保持默认的锁定内存上限"
    ),
)


@RULE.asking("deploy.steps.unlocked")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{what} uses RDMA but may not lock memory: ibv_reg_mr fails",
                "{what} 使用 RDMA，但不能锁定内存：ibv_reg_mr 会失败",
                what=found.what,
            ),
            severity=found.severity,
            help=Text("add {paste}", "请添加 {paste}", paste=found.lock()),
            notes=[note_at(project, found.module, found.other, Text("RDMA is asked for here", "此处使用 RDMA"))],
        )
