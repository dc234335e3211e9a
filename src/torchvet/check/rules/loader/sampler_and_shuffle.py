"""Arguments of a DataLoader that exclude each other: the constructor raises."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV214",
    name="sampler-and-shuffle",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("DataLoader arguments that exclude each other", "DataLoader 的互斥参数"),
)


@RULE.asking("settings.conflicts.exclusive")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for c in answers:
        loader = c.loader
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "DataLoader raises ValueError: {first} and {second} exclude each other",
                "DataLoader 抛出 ValueError：{first} 与 {second} 互斥",
                first=c.first,
                second=c.second
                if c.second == "batch_size"
                else c.second + "=True"
                if c.second != "sampler"
                else "sampler",
            ),
            function=loader.function,
            help=Text(
                "the sampler decides the order: drop {second}, or give it to the sampler",
                "顺序由 sampler 决定：去掉 {second}，或把它交给 sampler",
                second=c.second,
            )
            if c.first == "sampler"
            else Text("drop {second}", "去掉 {second}", second=c.second),
        )
