"""A random generator that a dataset stores: every worker gets a copy in the same state."""

from __future__ import annotations

from .._api import WARNING, Rule, Text, note_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV211",
    name="same-random-in-workers",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "a stored generator gives all workers the same numbers", "保存的随机数生成器让所有 worker 得到相同的数"
    ),
)


@RULE.asking("settings.generators.carried")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for held in answers:
        if not held.attribute and held.loader is not None:
            yield RULE.at(
                project,
                held.function.module,
                held.pos,
                Text(
                    "every worker is seeded with the same number: they draw the same numbers",
                    "每个 worker 都用同一个数作种子：取到的随机数也相同",
                ),
                function=held.function,
                help=Text(
                    "derive the seed from torch.initial_seed() % 2**32, or leave worker_init_fn out",
                    "由 torch.initial_seed() % 2**32 得出种子，或不传 worker_init_fn",
                ),
                notes=[
                    note_at(
                        project, held.loader.module, held.loader.pos, Text("run in each worker", "在每个 worker 中运行")
                    )
                ],
            )
            continue
        notes = [
            note_at(project, held.use_function.module, held.use[1], Text("a worker draws here", "worker 在此取随机数"))
        ]
        if held.loader is not None:
            text = Text("this loader copies it to each worker", "该 DataLoader 把它复制到每个 worker")
            notes.append(note_at(project, held.loader.module, held.loader.pos, text))
        yield RULE.at(
            project,
            held.function.module,
            held.pos,
            Text(
                "self.{name} starts in the same state in every worker: they draw the same numbers",
                "self.{name} 在每个 worker 中状态相同：取到的随机数也相同",
                name=held.attribute,
            ),
            function=held.function,
            help=Text(
                "make it in the worker, seeded with torch.utils.data.get_worker_info().seed",
                "在 worker 中创建，以 torch.utils.data.get_worker_info().seed 为种子",
            ),
            notes=notes,
        )
