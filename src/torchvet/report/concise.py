"""One line a finding, for editors, quickfix lists and problem matchers: `path:line:column: severity[name] message`."""

from __future__ import annotations

from torchvet.findings.columns import visible
from torchvet.report.place import spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.report import Report


def render(report: Report) -> str:
    return "".join(
        f"{visible(spoken(f))}: {f.severity}[{f.name}] {visible(report.say(f.message))}\n" for f in report.worst_first()
    )
