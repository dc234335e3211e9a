"""A collective that comes after some ranks have left the function, the loop or the program."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text, line_of, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV402",
    name="collective-after-rank-exit",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text(
        "some ranks leave before a collective that the others enter", "部分 rank 在其他 rank 进入集合通信之前离开"
    ),
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for d in project.ranks.divergences():
        if d.fault != RULE.name:
            continue
        at = d.exit if d.exit is not None else d.guard[1]
        yield RULE.at(
            project,
            d.module,
            d.pos,
            Text(
                "{name}() is not reached by {who} after the exit at line {line}",
                "{who} 在第 {line} 行离开，不会到达 {name}()",
                name=d.op.name,
                who=d.leaver,
                line=line_of(at),
            ),
            function=d.place,
            severity=d.severity,
            confidence=d.confidence,
            help=Text(
                "move the exit behind the collective, or let every rank leave together",
                "把退出移到集合通信之后，或让所有 rank 一起退出",
            ),
            notes=[note_at(project, m, pos, text, chain=True) for m, pos, text in d.places()],
            trace=d.rows,
        )
