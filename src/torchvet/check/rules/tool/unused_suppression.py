"""A suppression comment that suppresses nothing. Reported by the engine or the gate."""

from .._api import CERTAIN, NOTE, Rule, Text

RULE = Rule(
    code="TV001",
    name="unused-suppression",
    severity=NOTE,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a suppression comment that suppresses nothing", "没有抑制任何问题的抑制注释"),
)
