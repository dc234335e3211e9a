"""A Python file cannot be parsed. Reported by the engine or the gate."""

from .._api import CERTAIN, ERROR, Rule, Text

RULE = Rule(
    code="TV003",
    name="syntax-error",
    severity=ERROR,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a Python file cannot be parsed", "Python 文件无法解析"),
)
