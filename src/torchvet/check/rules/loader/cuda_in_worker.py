"""Tensors made on the GPU inside a loader worker."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV209",
    name="cuda-in-worker",
    severity=ERROR,
    since="0.1",
    summary=Text("CUDA tensors made in a loader worker", "在 DataLoader worker 中创建 CUDA 张量"),
)


@RULE.asking("settings.in_workers.on_gpu")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader = found.loader
        yield RULE.at(
            project,
            found.function.module,
            found.pos,
            Text("a forked loader worker uses CUDA here", "fork 出的 worker 在此使用 CUDA"),
            function=found.function,
            help=Text(
                "keep items and batches on the CPU; move the batch in the training loop",
                "样本和批次留在 CPU 上；在训练循环中移动批次",
            ),
            notes=[
                note_at(project, loader.module, loader.pos, Text("this loader has workers", "该 DataLoader 有 worker"))
            ],
        )
