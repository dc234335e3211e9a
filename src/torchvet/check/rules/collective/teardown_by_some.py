"""Some ranks take the process group down while others still use it."""

from __future__ import annotations

from .._api import LIKELY, NOTE, POSSIBLE, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV418",
    name="teardown-by-some",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("some ranks destroy the process group others still use", "部分 rank 销毁了其他 rank 仍在使用的进程组"),
)


@RULE.asking("ranks.teardowns")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for t in answers:
        some = t.kind == "some"
        notes = [note_at(project, t.module, t.guard, Text("some ranks only", "仅部分 rank"))] if t.guard else []
        notes.append(note_at(project, t.module, t.later, Text("the others communicate here", "其他 rank 在这里通信")))
        yield RULE.at(
            project,
            t.module,
            t.pos,
            Text(
                "some ranks take the process group down here while the others still communicate",
                "部分 rank 在这里销毁进程组，而其他 rank 仍在通信",
            )
            if some
            else Text(
                "a rank that fails comes here while the others may still communicate: with NCCL it can block",
                "出错的 rank 会到达这里，而其他 rank 可能仍在通信：使用 NCCL 时可能阻塞",
            ),
            function=t.function,
            severity=WARNING if some else NOTE,
            confidence=LIKELY if some else POSSIBLE,
            help=Text(
                "let every rank call destroy_process_group() once, after the last collective",
                "让每个 rank 在最后一次集合通信之后各调用一次 destroy_process_group()",
            )
            if some
            else Text(
                "destroy the group where the work ended well, and let a failed rank end with its error",
                "仅在正常结束时销毁进程组，让出错的 rank 带着错误退出",
            ),
            notes=notes,
        )
