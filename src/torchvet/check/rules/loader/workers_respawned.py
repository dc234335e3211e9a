"""Workers that are started again in every one of many epochs."""

from __future__ import annotations

from .._api import NOTE, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV204",
    name="workers-respawned",
    severity=NOTE,
    since="0.1",
    summary=Text("workers started again in each of many epochs", "每个 epoch 都重新启动 worker"),
    fixable="unsafe",
)


@RULE.asking("settings.life.respawned")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader = found.loader
        last = [*loader.call[3], *(v for _, v in loader.call[4])][-1]
        _, _, line, column = project.program.span(loader.module, last[1])
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "{n} workers start and import everything again in every epoch",
                "每个 epoch 都重新启动 {n} 个 worker 并重新导入所有模块",
                n=found.workers,
            )
            if found.fresh
            else Text(
                "{n} workers start again in each of {epochs} epochs",
                "{epochs} 个 epoch 中每次都重新启动 {n} 个 worker",
                n=found.workers,
                epochs=found.epochs,
            ),
            function=loader.function,
            help=Text("pass persistent_workers=True", "传入 persistent_workers=True"),
            notes=[note_at(project, found.function.module, found.loop[3][1], Text("the epochs", "epoch 循环"))],
            fix=Fix(
                Text("add persistent_workers=True", "添加 persistent_workers=True"),
                [Edit(line, column, line, column, ", persistent_workers=True")],
                safe=False,
            ),
        )
