"""A fixed number of workers above the limit for one rank."""

from __future__ import annotations

from .._api import NOTE, WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...flow.settings import Place
    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV202",
    name="too-many-workers",
    severity=WARNING,
    since="0.1",
    summary=Text("more DataLoader workers than one rank should start", "单个 rank 启动的 DataLoader worker 过多"),
)


@RULE.asking("workers_over_limit")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    limit = project.options.max_workers
    help = Text(
        "start with 4 and measure (torchvet tune); max-workers sets the limit",
        "从 4 开始并测量（torchvet tune）；上限由 max-workers 设置",
    )
    for place in answers:
        if not hasattr(place, "loaders"):
            yield RULE.at(
                project,
                place.module,
                place.pos,
                Text(
                    "{head} gives each rank {n} loader workers; {limit} are allowed",
                    "{head} 给每个 rank {n} 个 DataLoader worker；允许 {limit} 个",
                    head=place.head,
                    n=place.number,
                    limit=limit,
                ),
                severity=WARNING if place.number > 2 * limit else NOTE,  # chosen for this job, not a default
                help=help,
            )
            continue
        if project.settings.only_prepare_data(place.loaders):
            continue
        others = [x for x in place.loaders if x.module is not place.module or not x.spans(place.pos)]
        notes = [
            note_at(project, x.module, x.pos, Text("this loader starts them", "该 DataLoader 启动这些 worker"))
            for x in others[:3]
        ]
        if place.source is not None:
            notes.insert(0, note_at(project, *place.source, Text("set here", "在此设置")))
        yield RULE.at(
            project,
            place.module,
            place.pos,
            said(place, limit),
            function=place.function,
            severity=WARNING if place.value.value > limit + limit // 2 else NOTE,
            help=help,
            notes=notes,
        )


def said(place: Place, limit: int) -> Text:
    value = place.value
    if value.in_file:
        return Text(
            "num_workers is {n} in {file}; {limit} for each rank are allowed",
            "num_workers 在 {file} 中为 {n}；每个 rank 允许 {limit} 个",
            n=value.value,
            file=value.in_file,
            limit=limit,
        )
    return Text(
        "num_workers is {n} by default; {limit} for each rank are allowed"
        if value.via
        else "num_workers is {n}; {limit} for each rank are allowed",
        "num_workers 默认为 {n}；每个 rank 允许 {limit} 个"
        if value.via
        else "num_workers 为 {n}；每个 rank 允许 {limit} 个",
        n=value.value,
        limit=limit,
    )
