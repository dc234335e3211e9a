"""A file or folder cannot be read. Reported by the engine or the gate."""

from .._api import CERTAIN, WARNING, Rule, Text

RULE = Rule(
    code="TV004",
    name="unreadable-file",
    severity=WARNING,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("a file or folder cannot be read", "文件或目录无法读取"),
)
