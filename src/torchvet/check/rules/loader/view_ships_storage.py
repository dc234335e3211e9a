"""Items that are views of one tensor, sent by workers without a copy: the whole tensor goes along."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV213",
    name="view-ships-storage",
    severity=WARNING,
    since="0.1",
    summary=Text("a view of a large tensor sent from a worker", "worker 发送大张量的视图"),
)


@RULE.asking("settings.storage.views")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for held in answers:
        loader = held.loader
        yield RULE.at(
            project,
            held.function.module,
            held.pos,
            Text(
                "a view of self.{name}: every worker puts the whole tensor into shared memory",
                "self.{name} 的视图：每个 worker 都会把整个张量放入共享内存",
                name=held.attribute,
            ),
            function=held.function,
            help=Text("return a copy: .clone()", "返回拷贝：.clone()"),
            notes=[
                note_at(project, held.use_function.module, held.use[1], Text("the tensor", "该张量")),
                note_at(project, loader.module, loader.pos, Text("sent without a copy", "未经拷贝即发送")),
            ],
        )
