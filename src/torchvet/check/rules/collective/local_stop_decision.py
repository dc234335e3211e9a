"""Ranks decide by themselves when to leave a loop that holds collectives."""

from __future__ import annotations

from .._api import ERROR, LIKELY, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV405",
    name="local-stop-decision",
    severity=ERROR,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "ranks decide by themselves when to leave a loop with collectives", "各 rank 自行决定何时离开含集合通信的循环"
    ),
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for d in project.ranks.divergences():
        if d.fault != RULE.name:
            continue
        yield RULE.at(
            project,
            d.module,
            d.pos,
            Text(
                "{who} can leave the loop alone; the others wait in {name}()",
                "{who} 可能独自离开循环；其他 rank 在 {name}() 中等待",
                who=d.runner,
                name=d.op.name,
            ),
            function=d.place,
            severity=d.severity,
            confidence=d.confidence,
            help=Text(
                "agree first: broadcast the decision, or all_reduce a flag, then let every rank leave",
                "先达成一致：广播该决定或 all_reduce 一个标志，再让所有 rank 一起离开",
            ),
            notes=[note_at(project, m, pos, text, chain=True) for m, pos, text in d.places()],
            trace=d.rows,
        )
