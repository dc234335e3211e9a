"""A rank counted inside a group is given where a rank of the world is expected, or each rank names another one."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV410",
    name="wrong-source-rank",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "ranks name different sources, or a rank inside a group as if it were global",
        "各 rank 指定了不同的源，或把组内 rank 当作全局 rank",
    ),
)


@RULE.asking("ranks.wrong_sources")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for module, pos, function, name, rank in answers:
        if not rank:
            yield RULE.at(
                project,
                module,
                pos,
                Text(
                    "each rank names another one as the source or destination of {name}()",
                    "各 rank 为 {name}() 指定了不同的源或目标",
                    name=name,
                ),
                function=function,
                help=Text("name one rank, the same on all: 0", "在所有 rank 上指定同一个 rank：0"),
            )
            continue
        yield RULE.at(
            project,
            module,
            pos,
            Text(
                "{name}() takes a global rank, but {rank} counts inside the group",
                "{name}() 需要全局 rank，而 {rank} 是组内编号",
                name=name,
                rank=rank,
            ),
            function=function,
            help=Text(
                "use dist.get_global_rank(group, rank), or the group_src argument",
                "使用 dist.get_global_rank(group, rank)，或 group_src 参数",
            ),
        )
