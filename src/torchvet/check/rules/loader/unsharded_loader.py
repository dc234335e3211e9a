"""A DDP model trained from a loader that gives every rank the whole dataset."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV207",
    name="unsharded-loader",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "DDP trained from a loader without a distributed sampler", "DDP 使用没有分布式采样器的 DataLoader 训练"
    ),
)


@RULE.asking("unsharded")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader, wrap, forward = found.loader, found.wrap, found.forward
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "every rank trains on the whole dataset: the loader does not share it out",
                "每个 rank 都在整个数据集上训练：DataLoader 没有分片",
            ),
            function=loader.function,
            help=Text("pass sampler=DistributedSampler(dataset)", "传入 sampler=DistributedSampler(dataset)"),
            notes=[
                note_at(project, wrap.function.module, wrap.pos, Text("wrapped by DDP", "由 DDP 包装")),
                note_at(project, forward.function.module, forward.pos, Text("trained here", "在此训练")),
            ],
        )
