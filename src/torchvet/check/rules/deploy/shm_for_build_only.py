"""A Compose service whose shm_size counts only while the image is built."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV604",
    name="shm-for-build-only",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "shm_size under build: it does not hold when the service runs", "shm_size 写在 build 下，运行时不生效"
    ),
    fixable="safe",
)


@RULE.asking("deploy.shm.built")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "shm_size under build holds for the build only: {what} runs with 64 MiB",
                "build 下的 shm_size 只用于构建：{what} 运行时只有 64 MiB",
                what=found.what,
            ),
            severity=found.severity,
            notes=[note_at(project, x.module, x.pos, found.reason()) for x in found.loaders()],
            help=Text(
                "{need}: add {paste} to the service itself",
                "{need}：请在服务本身添加 {paste}",
                need=found.reason(),
                paste=found.paste(),
            ),
            fix=found.fix(),
        )
