"""A pod that trains without a volume of memory at /dev/shm."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV606",
    name="pod-shm-unset",
    severity=ERROR,
    since="0.1",
    summary=Text("a training pod without a memory volume at /dev/shm", "训练 Pod 没有在 /dev/shm 挂载内存卷"),
)


@RULE.asking("deploy.shm.pods")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "container {what} mounts nothing at /dev/shm: it has 64 MiB",
                "容器 {what} 未在 /dev/shm 挂载：只有 64 MiB",
                what=found.what,
            ),
            severity=found.severity,
            notes=[note_at(project, x.module, x.pos, found.reason()) for x in found.loaders()],
            help=Text(
                "{need}: mount {{name: dshm, mountPath: /dev/shm}} and add the volume {paste}",
                "{need}：挂载 {{name: dshm, mountPath: /dev/shm}} 并添加卷 {paste}",
                need=found.reason(),
                paste=found.paste(),
            ),
        )
