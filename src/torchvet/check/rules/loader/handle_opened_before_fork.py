"""A file or connection that a dataset opens in its constructor and its workers use."""

from __future__ import annotations

from .._api import ERROR, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV208",
    name="handle-opened-before-fork",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "a handle opened in a dataset's constructor and used by its workers",
        "数据集构造函数中打开、由 worker 使用的句柄",
    ),
)


@RULE.asking("settings.handles.carried")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for handle in answers:
        notes = [
            note_at(
                project, handle.use_function.module, handle.use[1], Text("a worker uses it here", "worker 在此使用")
            )
        ]
        if handle.loader is not None:
            text = Text("this loader forks the workers", "该 DataLoader 派生 worker")
            notes.append(note_at(project, handle.loader.module, handle.loader.pos, text))
        yield RULE.at(
            project,
            handle.function.module,
            handle.pos,
            Text(
                "self.{name} is opened before the workers start and shared by all of them",
                "self.{name} 在 worker 启动前打开，被所有 worker 共用",
                name=handle.attribute,
            ),
            function=handle.function,
            help=Text(
                "open it on first use in the worker: if self.{name} is None: self.{name} = {opener}(…)",
                "在 worker 中首次使用时打开：if self.{name} is None: self.{name} = {opener}(…)",
                name=handle.attribute,
                opener=handle.opener,
            ),
            notes=notes,
        )
