"""A volume of memory that the training container does not have at /dev/shm."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV608",
    name="pod-shm-not-mounted",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "a memory volume that the training container does not have at /dev/shm", "内存卷没有挂载到训练容器的 /dev/shm"
    ),
)


@RULE.asking("deploy.shm.strays")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.kind == "elsewhere":
            message = Text(
                "container {what} has its memory volume at another path: /dev/shm stays at 64 MiB",
                "容器 {what} 的内存卷挂载在别处：/dev/shm 仍为 64 MiB",
                what=found.what,
            )
        elif found.kind == "undefined":
            message = Text(
                "container {what} mounts a volume at /dev/shm that the pod does not define",
                "容器 {what} 在 /dev/shm 挂载了 Pod 未定义的卷",
                what=found.what,
            )
        else:
            message = Text(
                "container {what} does not mount the memory volume of its pod: /dev/shm has 64 MiB",
                "容器 {what} 未挂载 Pod 的内存卷：/dev/shm 只有 64 MiB",
                what=found.what,
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            severity=found.severity,
            help=Text(
                "PyTorch and NCCL use /dev/shm only: mount the volume there, in the container that trains",
                "PyTorch 与 NCCL 只使用 /dev/shm：请在训练容器中把卷挂载到该路径",
            ),
        )
