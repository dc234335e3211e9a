"""A loop with collectives turns more often on some ranks than on others."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="TV407",
    name="uneven-loop",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "a loop with collectives turns more often on some ranks than on others", "含集合通信的循环在各 rank 上次数不同"
    ),
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    for d in project.ranks.divergences():
        if d.fault != RULE.name:
            continue
        yield RULE.at(
            project,
            d.module,
            d.pos,
            Text(
                "each rank loops over its own share, and every turn runs {name}()",
                "每个 rank 遍历自己的分片，而每一轮都执行 {name}()",
                name=d.op.name,
            ),
            function=d.place,
            severity=d.severity,
            confidence=d.confidence,
            help=Text(
                "pad or cut the shares to one length (DistributedSampler, drop_last), or use Join",
                "把各分片补齐或截断到相同长度（DistributedSampler、drop_last），或使用 Join",
            ),
            notes=[note_at(project, m, pos, text, chain=True) for m, pos, text in d.places()],
            trace=d.rows,
        )
