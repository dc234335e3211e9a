"""A container that shares the IPC namespace of its host."""

from __future__ import annotations

from .._api import NOTE, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV619",
    name="host-ipc",
    severity=NOTE,
    since="0.1",
    summary=Text("the host's IPC namespace, where a size would do", "使用主机 IPC 命名空间，其实设置大小即可"),
)


@RULE.asking("deploy.shm.host")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{what} shares the IPC namespace of the host: this works, and other containers see its memory",
                "{what} 使用主机的 IPC 命名空间：可以工作，但其他容器能看到其共享内存",
                what=found.what,
            ),
            help=Text(
                "prefer {paste}; security scanners report host IPC",
                "建议改用 {paste}；安全扫描会报告主机 IPC",
                paste=found.paste(),
            ),
        )
