"""Fewer CPUs than loader workers."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV614",
    name="workers-over-cpu-quota",
    severity=WARNING,
    since="0.1",
    summary=Text("fewer CPUs than the loader workers of all ranks", "CPU 数少于各 rank 的 DataLoader worker 总数"),
)


@RULE.asking("deploy.steps.crowded")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{cpus} CPUs for {ranks} ranks with {workers} loader workers each",
                "{cpus} 个 CPU 要运行 {ranks} 个 rank，每个 rank 有 {workers} 个 worker",
                cpus=found.shown(),
                ranks=found.tasks,
                workers=found.workers,
            ),
            help=Text(
                "a quota does not show in os.cpu_count(): give {need} CPUs, or lower num_workers to {fit}",
                "配额不会反映在 os.cpu_count() 中：请给 {need} 个 CPU，或把 num_workers 降到 {fit}",
                need=found.tasks * (found.workers + 1),
                fit=found.fitting(),
            ),
        )
