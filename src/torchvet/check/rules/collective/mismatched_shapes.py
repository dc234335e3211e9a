"""A collective over tensors whose length follows from each rank's own data."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV417",
    name="mismatched-shapes",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("a collective over tensors of another length on each rank", "对各 rank 长度不同的张量做集合通信"),
)


@RULE.asking("ranks.ragged")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for ragged in answers:
        yield RULE.at(
            project,
            ragged.module,
            ragged.pos,
            Text(
                "{name}() needs the same shape on every rank; how long this tensor is follows from the rank's own data",
                "{name}() 要求各 rank 的形状相同；而此张量的长度取决于本 rank 的数据",
                name=ragged.name,
            ),
            function=ragged.function,
            help=Text(
                "pad to the longest first (all_reduce the length with MAX; pad_across_processes), or reduce to numbers",
                "先填充到最长（对长度做 MAX all_reduce，或 pad_across_processes），或先归约成数值",
            ),
            notes=[note_at(project, ragged.module, ragged.made, Text("chosen by content here", "在这里按内容选取"))],
        )
