"""Rank 0 alone evaluates, through a sampler that gives it one share of the data."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV419",
    name="sharded-evaluation-by-one",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("rank 0 alone runs through one share of the data", "只有 rank 0 运行，且只用到一份数据分片"),
)


@RULE.asking("ranks.alone")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for a in answers:
        notes = []
        if a.guard:
            notes.append(note_at(project, a.caller.module, a.guard, Text("rank 0 only", "只有 rank 0")))
        if a.call != a.pos:
            notes.append(
                note_at(project, a.caller.module, a.call, Text("called by rank 0 only", "只被 rank 0 调用"), chain=True)
            )
        yield RULE.at(
            project,
            a.module,
            a.pos,
            Text(
                "rank 0 alone runs this, and this sampler gives it one share: the rest of the data is never seen",
                "只有 rank 0 运行到这里，而此 sampler 只给它一份分片：其余数据从未被用到",
            ),
            function=a.function,
            help=Text(
                "use a SequentialSampler where one rank evaluates, or evaluate on every rank and reduce the result",
                "单个 rank 评估时使用 SequentialSampler，或在每个 rank 上评估并归约结果",
            ),
            notes=notes,
        )
