"""NCCL or Gloo bound to an interface that leads to no other node."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV612",
    name="loopback-interface",
    severity=ERROR,
    since="0.1",
    summary=Text("a loopback or bridge interface for ranks on several nodes", "多节点训练绑定到回环或网桥接口"),
)


@RULE.asking("deploy.env.interfaces")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{name}={value} reaches no other node, and the job has {nodes}",
                "{name}={value} 无法到达其他节点，而作业有 {nodes} 个节点",
                name=found.name,
                value=found.value,
                nodes=found.nodes,
            ),
            severity=found.severity,
            help=Text(
                "name the interface between the nodes (eth0, bond0, ib0), or exclude: ^lo,docker",
                "请填写节点间的网络接口（eth0、bond0、ib0），或使用排除写法：^lo,docker",
            ),
        )
