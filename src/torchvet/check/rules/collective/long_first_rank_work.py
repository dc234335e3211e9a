"""The first rank works while the others wait under a time-out."""

from __future__ import annotations

from .._api import LIKELY, NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV416",
    name="long-first-rank-work",
    severity=NOTE,
    confidence=LIKELY,
    since="0.1",
    summary=Text("the others may time out while the first rank works", "首个 rank 工作时其他 rank 可能等待超时"),
)


@RULE.asking("ranks.long_work")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for w in answers:
        yield RULE.at(
            project,
            w.module,
            w.pos,
            Text(
                "the other ranks wait for {name}() under a time-out of {seconds} seconds",
                "其他 rank 等待 {name}()，超时只有 {seconds} 秒",
                name=w.name,
                seconds=w.seconds,
            )
            if w.seconds
            else Text(
                "the other ranks wait for {name}() under the default time-out (10 minutes with NCCL)",
                "其他 rank 等待 {name}()，使用默认超时（NCCL 为 10 分钟）",
                name=w.name,
            ),
            function=w.function,
            help=Text(
                "do it in a step of its own before training, or raise the time-out of the process group",
                "在训练之前单独完成这一步，或调大进程组的超时",
            ),
            notes=[note_at(project, w.module, w.wait, Text("the others wait here", "其他 rank 在这里等待"))],
        )
