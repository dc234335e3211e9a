"""pin_memory=True where it does nothing, or where it fails."""

from __future__ import annotations

from .._api import NOTE, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV203",
    name="pin-memory-always",
    severity=WARNING,
    since="0.1",
    summary=Text("pin_memory=True where it fails or does nothing", "pin_memory=True 会出错或不起作用"),
)


@RULE.asking("settings.use.pinned")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    use = project.settings.use
    for found in use.pinned_on_gpu(answers):
        loader = found.loader
        where = found.function.module
        yield RULE.at(
            project,
            loader.module,
            loader.argument_pos("pin_memory"),
            Text(
                "only CPU tensors can be pinned, but the items are made on the GPU",
                "只有 CPU 张量可以锁页，但样本是在 GPU 上创建的",
            ),
            function=loader.function,
            help=Text("drop pin_memory, or keep the items on the CPU", "去掉 pin_memory，或让样本留在 CPU 上"),
            notes=[note_at(project, where, found.pos, Text("made on the GPU here", "在此于 GPU 上创建"))],
        )
    for loader in use.pinned_on_cpu(answers):
        yield RULE.at(
            project,
            loader.module,
            loader.argument_pos("pin_memory"),
            Text(
                "pin_memory=True does nothing: no batch of this program goes to an accelerator",
                "pin_memory=True 不起作用：该程序没有批次送往加速器",
            ),
            function=loader.function,
            severity=NOTE,
            help=Text("write pin_memory=torch.cuda.is_available()", "写成 pin_memory=torch.cuda.is_available()"),
        )
