"""Rank 0 catches one kind of error to tell the others; any other kind leaves them waiting."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV412",
    name="stranded-by-exception",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("an error on rank 0 leaves the others waiting", "rank 0 上的异常让其他 rank 一直等待"),
)


@RULE.asking("ranks.stranded")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for s in answers:
        yield RULE.at(
            project,
            s.module,
            s.pos,
            Text(
                "any error but {kind} ends rank 0 here, and the others wait for it in {name}()",
                "除 {kind} 以外的异常会让 rank 0 在此结束，其他 rank 在 {name}() 中等待它",
                kind=s.kind,
                name=s.name,
            ),
            function=s.function,
            help=Text(
                "catch Exception, send it like the others, and raise it on every rank",
                "捕获 Exception，同样发送出去，再在每个 rank 上抛出",
            ),
            notes=[note_at(project, s.module, s.op, Text("the others wait here", "其他 rank 在这里等待"))],
        )
