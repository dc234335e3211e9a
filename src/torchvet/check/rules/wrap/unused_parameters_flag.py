"""find_unused_parameters=True around a model that uses every parameter."""

from __future__ import annotations

from .._api import NOTE, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV309",
    name="unused-parameters-flag",
    severity=NOTE,
    since="0.1",
    summary=Text(
        "find_unused_parameters=True where every parameter is used",
        "所有参数都被使用却查找未使用的参数",
    ),
    fixable="unsafe",
)


@RULE.asking("wrapping.parameters.needless")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for wrap, flag in answers:
        cls = wrap.model.cls
        line, column, end_line, end_column = project.program.span(wrap.function.module, flag[1])
        yield RULE.at(
            project,
            wrap.function.module,
            flag[1],
            Text(
                "{name} uses every parameter in each forward: the search for unused ones is wasted",
                "{name} 的每次前向都使用所有参数：查找未使用参数是多余的",
                name=cls.name,
            ),
            function=wrap.function,
            help=Text("leave it False, the default", "保持默认值 False"),
            notes=[note_at(project, cls.module, cls.methods["forward"].pos, Text("its one way", "唯一的前向路径"))],
            fix=Fix(Text("write False", "改为 False"), [Edit(line, column, end_line, end_column, "False")], safe=False),
        )
