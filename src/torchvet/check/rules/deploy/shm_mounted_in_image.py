"""A mount at /dev/shm that has no effect on the container that trains."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV617",
    name="shm-mounted-in-image",
    severity=WARNING,
    since="0.1",
    summary=Text("mount of /dev/shm in an image", "在镜像中挂载 /dev/shm"),
)


@RULE.asking("deploy.steps.remounts")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.building:
            message = Text(
                "this mount ends with the build step: the container gets its own /dev/shm",
                "该挂载随构建步骤结束：容器会使用自己的 /dev/shm",
            )
        else:
            message = Text(
                "this mount needs a privileged container: without it /dev/shm keeps its size",
                "该挂载需要特权容器：否则 /dev/shm 的大小不变",
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            help=Text(
                "set the size where the container starts: --shm-size=8g, shm_size, or a memory volume",
                "请在启动容器时设置大小：--shm-size=8g、shm_size 或内存卷",
            ),
        )
