"""Every rank writes the same checkpoint."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV420",
    name="unguarded-shared-write",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("every rank writes the same checkpoint", "每个 rank 都写同一个检查点"),
)


@RULE.asking("ranks.shared_saves")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for s in answers:
        notes = []
        if s.other:
            notes.append(
                note_at(project, s.where, s.other, Text("called by every rank", "每个 rank 都调用"), chain=True)
            )
        yield RULE.at(
            project,
            s.module,
            s.pos,
            Text(
                "every rank writes this file at the same time: what is left may be torn",
                "每个 rank 同时写这个文件：留下的内容可能残缺",
            ),
            function=s.function,
            help=Text(
                "save on rank 0 only (the state of a DDP model is the same on all), then barrier()",
                "只在 rank 0 保存（DDP 模型的状态各 rank 相同），然后 barrier()",
            ),
            notes=notes,
        )
