"""Settings for the search of a fault that stayed in what starts a training."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV611",
    name="debug-settings-left",
    severity=WARNING,
    since="0.1",
    summary=Text(
        "debug settings of NCCL, CUDA or torch.distributed left in a launch",
        "启动配置中遗留的 NCCL、CUDA 或 torch.distributed 调试设置",
    ),
)


@RULE.asking("deploy.env.leftovers")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{name}={value} is left on: {effect}",
                "{name}={value} 未关闭：{effect}",
                name=found.name,
                value=found.value,
                effect=EFFECTS[found.effect],
            ),
            severity=found.severity,
            help=Text(
                "remove it, or set it only for the run that looks for a fault",
                "请删除，或只在排查问题的那次运行中设置",
            ),
        )


EFFECTS = {
    "transport": Text("NCCL takes a slower way between the GPUs of a node", "NCCL 在节点内改走更慢的通道"),
    "network": Text("NCCL goes through TCP instead of InfiniBand", "NCCL 改用 TCP 而不是 InfiniBand"),
    "blocking": Text("the CPU waits for every kernel", "CPU 会等待每个 kernel"),
    "allocator": Text("every tensor is allocated by the driver", "每个张量都由驱动分配"),
    "checks": Text("every collective is checked by another one", "每次集合通信都会再做一次校验通信"),
    "pointers": Text("every call checks its pointers", "每次调用都会检查指针"),
    "log": Text("every rank writes a log of each communicator", "每个 rank 都会为各通信器写日志"),
}
