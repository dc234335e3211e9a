"""A process for each GPU that never makes its GPU the current one."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV304",
    name="device-not-set",
    severity=WARNING,
    since="0.1",
    summary=Text("one process for each GPU without set_device", "每块 GPU 一个进程却没有 set_device"),
)


@RULE.asking("wrapping.processes.unset_devices")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for site in answers:
        if site.late and site.other is not None:
            yield RULE.at(
                project,
                site.module,
                site.pos,
                Text(
                    "every rank moves its model to GPU 0: its own device is set only afterwards",
                    "每个 rank 都把模型移到 0 号 GPU：之后才设置自己的设备",
                ),
                function=site.function,
                help=Text("call torch.cuda.set_device first", "先调用 torch.cuda.set_device"),
                notes=[note_at(project, site.module, site.other[1], Text("set here", "在此设置"))],
            )
            continue
        notes = []
        if site.other is not None and site.other_function is not None:
            where = site.other_function.module
            notes.append(
                note_at(
                    project, where, site.other[1], Text("each rank has its GPU here", "每个 rank 在此使用自己的 GPU")
                )
            )
        yield RULE.at(
            project,
            site.module,
            site.pos,
            Text(
                "the current device of every rank stays GPU 0: nothing calls set_device",
                "每个 rank 的当前设备仍是 0 号 GPU：没有调用 set_device",
            ),
            function=site.function,
            help=Text(
                'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before, or pass device_id=',
                '先调用 torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))，或传入 device_id=',
            ),
            notes=notes,
        )
