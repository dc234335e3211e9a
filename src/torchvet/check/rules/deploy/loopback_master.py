"""Ranks of several nodes that meet at an address of their own node."""

from __future__ import annotations

from .._api import ERROR, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Answers, Finding
    from ..project import Project

RULE = Rule(
    code="TV613",
    name="loopback-master",
    severity=ERROR,
    since="0.1",
    summary=Text("a loopback address where ranks of several nodes meet", "多节点的汇合地址是回环地址"),
)


@RULE.asking("deploy.env.addresses")
def check(project: Project, answers: Answers) -> Iterator[Finding]:
    for found in answers:
        yield RULE.at(
            project,
            found.module,
            found.pos,
            Text(
                "{name} is {value}: each of the {nodes} nodes waits for the others at itself",
                "{name} 为 {value}：{nodes} 个节点各自在本机等待其他节点",
                name=found.name,
                value=found.value,
                nodes=found.nodes,
            ),
            severity=found.severity,
            help=Text(
                "give the address of the first node, the same on all of them",
                "请填写第一个节点的地址，所有节点相同",
            ),
        )
