"""torch.load without map_location in a program of several processes."""

from __future__ import annotations

from .._api import WARNING, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV305",
    name="load-onto-first-gpu",
    severity=WARNING,
    since="0.1",
    summary=Text("torch.load without map_location on every rank", "每个 rank 都执行没有 map_location 的 torch.load"),
    fixable="safe",
)


@RULE.asking("wrapping.processes.loads")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for site in answers:
        notes = []
        if site.other is not None and site.other[1] != site.pos:
            notes.append(note_at(project, site.module, site.other[1], Text("becomes state here", "在此成为状态")))
        last = [*site.call[3], *(v for _, v in site.call[4])][-1]
        _, _, line, column = project.program.span(site.module, last[1])
        yield RULE.at(
            project,
            site.module,
            site.pos,
            Text(
                "every rank restores these tensors on the GPU they were saved from",
                "每个 rank 都会在保存时的那块 GPU 上恢复这些张量",
            ),
            function=site.function,
            help=Text(
                'pass map_location="cpu" (or the device of this rank)', '传入 map_location="cpu"（或本 rank 的设备）'
            ),
            notes=notes,
            fix=Fix(
                Text('add map_location="cpu"', '添加 map_location="cpu"'),
                [Edit(line, column, line, column, ', map_location="cpu"')],
            ),
        )
