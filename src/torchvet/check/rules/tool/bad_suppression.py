"""A suppression comment that names no rule or an unknown one. Reported by the engine or the gate."""

from .._api import CERTAIN, ERROR, Rule, Text

RULE = Rule(
    code="TV002",
    name="bad-suppression",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a suppression comment that names no rule or an unknown one", "抑制注释没有写规则名或规则名未知"),
)
