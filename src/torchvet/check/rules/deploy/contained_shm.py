"""An Apptainer container of a training whose /dev/shm is a small file system of its own."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV618",
    name="contained-shm",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "apptainer --contain for a training: a small /dev/shm of its own", "训练使用 apptainer --contain：/dev/shm 很小"
    ),
)


@RULE.asking("deploy.shm.contained")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{flag} gives {what} a small /dev/shm of its own instead of the host's",
                "{flag} 使 {what} 使用自己的小 /dev/shm，而不是主机的",
                flag=found.text,
                what=found.what,
            ),
            severity=found.severity,
            help=Text(
                "leave {flag} out, or add --bind /dev/shm",
                "请去掉 {flag}，或添加 --bind /dev/shm",
                flag=found.text,
            ),
        )
