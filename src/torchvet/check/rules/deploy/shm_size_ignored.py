"""A size of shared memory beside the IPC namespace of the host."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV620",
    name="shm-size-ignored",
    severity=NOTE,
    since="0.1",
    summary=Text("a size of shared memory beside host IPC", "同时设置主机 IPC 与共享内存大小"),
)


@RULE.asking("deploy.shm.ignored")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        if found.kind == "podman":
            message = Text(
                "podman refuses a size of shared memory together with --ipc=host",
                "podman 拒绝同时使用共享内存大小与 --ipc=host",
            )
        else:
            message = Text(
                "with the host's IPC namespace the size {text} is ignored",
                "使用主机 IPC 时会忽略大小 {text}",
                text=found.text,
            )
        yield RULE.at(
            project,
            found.module,
            found.pos,
            message,
            severity=found.severity,
            help=Text("keep one of the two", "请只保留其中一个"),
            notes=[note_at(project, found.module, found.other, Text("the size", "大小"))] if found.other else (),
        )
