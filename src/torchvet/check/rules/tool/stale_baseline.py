"""Entries of the baseline that fit no finding. Reported by the gate, not by a look at the program."""

from .._api import CERTAIN, NOTE, Rule, Text

RULE = Rule(
    code="TV005",
    name="stale-baseline",
    severity=NOTE,
    confidence=CERTAIN,
    since="0.1",
    summary=Text("entries of the baseline that fit no finding", "基线中已无对应问题的记录"),
)
