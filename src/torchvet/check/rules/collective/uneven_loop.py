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
    if d.why == "keys":
        message = Text(
            "not every rank has the same keys, and every turn runs {name}()",
            "各 rank 的键不尽相同，而每一轮都执行 {name}()",
            name=d.op.name,
        )
        return message, Text(
            "give every rank the same keys (a zero where it has nothing), or reduce them in one tensor",
            "让每个 rank 拥有相同的键（没有数据时取零），或把它们放进一个张量再归约",
        )
    message = Text(
        "each rank loops over its own share, and every turn runs {name}()",
        "每个 rank 遍历自己的分片，而每一轮都执行 {name}()",
        name=d.op.name,
    )
    return message, Text(
        "pad or cut the shares to one length (DistributedSampler, drop_last), or use Join",
        "把各分片补齐或截断到相同长度（DistributedSampler、drop_last），或使用 Join",
    )
