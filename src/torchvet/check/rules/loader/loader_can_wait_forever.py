"""A loader of one of several ranks whose failed batches leave no trace: it waits for ever."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV215",
    name="loader-can-wait-forever",
    severity=NOTE,
    since="0.1",
    summary=Text("a loader that waits for ever when shared memory is full", "共享内存不足时会永远等待的 DataLoader"),
)


@RULE.asking("settings.life.waits")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader, made = found.loader, found.collate
        notes = []
        if made is not None:
            notes.append(note_at(project, made.module, made.pos, Text("makes the batches", "在此生成批次")))
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "no timeout: when shared memory is full, this rank waits for ever and stops all others",
                "没有 timeout：共享内存不足时，该 rank 会永远等待并拖住其他 rank",
            ),
            function=loader.function,
            help=Text("pass timeout=600 (seconds)", "传入 timeout=600（秒）"),
            notes=notes,
        )
