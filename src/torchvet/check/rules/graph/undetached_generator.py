"""A discriminator step whose backward also runs through the generator."""

from __future__ import annotations

from .._api import NOTE, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV110",
    name="undetached-generator",
    severity=NOTE,
    since="0.1",
    words=("backward",),
    summary=Text("a discriminator step also runs backward through the generator", "判别器训练步的反向传播也经过生成器"),
)


@RULE.asking("steps.generators.found")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "the step of {discriminator} also computes gradients of {generator} through {sample}",
                "{discriminator} 的训练步也通过 {sample} 计算 {generator} 的梯度",
                discriminator=found.discriminator,
                generator=found.generator,
                sample=found.sample,
            ),
            function=found.function,
            help=Text(
                "in this step only: {discriminator}({sample}.detach())",
                "仅在这一步写成 {discriminator}({sample}.detach())",
                discriminator=found.discriminator,
                sample=found.sample,
            ),
            notes=[
                note_at(project, found.module, found.made_at, Text("the generator runs here", "生成器在此运行")),
                note_at(project, found.module, found.back_at, Text("backward runs here", "在此反向传播")),
            ],
        )
