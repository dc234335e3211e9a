"""A loop with collectives turns more often on some ranks than on others."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._api import Divergence

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


@RULE.divergence
def say(d: Divergence) -> tuple[Text, Text]:
    message = Text(
        "each rank loops over its own share, and every turn runs {name}()",
        "每个 rank 遍历自己的分片，而每一轮都执行 {name}()",
        name=d.op.name,
    )
    return message, Text(
        "pad or cut the shares to one length (DistributedSampler, drop_last), or use Join",
        "把各分片补齐或截断到相同长度（DistributedSampler、drop_last），或使用 Join",
    )
