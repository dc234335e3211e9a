"""The rank in the whole job used as the number of a GPU."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV311",
    name="global-rank-as-device",
    severity=ERROR,
    since="0.1",
    summary=Text("the global rank used as a device number", "把全局 rank 当作设备编号"),
)


@RULE.asking("wrapping.processes.global_ranks")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for site in answers:
        yield RULE.at(
            project,
            site.module,
            site.pos,
            Text(
                "the rank of the whole job chooses the GPU: fails on the second node",
                "用整个作业的 rank 选择 GPU：在第二个节点上失败",
            ),
            function=site.function,
            help=Text(
                'use int(os.environ["LOCAL_RANK"]), or rank % torch.cuda.device_count()',
                '使用 int(os.environ["LOCAL_RANK"])，或 rank % torch.cuda.device_count()',
            ),
        )
