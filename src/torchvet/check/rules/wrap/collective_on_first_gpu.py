"""A collective over the current GPU in a program where that is GPU 0 on every rank."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV313",
    name="collective-on-first-gpu",
    severity=WARNING,
    since="0.1",
    summary=Text("a collective for which every rank uses GPU 0", "每个 rank 都使用 0 号 GPU 的集合通信"),
)


@RULE.asking("wrapping.processes.on_first_gpu")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for site in answers:
        notes = []
        if site.other is not None and site.other_function is not None:
            where = site.other_function.module
            notes.append(note_at(project, where, site.other[1], Text("NCCL is started here", "在这里启动 NCCL")))
        yield RULE.at(
            project,
            site.module,
            site.pos,
            Text(
                "every rank goes over GPU 0 here: nothing has made its own GPU the current one",
                "每个 rank 在此都使用 0 号 GPU：没有把自己的 GPU 设为当前设备",
            ),
            function=site.function,
            help=Text(
                'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first, or pass device_id=',
                '先调用 torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))，或传入 device_id=',
            ),
            notes=notes,
        )
