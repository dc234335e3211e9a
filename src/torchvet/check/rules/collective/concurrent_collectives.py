"""Two threads of one process run collectives on the same group."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV421",
    name="concurrent-collectives",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("two threads run collectives on the same group", "两个线程在同一通信组上做集合通信"),
)


@RULE.asking("ranks.concurrent")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for c in answers:
        yield RULE.at(
            project,
            c.module,
            c.pos,
            Text(
                "{name}() here and {theirs}() of the thread use one group: their order differs from rank to rank",
                "此处的 {name}() 与线程中的 {theirs}() 使用同一通信组：两者的顺序因 rank 而异",
                name=c.name,
                theirs=c.theirs,
            ),
            function=c.function,
            help=Text(
                "give the thread a group of its own (dist.new_group()), or join it first",
                "给线程单独的通信组（dist.new_group()），或先 join 线程",
            ),
            notes=[
                note_at(project, c.module, c.start, Text("the thread is started here", "线程在这里启动"), chain=True),
                note_at(project, c.their_module, c.their_pos, Text("its collective", "它的集合通信"), chain=True),
            ],
        )
