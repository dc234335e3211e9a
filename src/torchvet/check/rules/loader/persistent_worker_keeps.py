"""A dataset that fills a container in item access, read by persistent workers."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV205",
    name="persistent-worker-keeps",
    severity=WARNING,
    since="0.1",
    summary=Text("a dataset cache that grows in every persistent worker", "在每个常驻 worker 中增长的数据集缓存"),
)


@RULE.asking("settings.in_workers.growing")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader = found.loader
        yield RULE.at(
            project,
            found.function.module,
            found.pos,
            Text(
                "self.{name} grows in every worker for as long as the loader lives",
                "self.{name} 在每个 worker 中增长，直到 DataLoader 结束",
                name=found.name,
            ),
            function=found.function,
            help=Text(
                "bound it, fill it before the workers start, or share it (memory map, /dev/shm)",
                "设上限、在 worker 启动前填充，或共享（内存映射、/dev/shm）",
            ),
            notes=[note_at(project, loader.module, loader.pos, Text("its workers are persistent", "其 worker 常驻"))],
        )
