"""Torchvet itself failed on this file. Reported by the engine or the gate."""

from .._api import CERTAIN, ERROR, Rule, Text

RULE = Rule(
    code="TV009",
    name="internal-error",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("torchvet itself failed on this file", "torchvet 在该文件上自身出错"),
)
