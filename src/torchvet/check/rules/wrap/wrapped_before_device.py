"""DDP around a model that is not on its GPU yet."""

from __future__ import annotations

from .._api import ERROR, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV301",
    name="wrapped-before-device",
    severity=ERROR,
    since="0.1",
    summary=Text("a model wrapped by DDP before it is moved to its device", "模型在移到设备之前就被 DDP 包装"),
    fixable="unsafe",
)


@RULE.asking("wrapping.early")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for early in answers:
        wrap, moved = early.wrap, early.moved
        edits = project.wrapping.before_wrap(wrap, moved) if moved is not None else None
        if moved is not None:
            message = Text("the model is wrapped before it is on its device", "模型在移到设备之前就被包装")
            notes = [note_at(project, moved.function.module, moved.pos, Text("it is moved only here", "在这里才移动"))]
        else:
            message = Text(
                "DDP is given device_ids for a model that is still on the CPU",
                "模型仍在 CPU 上，DDP 却指定了 device_ids",
            )
            notes = []
        yield RULE.at(
            project,
            wrap.function.module,
            wrap.pos,
            message,
            function=wrap.function,
            help=Text("move first, then wrap: DDP(model.to(device), …)", "先移动再包装：DDP(model.to(device), …)"),
            notes=notes,
            fix=Fix(Text("move before wrapping", "在包装之前移动"), [Edit(*e) for e in edits], safe=False)
            if edits
            else None,
        )
