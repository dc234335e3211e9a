"""A volume at /dev/shm that is no memory."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV607",
    name="pod-shm-on-disk",
    severity=WARNING,
    since="0.1",
    summary=Text("a volume on disk at /dev/shm", "挂载到 /dev/shm 的卷在磁盘上"),
)


@RULE.asking("deploy.shm.disks")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "/dev/shm of container {what} is on the node's disk: every batch is written there",
                "容器 {what} 的 /dev/shm 在节点磁盘上：每个批次都会写盘",
                what=found.what,
            ),
            severity=found.severity,
            help=Text(
                "add medium: Memory to the emptyDir: {paste}",
                "为 emptyDir 添加 medium: Memory：{paste}",
                paste=found.paste(),
            ),
        )
