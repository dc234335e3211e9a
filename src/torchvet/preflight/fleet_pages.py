"""What `torchvet explain` tells of the results that only a fleet has; they share one page."""

from __future__ import annotations

import os
import re

from torchvet.findings import Text

SUMMARY = Text("what the ranks of a job say together", "作业各 rank 的综合比较")


class Topic:
    """A name that a report can show, with the page that explains it."""

    area = "fleet"
    summary = SUMMARY

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text

    def page(self) -> str:
        return self._text


def topics() -> list[Topic]:
    """`fleet`, and each result of the page's table."""
    with open(os.path.join(os.path.dirname(__file__), "fleet.md"), encoding="utf-8") as f:
        text = f.read()
    rows = re.findall(r"^\| (fleet-[a-z, -]+) \|", text, re.MULTILINE)
    names = sorted({name for row in rows for name in row.split(", ")})
    return [Topic(name, text) for name in ("fleet", *names)]
