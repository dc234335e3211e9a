"""torch's clip_grad_norm_ on the shards of an FSDP1 model."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV308",
    name="clip-grad-on-shards",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "torch.nn.utils.clip_grad_norm_ on an FSDP1 model", "对 FSDP1 模型使用 torch.nn.utils.clip_grad_norm_"
    ),
)


@RULE.asking("wrapping.shard_clips")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for order in answers:
        wrap, clip = order.first, order.second
        yield RULE.at(
            project,
            clip.function.module,
            clip.pos,
            Text("each rank clips by the norm of its own shard", "每个 rank 只按自己分片的范数裁剪"),
            function=clip.function,
            help=Text("call model.clip_grad_norm_(max_norm)", "调用 model.clip_grad_norm_(max_norm)"),
            notes=[note_at(project, wrap.function.module, wrap.pos, Text("sharded by FSDP here", "在此由 FSDP 分片"))],
        )
