"""A DistributedSampler that shuffles, several epochs of training, and no set_epoch."""

from __future__ import annotations

from .._api import WARNING, Edit, Fix, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV206",
    name="sampler-epoch-not-set",
    severity=WARNING,
    since="0.1",
    summary=Text("a shuffling distributed sampler that never learns the epoch", "会打乱的分布式采样器从未得到 epoch"),
    fixable="unsafe",
)


@RULE.asking("settings.samplers.stale")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for sampler, epochs in answers:
        notes = []
        if epochs.outer is not None and epochs.outer_function is not None:
            notes.append(
                note_at(
                    project,
                    epochs.outer_function.module,
                    header(epochs.outer),
                    Text("every round takes the samples in the same order", "每一轮的样本顺序都相同"),
                )
            )
        else:
            notes.append(
                note_at(
                    project,
                    epochs.function.module,
                    header(epochs.loop),
                    Text("the loader is restarted here, in the same order", "此处重新迭代，顺序不变"),
                )
            )
        module, pos, function = sampler.module, sampler.pos, sampler.function
        if epochs.user is not None:
            call, function = epochs.user
            module, pos = function.module, call[1]
            notes.append(note_at(project, sampler.module, sampler.pos, Text("its sampler", "它的采样器")))
        yield RULE.at(
            project,
            module,
            pos,
            Text(
                "set_epoch is never called: every epoch repeats the same order",
                "从未调用 set_epoch：每个 epoch 的顺序都相同",
            ),
            function=function,
            help=Text(
                "call set_epoch(epoch) on the sampler before each epoch",
                "每个 epoch 开始前对采样器调用 set_epoch(epoch)",
            ),
            notes=notes,
            fix=fix_of(project, sampler, epochs),
        )


def header(statement: tuple) -> int:  # type: ignore[type-arg]
    """The first line of a loop: what it runs over; for another statement all of it."""
    at = statement[3] if statement[0] == "for" else statement[2] if statement[0] == "while" else statement
    return at[1]  # type: ignore[no-any-return]


def fix_of(project: Project, sampler: object, epochs: object) -> Fix | None:
    place = project.settings.samplers.insertion(sampler, epochs)  # type: ignore[arg-type]
    if place is None:
        return None
    line, column, text = place
    return Fix(
        Text("call {text} in the epoch loop", "在 epoch 循环中调用 {text}", text=text.strip()),
        [Edit(line, column, line, column, text)],
        safe=False,
    )
