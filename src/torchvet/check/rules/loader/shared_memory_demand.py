"""A loader whose batches need more shared memory than the project's containers have."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV216",
    name="shared-memory-demand",
    severity=WARNING,
    since="0.1",
    summary=Text("batches that do not fit into the container's shared memory", "批次放不进容器的共享内存"),
)


@RULE.asking("settings.over_shared_memory")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        loader, shm = found.loader, found.shm
        given = shown(shm.size)
        yield RULE.at(
            project,
            loader.module,
            loader.pos,
            Text(
                "its batches can take {need} of shared memory; the container has {given}",
                "批次最多占用 {need} 共享内存；容器只有 {given}",
                need=shown(found.need),
                given=given,
            ),
            function=loader.function,
            help=Text(
                "{batch} for a batch x ({workers} workers x {prefetch} + 2): raise the limit, or use fewer workers",
                "每批 {batch} ×（{workers} 个 worker × {prefetch} + 2）：调大共享内存，或减少 worker",
                batch=shown(found.batch),
                workers=found.workers,
                prefetch=found.prefetch,
            ),
            notes=[note_at(project, shm.module, shm.pos, Text("{given} here", "此处为 {given}", given=given))],
        )


def shown(size: int) -> str:
    """Bytes as people write them."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"
