"""Ranks make different collective calls at the same point."""

from __future__ import annotations

from .._api import ERROR, LIKELY, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV408",
    name="collective-order",
    severity=ERROR,
    confidence=LIKELY,
    since="0.1",
    summary=Text("ranks make different collective calls at the same point", "各 rank 在同一处调用不同的集合通信"),
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
            Text("ranks run {name}() in different orders", "各 rank 以不同顺序执行 {name}()", name=d.op.name)
            if d.why
            else Text(
                "{who} run {name}() where the others run another call",
                "{who} 执行 {name}()，而其他 rank 执行另一个调用",
                who=d.runner,
                name=d.op.name,
            ),
            function=d.place,
            severity=d.severity,
            confidence=d.confidence,
            help=Text(
                "let every rank make the same calls in the same order; sort names before looping over them",
                "让每个 rank 以相同顺序做相同调用；遍历名称前先排序",
            ),
            notes=[note_at(project, m, pos, text, chain=True) for m, pos, text in d.places()],
            trace=d.rows,
        )
