"""Tensors from workers kept in a list."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV210",
    name="batches-held",
    severity=WARNING,
    since="0.1",
    summary=Text("tensors from workers kept in a list", "列表中保留来自 worker 的张量"),
)


@RULE.asking("settings.in_workers.held")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader = found.loader
        yield RULE.at(
            project,
            found.function.module,
            found.pos,
            Text(
                "{name} keeps a shared-memory file of a worker open for every batch",
                "{name}让每个批次的 worker 共享内存文件保持打开",
                name=Text("this list", "该列表"),
            )
            if not found.name
            else Text(
                "{name} keeps a shared-memory file of a worker open for every batch",
                "{name} 让每个批次的 worker 共享内存文件保持打开",
                name=found.name,
            ),
            function=found.function,
            help=Text("keep a copy: .clone(), or .numpy().copy()", "保留拷贝：.clone() 或 .numpy().copy()"),
            notes=[
                note_at(project, loader.module, loader.pos, Text("this loader has workers", "该 DataLoader 有 worker"))
            ],
        )
