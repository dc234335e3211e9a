"""A list of Python objects that many workers read: each copies its pages."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV212",
    name="object-list-dataset",
    severity=NOTE,
    since="0.1",
    summary=Text("a list of Python objects copied by many workers", "被许多 worker 复制的 Python 对象列表"),
)


@RULE.asking("settings.storage.lists")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for held in answers:
        loader = held.loader
        yield RULE.at(
            project,
            held.function.module,
            held.pos,
            Text(
                "each of {n} workers copies the pages of self.{name} that it reads",
                "{n} 个 worker 各自复制读到的 self.{name} 内存页",
                n=held.workers,
                name=held.attribute,
            ),
            function=held.function,
            help=Text(
                "where it is large, keep one array (numpy, pyarrow) of packed items",
                "数据很大时，改为保存打包后的数组（numpy、pyarrow）",
            ),
            notes=[
                note_at(project, held.use_function.module, held.use[1], Text("read here", "在此读取")),
                note_at(project, loader.module, loader.pos, Text("by its workers", "由它的 worker 读取")),
            ],
        )
