"""A container of a training that keeps the default of 64 MiB of shared memory."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV601",
    name="container-shm-unset",
    severity=ERROR,
    since="0.1",
    summary=Text("a training container with the default 64 MiB of shared memory", "训练容器使用默认的 64 MiB 共享内存"),
    fixable="safe",
)


@RULE.asking("deploy.shm.engines")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{what} sets no shared memory: /dev/shm has 64 MiB",
                "{what} 未设置共享内存：/dev/shm 只有 64 MiB",
                what=found.what,
            ),
            severity=found.severity,
            notes=[note_at(project, x.module, x.pos, found.reason()) for x in found.loaders()],
            help=Text(
                "{need}: add {paste}",
                "{need}：请添加 {paste}",
                need=found.reason(),
                paste=found.paste(),
            ),
            fix=found.fix(),
        )
