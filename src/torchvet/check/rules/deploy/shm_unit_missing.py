"""A size of shared memory whose unit is not the one that was meant."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV603",
    name="shm-unit-missing",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "a size of shared memory in bytes or MiB where GiB were meant", "共享内存大小缺少单位，实际按字节或 MiB 计算"
    ),
)


@RULE.asking("deploy.shm.units")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.kind == "mib":
            message = Text(
                "sharedMemorySize counts MiB: {text} is {size}",
                "sharedMemorySize 的单位是 MiB：{text} 即 {size}",
                text=found.text,
                size=found.size(),
            )
        else:
            message = Text(
                "a size without a unit is in bytes: {what} gets {size} of shared memory",
                "没有单位的大小按字节计：{what} 的共享内存为 {size}",
                what=found.what,
                size=found.size(),
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            severity=found.severity,
            help=Text("write {paste}", "请写 {paste}", paste=found.paste()),
        )
