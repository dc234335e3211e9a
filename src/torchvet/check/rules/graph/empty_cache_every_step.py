"""The allocator's cache emptied in every training step."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV122",
    name="empty-cache-every-step",
    severity=WARNING,
    since="0.1",
    words=("empty_cache",),
    summary=Text("empty_cache() in every training step", "每个训练步都调用 empty_cache()"),
)


@RULE.asking("graphs.emptied")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        notes = []
        if found.other:
            notes.append(note_at(project, *found.other, Text("the step", "训练步")))
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{name}() in every step gives memory back that the next step asks for again",
                "{name}() 每步都把下一步还要用的显存还给驱动",
                name=found.name.rpartition(".")[2],
            ),
            function=found.function,
            help=Text(
                "against fragmentation: PYTORCH_ALLOC_CONF=expandable_segments:True",
                "碎片问题请用 PYTORCH_ALLOC_CONF=expandable_segments:True",
            ),
            notes=notes,
        )
