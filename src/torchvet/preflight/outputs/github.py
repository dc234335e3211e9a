"""GitHub Actions: an annotation for each failure and warning, then the text."""

from __future__ import annotations

import re

from ..probe import FAIL, UNKNOWN, WARN
from . import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport
    from . import Style

COMMANDS = {FAIL: "error", WARN: "warning", UNKNOWN: "notice"}
PER_LEVEL = 10
"""GitHub drops annotations of a level beyond this many in a step."""


def render(report: NodeReport, style: Style) -> str:
    out = []
    for level, command in COMMANDS.items():
        for r in [r for r in report.results if r.verdict == level][:PER_LEVEL]:
            said = r.message.render(style.language)
            if r.fix is not None:
                said += f"\n{text.FIX.render(style.language)}: {r.fix.render(style.language)}"
            out.append(f"::{command} title={_property('preflight ' + r.probe)}::{_data(said)}")
    # a line that starts like a workflow command would be one
    out += [re.sub(r"^\s*(?=::|##\[)", "./", line) for line in text.render(report, style).splitlines()]
    return "\n".join(out) + "\n"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
