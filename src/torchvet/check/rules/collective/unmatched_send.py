"""A send nobody receives, a ring in which all send first, an asynchronous call that nothing waits for."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV414",
    name="unmatched-send",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text("a send without a receiver, or a handle never waited for", "没有接收方的 send，或从未等待的句柄"),
)

SAID = {
    "dropped": (
        Text(
            "nothing waits for this {name}: its tensor is used while the transfer may still run",
            "没有任何代码等待此 {name}：传输可能仍在进行时其张量已被使用",
        ),
        Text("keep the handle and call wait() before the tensor is used", "保存句柄，并在使用张量之前调用 wait()"),
    ),
    "alone": (
        Text("no rank has the other half of this {name}", "没有任何 rank 执行此 {name} 的另一半"),
        Text(
            "give every send a recv on the rank it names, and the reverse",
            "为每个 send 在其目标 rank 上配一个 recv，反之亦然",
        ),
    ),
    "order": (
        Text(
            "every rank that comes here sends before it receives: each waits for the next one to receive",
            "到达这里的每个 rank 都先发送后接收：各自等待下一个 rank 接收",
        ),
        Text(
            "let even ranks send first and odd ranks receive first, or use batch_isend_irecv",
            "让偶数 rank 先发送、奇数 rank 先接收，或使用 batch_isend_irecv",
        ),
    ),
}  # fmt: skip


@RULE.asking("ranks.unmatched")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for u in answers:
        message, help = SAID[u.kind]
        notes = []
        if u.other:
            notes.append(note_at(project, u.module, u.other, Text("received only here", "在这里才接收")))
        yield RULE.at(
            project,
            u.module,
            u.pos,
            Text(message.en, message.zh, name=u.name),
            function=u.function,
            help=help,
            notes=notes,
        )
