"""SyncBatchNorm conversion of a model that DDP has wrapped already."""

from __future__ import annotations

from .._api import ERROR, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV307",
    name="sync-batchnorm-too-late",
    severity=ERROR,
    since="0.1",
    summary=Text("SyncBatchNorm conversion after DDP has wrapped the model", "DDP 包装之后才转换 SyncBatchNorm"),
    fixable="unsafe",
)


@RULE.asking("wrapping.late_conversions")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        wrap, conversion = order.first, order.second
        edits = project.wrapping.before_wrap(wrap, conversion)
        yield RULE.at(
            project,
            conversion.function.module,
            conversion.pos,
            Text(
                "BatchNorm layers are replaced after DDP has taken their parameters",
                "DDP 已登记参数之后才替换 BatchNorm 层",
            ),
            function=conversion.function,
            help=Text("move, convert, then wrap", "先移动，再转换，最后包装"),
            notes=[note_at(project, wrap.function.module, wrap.pos, Text("wrapped here", "在此包装"))],
            fix=Fix(Text("convert before wrapping", "在包装之前转换"), [Edit(*e) for e in edits], safe=False)
            if edits
            else None,
        )
