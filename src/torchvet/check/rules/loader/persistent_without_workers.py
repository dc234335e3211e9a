"""persistent_workers or prefetch_factor where the number of workers is 0."""

from __future__ import annotations

from .._api import CERTAIN, ERROR, LIKELY, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV217",
    name="persistent-without-workers",
    severity=ERROR,
    since="0.1",
    summary=Text(
        "persistent_workers or prefetch_factor without workers",
        "没有 worker 却设置 persistent_workers 或 prefetch_factor",
    ),
)


@RULE.asking("settings.conflicts.needs_workers")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for c in answers:
        loader, place = c.loader, c.place
        notes = []
        at_loader = place is None or (place.origin.frame.module is loader.module and loader.spans(place.pos))
        if not at_loader and place is not None:
            where = place.origin.frame.module
            notes.append(note_at(project, where, place.pos, Text("num_workers is 0 here", "num_workers 在此为 0")))
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "DataLoader raises ValueError: {name}={value} needs num_workers > 0"
                if c.sure
                else "{name}={value} raises ValueError where num_workers keeps its default 0",
                "DataLoader 抛出 ValueError：{name}={value} 要求 num_workers > 0"
                if c.sure
                else "num_workers 保持默认值 0 时，{name}={value} 会抛出 ValueError",
                name=c.first,
                value=c.value,
            ),
            function=loader.function,
            severity=ERROR if c.sure else WARNING,
            confidence=CERTAIN if c.sure else LIKELY,
            help=Text("write persistent_workers=num_workers > 0", "写成 persistent_workers=num_workers > 0")
            if c.first == "persistent_workers"
            else Text("pass it only with workers", "仅在有 worker 时传入"),
            notes=notes,
        )
