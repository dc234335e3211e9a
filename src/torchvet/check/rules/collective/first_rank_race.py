"""Rank 0 writes or deletes a file that the others use, and nothing makes one wait for the other."""

from __future__ import annotations

from .._api import LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV411",
    name="first-rank-race",
    severity=WARNING,
    confidence=LIKELY,
    since="0.1",
    summary=Text(
        "rank 0 writes or deletes a file that others use, without a barrier",
        "rank 0 写入或删除他人使用的文件而无 barrier",
    ),
)

SAID = {
    "read": (
        Text(
            "the other ranks may come here before rank 0 has written it: no barrier in between",
            "其他 rank 可能在 rank 0 写完之前到达这里：两者之间没有 barrier",
        ),
        Text("rank 0 alone writes it here", "只有 rank 0 在这里写入"),
        Text("put a barrier() between the write and this line", "在写入与此行之间加入 barrier()"),
    ),
    "missing": (
        Text(
            "the other ranks may write here before rank 0 has made the folder: no barrier in between",
            "其他 rank 可能在 rank 0 建好目录之前写到这里：两者之间没有 barrier",
        ),
        Text("rank 0 alone makes the folder here", "只有 rank 0 在这里创建目录"),
        Text(
            "let every rank call makedirs(..., exist_ok=True), or put a barrier() behind it",
            "让每个 rank 都调用 makedirs(..., exist_ok=True)，或在其后加入 barrier()",
        ),
    ),
    "deleted": (
        Text(
            "rank 0 deletes it while other ranks may not have read it yet: no barrier in between",
            "rank 0 删除它时其他 rank 可能还没有读取：两者之间没有 barrier",
        ),
        Text("every rank reads it here", "每个 rank 都在这里读取"),
        Text("put a barrier() before it is deleted", "在删除之前加入 barrier()"),
    ),
    "dead": (
        Text(
            "this barrier never runs: {name} is a function here, so the test is always false",
            "这个 barrier 从不执行：{name} 在此是函数，该判断恒为假",
        ),
        Text("the function", "该函数"),
        Text("test the parameter that was meant", "改为判断真正要用的参数"),
    ),
    "polled": (
        Text(
            "each rank asks for this file by itself: one sees it a turn before the others and leaves the loop alone",
            "每个 rank 各自查询此文件：某个 rank 会比其他 rank 早一轮看到并独自离开循环",
        ),
        Text("asked here", "在这里查询"),
        Text(
            "ask on rank 0 and broadcast the answer, then let every rank leave",
            "在 rank 0 上查询并广播结果，再让所有 rank 一起离开",
        ),
    ),
    "cleared": (
        Text(
            "rank 0 may still delete what the other ranks write here: no barrier in between",
            "rank 0 可能把其他 rank 在这里写的内容删掉：两者之间没有 barrier",
        ),
        Text("rank 0 alone deletes it here", "只有 rank 0 在这里删除"),
        Text("put a barrier() between the two lines", "在这两行之间加入 barrier()"),
    ),
}


@RULE.asking("ranks.races")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for race in answers:
        message, where, help = SAID[race.kind]
        if race.kind == "dead":
            message = Text(message.en, message.zh, name=race.name)
        yield RULE.at(
            project,
            race.module,
            race.second,
            message,
            function=race.function,
            help=help,
            notes=[note_at(project, race.module, race.first, where)],
        )
