"""A training step that waits for the accelerator to bring a number to the host."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV121",
    name="synchronise-every-step",
    severity=NOTE,
    since="0.1",
    words=("backward",),
    summary=Text("every training step waits for the accelerator", "每个训练步都等待加速器"),
)


@RULE.asking("steps.waits.found")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        notes = []
        if found.use == "logged":
            message = Text(
                "every step waits for a number that is read every n steps", "每一步都等待一个每 n 步才读取的数值"
            )
            help = Text("keep it detached, and call .item() where it is read", "保留 detach 的值，读取时再调用 .item()")
            notes.append(note_at(project, found.module, found.other, Text("read here", "在这里读取")))
        elif found.use == "printed":
            message = Text("every step waits for the accelerator to print a number", "每一步都等待加速器以打印数值")
            help = Text("print every n steps", "每 n 步打印一次")
        else:
            message = Text("every step waits on both sides of a backward", "每一步在反向传播前后都等待加速器")
            help = Text("keep it detached, and call .item() after the step", "保留 detach 的值，训练步之后再取值")
            notes.append(note_at(project, found.module, found.other, Text("the backward", "反向传播")))
        notes += [note_at(project, found.module, pos, Text("and here", "这里也等待")) for pos in found.others]
        yield RULE.at(project, found.module, found.pos, message, function=found.function, help=help, notes=notes)
