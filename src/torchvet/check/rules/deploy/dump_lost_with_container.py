"""Dumps of the flight recorder in a folder that goes with the container."""

from __future__ import annotations

from .._api import NOTE, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV621",
    name="dump-lost-with-container",
    severity=NOTE,
    since="0.1",
    summary=Text(
        "flight recorder dumps in a folder that goes with the container", "飞行记录器转储写在会随容器消失的目录"
    ),
)


@RULE.asking("deploy.env.dumps")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "dumps go to {value}, which is on no volume: they are lost with the container",
                "转储写入 {value}，该路径不在卷上：会随容器一起丢失",
                value=found.value,
            ),
            severity=found.severity,
            help=Text("let {name} begin with a mounted folder", "请让 {name} 指向已挂载的目录", name=found.name),
        )
