"""Shared memory of a training container that is set, and too small."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV602",
    name="shm-too-small",
    severity=ERROR,
    since="0.1",
    summary=Text("shared memory that is too small for what the container trains", "共享内存对训练容器来说太小"),
)


@RULE.asking("deploy.shm.small")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        notes = []
        if found.kind == "demand":
            loader = found.loader
            notes.append(note_at(project, loader.module, loader.pos, Text("this loader", "该 DataLoader")))
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{what} has {size} of shared memory; it needs {need}",
                "{what} 的共享内存为 {size}；需要 {need}",
                what=found.what,
                size=found.size(),
                need=found.least(),
            ),
            severity=found.severity,
            help=Text(
                "{need}: set {paste}",
                "{need}：请设为 {paste}",
                need=found.reason(),
                paste=found.paste(),
            ),
            notes=notes,
        )
