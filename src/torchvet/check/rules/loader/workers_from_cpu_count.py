"""num_workers taken from the CPU count of the host: every rank of the node starts that many."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV201",
    name="workers-from-cpu-count",
    severity=WARNING,
    since="0.1",
    summary=Text("num_workers taken from the CPU count of the host", "num_workers 取自主机的 CPU 数"),
)


@RULE.asking("settings.from_cpu_count")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for place in answers:
        if project.settings.only_prepare_data(place.loaders):
            continue
        others = [x for x in place.loaders if x.module is not place.module or not x.spans(place.pos)]
        yield RULE.at(
            project,
            place.module,
            place.pos,
            Text(
                "num_workers follows the CPU count of the host, not the CPUs of this rank",
                "num_workers 取自主机的 CPU 数，而不是本 rank 可用的 CPU 数",
            ),
            function=place.function,
            help=Text(
                "share the CPUs out and set a limit: min(8, len(os.sched_getaffinity(0)) // ranks_on_this_node)",
                "按节点上的 rank 数分配并设上限：min(8, len(os.sched_getaffinity(0)) // 本节点 rank 数)",
            ),
            notes=[
                note_at(project, x.module, x.pos, Text("this loader starts them", "该 DataLoader 启动这些 worker"))
                for x in others[:3]
            ],
        )
